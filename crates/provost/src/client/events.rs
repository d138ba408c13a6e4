//! The live stream: server-sent events.

use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::error::{Error, Exit};

/// Longest event that is kept.
const MAX_EVENT: usize = 1 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Sequence of the record.
    pub id: String,
    /// Type of the record, or `reset`.
    pub kind: String,
    /// The record.
    pub data: String,
}

/// Hands out events until `see` has enough, or the server ends.
pub async fn follow(
    mut body: Incoming,
    see: &mut dyn FnMut(Event) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut parser = Parser::default();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|e| Error::new(Exit::Unreachable, "the stream broke off").why(e.to_string()))?;
        let Some(bytes) = frame.data_ref() else { continue };
        for event in parser.push(bytes)? {
            if !see(event)? {
                return Ok(());
            }
        }
    }
    Err(Error::new(Exit::Unreachable, "the server has ended the stream"))
}

/// Cuts the stream into events.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    event: Event,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > MAX_EVENT {
                    return Err(Error::new(Exit::Failure, "an event is larger than 1 MiB"));
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
            self.line.clear();
            if line.is_empty() {
                if !self.event.data.is_empty() || !self.event.kind.is_empty() {
                    events.push(std::mem::take(&mut self.event));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut self.event.id),
                "event" => value.clone_into(&mut self.event.kind),
                "data" => self.event.data.push_str(value),
                // Comments keep the connection alive.
                _ => {}
            }
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_cut_wherever_the_bytes_are_cut() {
        let stream =
            b": alive\n\nid: 7\nevent: hold.placed\ndata: {\"a\":1}\n\nid: 8\r\nevent: x\r\ndata: y\r\n\r\n";
        for cut in 0..stream.len() {
            let mut parser = Parser::default();
            let mut events = parser.push(&stream[..cut]).unwrap();
            events.extend(parser.push(&stream[cut..]).unwrap());
            let expected = [("7", "hold.placed", "{\"a\":1}"), ("8", "x", "y")];
            let found: Vec<_> =
                events.iter().map(|e| (e.id.as_str(), e.kind.as_str(), e.data.as_str())).collect();
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
}
