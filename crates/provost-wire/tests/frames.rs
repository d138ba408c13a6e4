//! Frames as peers of any kind and version send them.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use provost_model::body::SourceState;
use provost_model::effect::{Approach, EffectResult};
use provost_model::signal::{Impact, Signal, SignalFields, SignalKind, Trust};
use provost_model::time::Timestamp;
use provost_wire::*;

fn signal(line: &str) -> Signal {
    Signal {
        node: "gpu001".into(),
        kind: SignalKind::Xid,
        code: Some(79),
        pci: Some("0000:3b:00.0".parse().unwrap()),
        impact: Impact::Critical,
        fields: SignalFields { pid: Some(7), ..SignalFields::default() },
        at: Timestamp::from_millis(1_796_072_400_123),
        boot_id: None,
        sequence: Some(u64::from(u32::MAX) + 1),
        historic: false,
        trust: Trust::Kernel,
        line: line.into(),
    }
}

fn to_server() -> Vec<ToServer> {
    vec![
        Hello {
            protocol: PROTOCOL,
            node: "gpu001".into(),
            version: "0.1.0".into(),
            instance: 3,
            boot_id: Some("b".into()),
            actions: BTreeSet::from(["gpu_reset".to_owned()]),
            gpus: None,
        }
        .into(),
        Signals { batch: 1, signals: vec![signal("NVRM: x"), signal("\u{0}\"é")], dropped: 2 }.into(),
        Heartbeat { at: Timestamp::from_millis(5), queued: 1, kernel_log: SourceState::Blind }.into(),
        OrderResult {
            intent: 12,
            epoch: 3,
            result: EffectResult::Unknown { code: "timeout".into() },
            facts: OrderFacts { exit_code: Some(-1), output_bytes: 9, ..OrderFacts::default() },
        }
        .into(),
        Unparsed { count: 3, lost: 4 }.into(),
        EnrolRequest { token: "secret".into(), node: "gpu001".into(), csr_pem: "-".into() }.into(),
        RenewRequest { csr_pem: "-".into() }.into(),
    ]
}

fn to_agent() -> Vec<ToAgent> {
    vec![
        Welcome { epoch: 4, server_time: Timestamp::from_millis(1), heartbeat_ms: 1_000 }.into(),
        Ack { batch: 9 }.into(),
        Order {
            intent: 12,
            epoch: 4,
            approach: Approach::Act,
            action: "gpu_reset".into(),
            node: "gpu001".into(),
            pci: Some("0000:3b:00.0".parse().unwrap()),
            expires_at: Timestamp::from_millis(9),
        }
        .into(),
        EnrolReply { cert_pem: "c".into(), ca_pem: "a".into(), expires_at: Timestamp::from_millis(9) }.into(),
        Refused { code: "token_invalid".into(), message: "make a new one".into() }.into(),
        Standing { may_work: false, why: "provost INC-2026-000001: GPU 0 lost".into() }.into(),
    ]
}

fn stream<M: Message>(messages: &[M]) -> Vec<u8> {
    messages.iter().flat_map(|message| encode(message).unwrap()).collect()
}

fn check_round_trip<M: Message + PartialEq + std::fmt::Debug>(messages: &[M]) {
    let bytes = stream(messages);
    for piece in [1, 2, 3, 7, 100, bytes.len()] {
        let (mut decoder, mut read) = (Decoder::<M>::new(), Vec::new());
        for chunk in bytes.chunks(piece) {
            decoder.push(chunk);
            while let Some(message) = decoder.next_message().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages);
        assert!(decoder.is_at_boundary());
    }
    let mut reader = bytes.as_slice();
    for message in messages {
        assert_eq!(read_message::<M>(&mut reader).unwrap().as_ref(), Some(message));
    }
    assert!(read_message::<M>(&mut reader).unwrap().is_none());
    for cut in 1..bytes.len() {
        let mut reader = &bytes[..cut];
        let end = std::iter::repeat_with(|| read_message::<M>(&mut reader))
            .find(|read| !matches!(read, Ok(Some(_))));
        assert!(matches!(end, Some(Ok(None) | Err(WireError::Cut))), "cut at {cut}: {end:?}");
    }
}

