//! The hash tree of RFC 6962: why one record, or the whole, can be proved with a handful of hashes.
//!
//! A journal only grows, so the tree is kept as its *frontier*: the roots of the full subtrees that the size
//! is the sum of, largest first. Appending and the root need nothing else. Proofs need hashes from inside the
//! tree; whoever has them (hash tiles, stored records) is a [`Hashes`].

use aws_lc_rs::digest::{Context, SHA256, digest};

/// A SHA-256 value.
pub type Hash = [u8; 32];

/// The root of the tree without leaves: SHA-256 of nothing.
pub fn empty_root() -> Hash {
    to_hash(digest(&SHA256, b"").as_ref())
}

/// The hash of a leaf: SHA-256 over 0x00 and the record's bytes.
pub fn leaf_hash(bytes: &[u8]) -> Hash {
    // One call over one buffer costs half of a context with two updates; records are seldom larger.
    let mut buffer = [0u8; 1024];
    if let Some(message) = buffer.get_mut(..=bytes.len()) {
        message[1..].copy_from_slice(bytes);
        return to_hash(digest(&SHA256, message).as_ref());
    }
    let mut context = Context::new(&SHA256);
    context.update(&[0]);
    context.update(bytes);
    to_hash(context.finish().as_ref())
}

/// The hash of an inner node: SHA-256 over 0x01 and both children.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut message = [1u8; 65];
    message[1..33].copy_from_slice(left);
    message[33..].copy_from_slice(right);
    to_hash(digest(&SHA256, &message).as_ref())
}

fn to_hash(bytes: &[u8]) -> Hash {
    bytes.try_into().expect("SHA-256 gives 32 bytes")
}

/// A growing tree, kept as its frontier of at most 64 hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    frontier: Vec<Hash>,
}

impl Tree {
    /// The tree without leaves.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// The tree of `size` leaves with that frontier; `None` where the number of hashes does not fit the size.
    pub fn from_frontier(size: u64, frontier: Vec<Hash>) -> Option<Tree> {
        (frontier.len() == size.count_ones() as usize).then_some(Tree { size, frontier })
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Roots of the full subtrees, largest first.
    pub fn frontier(&self) -> &[Hash] {
        &self.frontier
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: Hash) {
        // One merge for each carry of the binary addition size + 1.
        let mut hash = leaf;
        for _ in 0..self.size.trailing_ones() {
            let left = self.frontier.pop().expect("the frontier has a hash for each one-bit of the size");
            hash = node_hash(&left, &hash);
        }
        self.frontier.push(hash);
        self.size += 1;
    }

    /// The root.
    pub fn root(&self) -> Hash {
        self.frontier
            .iter()
            .rev()
            .copied()
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or_else(empty_root)
    }
}

/// Gives hashes from inside a tree.
pub trait Hashes {
    /// Why a hash can't be had.
    type Error;

    /// The root of the full subtree of 2^`level` leaves that begins at leaf `index` · 2^`level`.
    ///
    /// # Errors
    /// Where the hash can't be read.
    fn node(&mut self, level: u32, index: u64) -> Result<Hash, Self::Error>;
}

/// Leaf hashes in memory.
impl Hashes for &[Hash] {
    type Error = std::convert::Infallible;

