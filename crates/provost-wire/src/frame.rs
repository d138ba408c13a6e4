//! Frames: length, kind, body.

use std::io::{self, Read, Write};
use std::marker::PhantomData;

use crate::MAX_BODY;

const LENGTH: usize = 4;

/// The messages of one direction.
pub trait Message: Sized {
    /// Number of its kind.
    fn kind(&self) -> u8;

    /// Its body.
    ///
    /// # Errors
    /// Where JSON can't express it.
    fn body(&self) -> serde_json::Result<Vec<u8>>;

    /// Reads a body; none where the kind is not known.
    fn from_body(kind: u8, body: &[u8]) -> Option<serde_json::Result<Self>>;
}

/// Why a message can't be sent or read. The peer can't be trusted to be in step after any of these, save
/// [`WireError::Malformed`]: there the frame was whole, and the next one follows it.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A frame's body would have, or claims to have, more than [`MAX_BODY`] bytes.
    #[error("a body of {length} bytes is longer than the {MAX_BODY} that a frame may have")]
    TooLong {
        /// Bytes of the body.
        length: usize,
    },
    /// A frame without a kind.
    #[error("a frame of no bytes")]
    Empty,
    /// The body is not what its kind says. The text of the cause is left out: it may quote the body.
    #[error("the body of a frame of kind {kind} is malformed at byte {at}")]
    Malformed {
        /// Kind.
        kind: u8,
        /// Column in the JSON text.
        at: usize,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Cut,
    /// The stream failed.
    #[error("failed to read or write the stream")]
    Io(#[from] io::Error),
}

/// The bytes of one frame.
///
/// # Errors
/// [`WireError::TooLong`]; split the message.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, WireError> {
    let kind = message.kind();
    let body = message.body().map_err(|error| WireError::Malformed { kind, at: error.column() })?;
    let length = u32::try_from(1 + body.len()).ok().filter(|_| body.len() <= MAX_BODY);
    let length = length.ok_or(WireError::TooLong { length: body.len() })?;
    let mut frame = Vec::with_capacity(LENGTH + 1 + body.len());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.push(kind);
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Reads the messages of one direction out of bytes that come in pieces of any size.
///
/// It holds at most one frame and what was pushed behind it, so take all messages out before pushing more.
#[derive(Debug)]
pub struct Decoder<M> {
    buffer: Vec<u8>,
    start: usize,
    skipped: u64,
    message: PhantomData<fn() -> M>,
}

impl<M> Default for Decoder<M> {
    fn default() -> Decoder<M> {
        Decoder { buffer: Vec::new(), start: 0, skipped: 0, message: PhantomData }
    }
}

impl<M: Message> Decoder<M> {
    /// Nothing read yet.
    pub fn new() -> Decoder<M> {
        Decoder::default()
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message; none until more bytes have come. Frames of unknown kinds are passed over.
    ///
    /// # Errors
    /// As [`WireError`] says; a frame that claims too much is refused before its body has come.
    pub fn next_message(&mut self) -> Result<Option<M>, WireError> {
        loop {
            let rest = &self.buffer[self.start..];
            let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
            let length = body_length(*length)? + 1;
            let Some((kind, body)) = rest.get(..length).and_then(<[u8]>::split_first) else {
                return Ok(None);
            };
            let message = read_body(*kind, body);
            self.start += LENGTH + length;
            match message? {
                Some(message) => return Ok(Some(message)),
                None => self.skipped += 1,
            }
        }
    }

    /// Frames of unknown kinds so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the bytes so far end between two frames.
    pub fn is_at_boundary(&self) -> bool {
        self.start == self.buffer.len()
    }
}

/// Writes one message to a blocking stream and flushes it.
///
/// # Errors
/// Where the message is too long or the stream fails.
pub fn write_message<M: Message>(writer: &mut impl Write, message: &M) -> Result<(), WireError> {
    writer.write_all(&encode(message)?)?;
    Ok(writer.flush()?)
}

/// Reads the next message of a known kind from a blocking stream; none where the stream ends between two
/// frames.
///
/// # Errors
/// As [`WireError`] says.
pub fn read_message<M: Message>(reader: &mut impl Read) -> Result<Option<M>, WireError> {
    loop {
        let mut length = [0; LENGTH];
        let read = fill(reader, &mut length)?;
        if read == 0 {
            return Ok(None);
        }
        if read < LENGTH {
            return Err(WireError::Cut);
        }
        let mut frame = vec![0; body_length(length)? + 1];
        if fill(reader, &mut frame)? < frame.len() {
            return Err(WireError::Cut);
        }
        if let Some(message) = read_body(frame[0], &frame[1..])? {
            return Ok(Some(message));
        }
    }
}

/// Fills the buffer as far as the stream goes.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn body_length(length: [u8; LENGTH]) -> Result<usize, WireError> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let length = length.checked_sub(1).ok_or(WireError::Empty)?;
    if length > MAX_BODY { Err(WireError::TooLong { length }) } else { Ok(length) }
}

fn read_body<M: Message>(kind: u8, body: &[u8]) -> Result<Option<M>, WireError> {
    match M::from_body(kind, body) {
        None => Ok(None),
        Some(Ok(message)) => Ok(Some(message)),
        Some(Err(error)) => Err(WireError::Malformed { kind, at: error.column() }),
    }
}
