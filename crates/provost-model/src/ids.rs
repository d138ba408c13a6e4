//! Typed ids. An id is made from counters only, so that the engine needs no randomness and a replay makes the
//! same ids again: a UUID of version 8 over (site, kind, sequence of the first record of the step, ordinal).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text is not an id of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an id such as {prefix}_00000000-0000-8000-8000-000000000000")]
pub struct ParseIdError {
    text: String,
    prefix: &'static str,
}

/// Makes the ids of one step: `seq` is the sequence that the step's first record gets.
#[derive(Clone, Debug)]
pub struct IdSource {
    site: u32,
    seq: u64,
    ordinal: u16,
}

impl IdSource {
    /// A source for the step whose first record has the sequence `seq`.
    pub fn new(site: &str, seq: u64) -> IdSource {
        // FNV-1a; the site only keeps ids of two sites apart when their journals are read together.
        let site =
            site.bytes().fold(0x811c_9dc5_u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193));
        IdSource { site, seq, ordinal: 0 }
    }

    /// The next id of the kind `I`.
    pub fn make<I: From<Id> + Kind>(&mut self) -> I {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        I::from(Id::pack(self.site, I::CODE, self.seq, ordinal))
    }
}

/// What an id names.
pub trait Kind {
    /// A number of its own for each kind, for ever.
    const CODE: u8;
    /// What is written before the underscore.
    const PREFIX: &'static str;
}

/// The 128 bits of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u128);

impl Id {
    /// Layout: 32 bits site, 16 bits of sequence, version 8, 12 bits of sequence, variant, 8 bits kind,
    /// 28 bits of sequence, 16 bits ordinal, filled from the top; 56 bits of sequence in all.
    fn pack(site: u32, kind: u8, seq: u64, ordinal: u16) -> Id {
        let seq = u128::from(seq & 0x00ff_ffff_ffff_ffff);
        let bits = (u128::from(site) << 96)
            | ((seq >> 40) << 80)
            | (8 << 76)
            | (((seq >> 28) & 0xfff) << 64)
            | (0b10 << 62)
            | (u128::from(kind) << 52)
            | ((seq & 0x0fff_ffff) << 16)
            | u128::from(ordinal);
        Id(bits)
    }

    fn write(self, f: &mut fmt::Formatter<'_>, prefix: &str) -> fmt::Result {
        let mut text = *b"_00000000-0000-0000-0000-000000000000";
        let mut bits = self.0;
        for digit in text.iter_mut().rev().filter(|byte| **byte == b'0') {
            *digit = b"0123456789abcdef"[(bits & 0xf) as usize];
            bits >>= 4;
        }
        f.write_str(prefix)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }

    fn parse(text: &str, prefix: &'static str) -> Result<Id, ParseIdError> {
        let error = || ParseIdError { text: text.chars().take(60).collect(), prefix };
        let uuid = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or_else(error)?;
        let dashes = [8, 13, 18, 23];
        if uuid.len() != 36 {
            return Err(error());
        }
        let mut bits = 0;
        for (i, byte) in uuid.bytes().enumerate() {
            bits = match byte {
                b'-' if dashes.contains(&i) => continue,
                b'0'..=b'9' if !dashes.contains(&i) => bits << 4 | u128::from(byte - b'0'),
                b'a'..=b'f' if !dashes.contains(&i) => bits << 4 | u128::from(byte - b'a' + 10),
                _ => return Err(error()),
            };
        }
        Ok(Id(bits))
    }
}

macro_rules! id_kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Id);

        impl Kind for $name {
            const CODE: u8 = $code;
            const PREFIX: &'static str = $prefix;
        }
        impl From<Id> for $name {
            fn from(id: Id) -> $name {
                $name(id)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, $prefix)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, $prefix)
            }
        }
        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<$name, ParseIdError> {
                Id::parse(text, $prefix).map($name)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

id_kinds! {
    /// One record of the journal.
    RecordId = 1, "rec";
    /// One node, for as long as it is known; its name may move.
    NodeId = 2, "node";
    /// One deduplicated condition on one subject.
    AlertId = 3, "alert";
    /// One incident; people say its number.
    IncidentId = 4, "inc";
    /// One reason why a node or gpu gets no new work.
    HoldId = 5, "hold";
    /// One run of a runbook.
    ExecutionId = 6, "exec";
    /// One promise of a node's capacity.
    SlotId = 7, "slot";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_read_back() {
        let mut source = IdSource::new("hel-1", 0x00ab_cdef_0123_4567);
        let node: NodeId = source.make();
        let hold: HoldId = source.make();
        assert_ne!(node.to_string()[5..], hold.to_string()[5..]);
        assert_eq!(node.to_string().parse::<NodeId>().unwrap(), node);
        assert!(node.to_string().parse::<HoldId>().is_err());
        // RFC 9562: version 8 in the 13th digit, variant 10 in the 17th.
        let text = hold.to_string();
        assert_eq!(&text[5 + 14..5 + 15], "8");
        assert!("89ab".contains(&text[5 + 19..5 + 20]));
    }

    #[test]
    fn the_same_counters_make_the_same_id() {
        let id = |site, seq| IdSource::new(site, seq).make::<AlertId>();
        assert_eq!(id("a", 7), id("a", 7));
        assert_ne!(id("a", 7), id("b", 7));
        assert_ne!(id("a", 7), id("a", 8));
    }

    #[test]
    fn other_text_is_no_id() {
        for text in [
            "",
            "node_",
            "node_00000000-0000-8000-8000-00000000000",
            "node_00000000-0000-8000-8000-00000000000G",
        ] {
            assert!(text.parse::<NodeId>().is_err(), "{text}");
        }
    }
}