    fn node(&mut self, level: u32, index: u64) -> Result<Hash, Self::Error> {
        let mut tree = Tree::new();
        let first = (index << level) as usize;
        self[first..first + (1 << level)].iter().for_each(|leaf| tree.push(*leaf));
        Ok(tree.root())
    }
}

/// The root over leaves `from..to`, which is a subtree of RFC 6962's recursion, so that every left part is
/// full and aligned.
fn range_root<H: Hashes>(hashes: &mut H, from: u64, to: u64) -> Result<Hash, H::Error> {
    let count = to - from;
    if count.is_power_of_two() {
        let level = count.trailing_zeros();
        return hashes.node(level, from >> level);
    }
    let split = from + largest_power_below(count);
    let left = range_root(hashes, from, split)?;
    let right = range_root(hashes, split, to)?;
    Ok(node_hash(&left, &right))
}

/// The largest power of two smaller than `count`, which is at least 2.
fn largest_power_below(count: u64) -> u64 {
    1 << (63 - (count - 1).leading_zeros())
}

/// The proof that leaf `index` is in the tree of `size` leaves, as RFC 6962, 2.1.1 orders it. Empty where
/// `index` is not below `size`.
///
/// # Errors
/// Where a hash can't be read.
pub fn inclusion_proof<H: Hashes>(hashes: &mut H, index: u64, size: u64) -> Result<Vec<Hash>, H::Error> {
    let (mut from, mut to) = (0, size);
    let mut proof = Vec::new();
    while index < size && to - from > 1 {
        let split = from + largest_power_below(to - from);
        if index < split {
            proof.push(range_root(hashes, split, to)?);
            to = split;
        } else {
            proof.push(range_root(hashes, from, split)?);
            from = split;
        }
    }
    proof.reverse();
    Ok(proof)
}

/// The proof that the tree of `old` leaves is a beginning of the tree of `new` leaves, as RFC 6962, 2.1.2
/// orders it. Empty where `old` is 0 or not below `new`.
///
/// # Errors
/// Where a hash can't be read.
pub fn consistency_proof<H: Hashes>(hashes: &mut H, old: u64, new: u64) -> Result<Vec<Hash>, H::Error> {
    let mut proof = Vec::new();
    if old == 0 || old >= new {
        return Ok(proof);
    }
    let (mut from, mut to) = (0, new);
    while old != to {
        let split = from + largest_power_below(to - from);
        if old <= split {
            proof.push(range_root(hashes, split, to)?);
            to = split;
        } else {
            proof.push(range_root(hashes, from, split)?);
            from = split;
        }
    }
    // Where the old tree is a whole left edge, its root is known to whoever checks.
    if from != 0 {
        proof.push(range_root(hashes, from, to)?);
    }
    proof.reverse();
    Ok(proof)
}

/// The root that follows from a leaf and its inclusion proof (RFC 9162, 2.1.3.2); `None` where the proof has
/// not the shape that index and size ask for.
pub fn root_from_inclusion(leaf: Hash, index: u64, size: u64, proof: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut node, mut last) = (index, size - 1);
    let mut root = leaf;
    for sibling in proof {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            root = node_hash(sibling, &root);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            root = node_hash(&root, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(root)
}

/// Whether `proof` shows that the old tree is a beginning of the new one (RFC 9162, 2.1.4.2).
pub fn consistent(old: u64, old_root: &Hash, new: u64, new_root: &Hash, proof: &[Hash]) -> bool {
    if old == new {
        return proof.is_empty() && old_root == new_root;
    }
    if old == 0 {
        return proof.is_empty() && *old_root == empty_root();
    }
    if old > new {
        return false;
    }
    let (first, rest) = match proof.split_first() {
        _ if old.is_power_of_two() => (*old_root, proof),
        Some((first, rest)) => (*first, rest),
        None => return false,
    };
    let shift = (old - 1).trailing_ones();
    let (mut node, mut last) = ((old - 1) >> shift, (new - 1) >> shift);
    let (mut from_old, mut from_new) = (first, first);
    for sibling in rest {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            from_old = node_hash(sibling, &from_old);
            from_new = node_hash(sibling, &from_new);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            from_new = node_hash(&from_new, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && from_old == *old_root && from_new == *new_root
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 6962, 2.1 written down as it stands there.
    fn naive_root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let mut split = 1;
                while split * 2 < leaves.len() {
                    split *= 2;
                }
                node_hash(&naive_root(&leaves[..split]), &naive_root(&leaves[split..]))
            }
        }
    }

    fn leaves(count: usize) -> Vec<Hash> {
        (0..count).map(|i| leaf_hash(&i.to_le_bytes())).collect()
    }

    fn hex(hash: Hash) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn known_hashes() {
        // The values that every RFC 6962 log has in its tests: the empty root and the hash of the empty leaf.
        assert_eq!(hex(empty_root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(leaf_hash(b"")), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
        let large = vec![7u8; 70_000];
        let mut prefixed = vec![0u8];
        prefixed.extend_from_slice(&large);
        assert_eq!(leaf_hash(&large).as_slice(), digest(&SHA256, &prefixed).as_ref());
        for size in [1022, 1023, 1024, 1025] {
            assert_eq!(leaf_hash(&large[..size]).as_slice(), digest(&SHA256, &prefixed[..=size]).as_ref());
        }
    }

    #[test]
    fn every_size_up_to_70_has_the_naive_root_and_proofs_for_every_leaf() {
        let all = leaves(70);
        let mut tree = Tree::new();
        for size in 0..=all.len() {
            assert_eq!(tree.root(), naive_root(&all[..size]), "size {size}");
            let again = Tree::from_frontier(tree.size(), tree.frontier().to_vec()).unwrap();
            assert_eq!(again, tree);
            for (index, leaf) in all[..size].iter().enumerate() {
                let proof = inclusion_proof(&mut all.as_slice(), index as u64, size as u64).unwrap();
                assert_eq!(
                    root_from_inclusion(*leaf, index as u64, size as u64, &proof),
                    Some(tree.root()),
                    "{index} of {size}"
                );
            }
            for old in 0..=size {
                let proof = consistency_proof(&mut all.as_slice(), old as u64, size as u64).unwrap();
                let old_root = naive_root(&all[..old]);
                assert!(consistent(old as u64, &old_root, size as u64, &tree.root(), &proof), "{old} {size}");
                assert!(!consistent(old as u64, &[1; 32], size as u64, &tree.root(), &proof), "{old} {size}");
            }
            if let Some(leaf) = all.get(size) {
                tree.push(*leaf);
            }
        }
        assert!(Tree::from_frontier(5, vec![[0; 32]]).is_none());
    }

    proptest! {
        #[test]
        fn a_changed_proof_or_place_never_gives_the_root(
            size in 2u64..600, at in 0u64..600, part in 0usize..20, bit in 0usize..256, other in 0u64..600,
        ) {
            let index = at % size;
            let all = leaves(size as usize);
            let root = naive_root(&all);
            let leaf = all[index as usize];
            let proof = inclusion_proof(&mut all.as_slice(), index, size).unwrap();
            let mut broken = proof.clone();
            let part = part % proof.len();
            broken[part][bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(root_from_inclusion(leaf, index, size, &broken), Some(root));
            prop_assert_eq!(root_from_inclusion(leaf, index, size, &proof[1..]), None);
            if other % size != index {
                prop_assert_ne!(root_from_inclusion(leaf, other % size, size, &proof), Some(root));
            }
        }

        #[test]
        fn a_rewritten_beginning_is_never_consistent(old in 1u64..300, more in 1u64..300, at in 0u64..300) {
            let new = old + more;
            let all = leaves(new as usize);
            let mut rewritten = all.clone();
            rewritten[(at % old) as usize] = leaf_hash(b"something else");
            let proof = consistency_proof(&mut rewritten.as_slice(), old, new).unwrap();
            let old_root = naive_root(&all[..old as usize]);
            prop_assert!(!consistent(old, &old_root, new, &naive_root(&rewritten), &proof));
        }
    }
}
