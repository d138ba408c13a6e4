//! What reads bytes from outside, one function each, for a fuzzer that looks for bytes that break it. Each says beside
//! "it does not panic" what must hold of whatever was read.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use provost_agent::kernel_log::{Explain, Format, Parser};
use provost_journal::note::Checkpoint;
use provost_model::catalogue::Catalogue;
use provost_model::record::Record;
use provost_wire::{Decoder, Message, ToAgent, ToServer, encode};

/// One reader.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As in `cargo xtask fuzz NAME`.
    pub name: &'static str,
    /// Reads, and checks what it read.
    ///
    /// # Panics
    /// Where something does not hold: that is what the fuzzer looks for.
    pub run: fn(&[u8]),
}

/// All readers.
pub const TARGETS: &[Target] = &[
    Target { name: "kernel_log", run: kernel_log },
    Target { name: "wire", run: wire },
    Target { name: "record", run: record },
    Target { name: "checkpoint", run: checkpoint },
    Target { name: "agent_config", run: agent_config },
    Target { name: "runbook", run: runbook },
];

static CATALOGUE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| Arc::new(Catalogue::embedded()));

/// A kernel log that anybody on a node may have written into: the first byte chooses how it is read. Every line comes out
/// once, and a raised line was understood.
fn kernel_log(bytes: &[u8]) {
    let Some((choice, log)) = bytes.split_first() else { return };
    let format = [Format::Kmsg, Format::Text, Format::Any][usize::from(choice % 3)];
    let driver = (choice & 0x80 != 0).then_some(570);
    let mut last = 0;
    for line in Explain::new(log, format, Parser::new(Arc::clone(&CATALOGUE), driver)) {
        let line = line.expect("memory can be read");
        assert!(line.line > last, "lines come in their order");
        assert!(line.parses || !line.raises, "only what was understood raises: {line:?}");
        last = line.line;
    }
}

/// What comes over an agent's connection, in both directions.
fn wire(bytes: &[u8]) {
    fn both_ways<M: Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        let (whole, pieces) = (decode::<M>(bytes, bytes.len().max(1)), decode::<M>(bytes, 3));
        assert_eq!(whole, pieces, "how the bytes are cut changes nothing");
        for message in whole {
            let again = decode::<M>(&encode(&message).expect("what was read can be written"), usize::MAX);
            assert_eq!(again, [message]);
        }
    }
    both_ways::<ToServer>(bytes);
    both_ways::<ToAgent>(bytes);
}

fn decode<M: Message>(bytes: &[u8], piece: usize) -> Vec<M> {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}

/// A record out of somebody's journal. Its canonical form is one: reading it gives the same again.
fn record(bytes: &[u8]) {
    let Ok(record) = Record::parse(bytes) else { return };
    let Ok(canonical) = record.canonical() else { return };
    let again = Record::parse(&canonical).expect("the canonical form can be read");
    assert_eq!(again.canonical().expect("and written"), canonical);
}

/// A checkpoint that a witness or an auditor was handed. There is one text for each.
fn checkpoint(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(checkpoint) = Checkpoint::parse(text) {
        assert!(text.starts_with(&checkpoint.text()), "two texts for one checkpoint: {text:?}");
    }
}

/// An agent's configuration: errors have places, and there is at least one where it was refused.
fn agent_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(refused) = provost_agent::Config::parse(text, Path::new("/nowhere")) {
        let lines = text.split('\n').count();
        assert!(!refused.errors.is_empty());
        assert!(refused.errors.iter().all(|error| error.line.is_none_or(|line| (1..=lines).contains(&line))));
    }
}

/// A runbook: what is read can be looked over.
fn runbook(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(runbook) = provost_engine::runbook::parse(text) {
        provost_engine::runbook::lint(&runbook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that broke a reader once, and a few that every reader should see.
    const KNOWN: &[&[u8]] = &[
        b"",
        b"\x00",
        b"\xff\xff\xff\xff\xff",
        b"\x000,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
        b"\x81[    1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=a\n b, Ch 0",
        b"\x00\x00\x00\x03\x03{}",
        b"site\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        b"server = 1\n[[node]]\nname = 2\n",
        b"id: a\nsteps: [{do: node.hold}]\n",
    ];

    #[test]
    fn every_reader_is_fuzzed() {
        let list = include_str!("../../../xtask/src/fuzz.rs");
        for target in TARGETS {
            assert!(
                list.contains(&format!("(\"{}\", ", target.name)),
                "{} is not in xtask/src/fuzz.rs",
                target.name
            );
        }
    }

    #[test]
    fn known_bytes_break_nothing() {
        for target in TARGETS {
            for bytes in KNOWN {
                (target.run)(bytes);
            }
        }
    }
}
