//! A tree of random generators. Each part of the site draws from a child of its own, named, so that a part that
//! draws more or less than before changes nothing for the others.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// One generator of the tree.
#[derive(Clone, Debug)]
pub struct Draw {
    seed: u64,
    rng: ChaCha8Rng,
}

impl Draw {
    /// The root for a seed.
    pub fn root(seed: u64) -> Draw {
        Draw { seed, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The child of this name. It depends on the names up to the root and on nothing that was drawn.
    pub fn child(&self, name: &str) -> Draw {
        // FNV-1a over the parent's seed and the name.
        let bytes = self.seed.to_le_bytes().into_iter().chain(name.bytes());
        Draw::root(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// A number below `n`; 0 where `n` is 0. The bias of the remainder does not matter to a story.
    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n.max(1)
    }

    /// An index into `len` things.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A length of time from `low` up to, not including, `high`, in whole milliseconds.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let width = u64::try_from(high.saturating_sub(low).as_millis()).unwrap_or(u64::MAX);
        low + Duration::from_millis(self.below(width))
    }

    /// A length of time from `low` up to, not including, `high` milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.between(Duration::from_millis(low), Duration::from_millis(high))
    }

    /// One of `things`; none where there are none.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        things.get(self.index(things.len()))
    }

    /// `things` in another order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_depends_on_its_name_alone() {
        let mut root = Draw::root(7);
        let before: Vec<u64> = (0..4)
            .map({
                let mut child = root.child("jobs");
                move |_| child.below(1_000)
            })
            .collect();
        root.below(10);
        let mut child = root.child("jobs");
        assert_eq!(before, (0..4).map(|_| child.below(1_000)).collect::<Vec<_>>());
        let mut other = root.child("faults");
        assert_ne!(before, (0..4).map(|_| other.below(1_000)).collect::<Vec<_>>());
        let mut another = Draw::root(8).child("jobs");
        assert_ne!(before, (0..4).map(|_| another.below(1_000)).collect::<Vec<_>>());
    }

    #[test]
    fn draws_stay_inside_their_limits() {
        let mut draw = Draw::root(1);
        let mut order: Vec<u32> = (0..50).collect();
        draw.shuffle(&mut order);
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
        for _ in 0..1_000 {
            assert!(draw.below(3) < 3);
            let drawn = draw.millis(10, 20).as_millis();
            assert!((10..20).contains(&drawn));
        }
        assert_eq!(draw.millis(5, 5), Duration::from_millis(5));
        assert_eq!(draw.pick::<u8>(&[]), None);
        assert!(!draw.chance(0));
        assert!(draw.chance(100));
    }
}