#[test]
fn messages_are_read_as_written() {
    check_round_trip(&to_server());
    check_round_trip(&to_agent());
    let mut written = Vec::new();
    write_message(&mut written, &to_agent()[1]).unwrap();
    assert_eq!(written, b"\x00\x00\x00\x0c\x82{\"batch\":9}");
}

fn frame(kind: u8, body: &str) -> Vec<u8> {
    let mut frame = u32::try_from(body.len() + 1).unwrap().to_be_bytes().to_vec();
    frame.push(kind);
    frame.extend_from_slice(body.as_bytes());
    frame
}

#[test]
fn what_a_newer_peer_adds_is_passed_over() {
    let mut decoder = Decoder::<ToAgent>::new();
    decoder.push(&frame(200, "of a kind of the next version"));
    decoder.push(&frame(130, "{\"batch\":9,\"added\":{\"later\":[1]}}"));
    assert_eq!(decoder.next_message().unwrap(), Some(Ack { batch: 9 }.into()));
    assert_eq!((decoder.next_message().unwrap(), decoder.skipped()), (None, 1));
}

#[test]
fn bad_frames_are_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let mut decoder = Decoder::<ToAgent>::new();
        decoder.push(bytes);
        assert_eq!(decoder.next_message().unwrap_err().to_string(), expected);
        let mut reader = bytes;
        assert_eq!(read_message::<ToAgent>(&mut reader).unwrap_err().to_string(), expected);
    };
    check(b"\0\0\0\0", "a frame of no bytes");
    check(b"\xff\xff\xff\xff", "a body of 4294967294 bytes is longer than the 262144 that a frame may have");
    check(b"\0\x04\0\x02", "a body of 262145 bytes is longer than the 262144 that a frame may have");
    check(&frame(130, "{\"batch\":-1}"), "the body of a frame of kind 130 is malformed at byte 11");
    check(&frame(130, ""), "the body of a frame of kind 130 is malformed at byte 0");
    check(&frame(130, &"[".repeat(1_000)), "the body of a frame of kind 130 is malformed at byte 1");
    // Kinds belong to one direction.
    let mut decoder = Decoder::<ToServer>::new();
    decoder.push(&frame(130, "{\"batch\":1}"));
    assert_eq!((decoder.next_message().unwrap(), decoder.skipped()), (None, 1));
}

#[test]
fn a_malformed_body_leaves_the_next_frame_readable() {
    let mut decoder = Decoder::<ToAgent>::new();
    decoder.push(&frame(130, "{"));
    decoder.push(&frame(130, "{\"batch\":2}"));
    assert!(matches!(decoder.next_message(), Err(WireError::Malformed { kind: 130, .. })));
    assert_eq!(decoder.next_message().unwrap(), Some(Ack { batch: 2 }.into()));
}

#[test]
fn a_message_that_is_too_long_is_not_sent() {
    let request = ToServer::from(RenewRequest { csr_pem: "x".repeat(MAX_BODY) });
    assert!(matches!(encode(&request), Err(WireError::TooLong { .. })));
}

#[test]
fn a_token_is_not_printed() {
    assert!(!format!("{:?}", to_server()).contains("secret"));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2_000), piece in 1_usize..64) {
        let mut decoder = Decoder::<ToServer>::new();
        'all: for chunk in bytes.chunks(piece) {
            decoder.push(chunk);
            loop {
                match decoder.next_message() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(WireError::Malformed { .. }) => break,
                    Err(_) => break 'all,
                }
            }
        }
    }

    #[test]
    fn a_damaged_stream_is_survived(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let messages = to_server();
        let mut bytes = stream(&messages);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut decoder = Decoder::<ToServer>::new();
        decoder.push(&bytes);
        let mut read = 0;
        loop {
            match decoder.next_message() {
                Ok(Some(_)) => read += 1,
                Ok(None) => break,
                Err(WireError::Malformed { .. }) => {}
                Err(_) => break,
            }
        }
        prop_assert!(read <= messages.len());
    }
}
