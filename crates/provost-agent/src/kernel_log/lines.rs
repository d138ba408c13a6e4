//! Lines of bounded length from a reader of any length.

use std::io::{self, BufRead};

/// The longest line that is looked at, in bytes; the rest of a longer one is passed over.
pub const MAX_LINE: usize = 8 * 1024;

/// Reads line by line and never holds more than [`MAX_LINE`] bytes of one.
#[derive(Debug)]
pub struct BoundedLines<R> {
    reader: R,
    /// A line whose start and end come out of the reader apart.
    open: Vec<u8>,
}

impl<R: BufRead> BoundedLines<R> {
    /// From the start of `reader`.
    pub fn new(reader: R) -> BoundedLines<R> {
        BoundedLines { reader, open: Vec::new() }
    }

    /// Hands the next line to `take`, without its end; none at the end of the input. Nearly every line lies whole
    /// in the reader's buffer, and is handed over from there without a copy.
    ///
    /// # Errors
    /// Where the reader can't be read.
    pub fn next_with<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        if !has_more(&mut self.reader)? {
            return Ok(None);
        }
        let chunk = self.reader.fill_buf()?;
        if let Some(end) = memchr::memchr(b'\n', chunk) {
            let taken = take(without_return(bounded(&chunk[..end])));
            self.reader.consume(end + 1);
            return Ok(Some(taken));
        }
        self.open.clear();
        let whole = loop {
            if !has_more(&mut self.reader)? {
                break &self.open[..];
            }
            let chunk = self.reader.fill_buf()?;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            self.open.extend_from_slice(&part[..part.len().min(MAX_LINE - self.open.len())]);
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break without_return(&self.open);
            }
        };
        Ok(Some(take(whole)))
    }
}

/// Fills the reader's buffer where it is empty. False at the end of the input.
fn has_more(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match reader.fill_buf() {
            Ok(chunk) => return Ok(!chunk.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn bounded(line: &[u8]) -> &[u8] {
    &line[..line.len().min(MAX_LINE)]
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let split = |capacity| {
            let mut reader = BoundedLines::new(io::BufReader::with_capacity(capacity, bytes));
            let mut all = Vec::new();
            while let Some(line) = reader.next_with(<[u8]>::to_vec).unwrap() {
                assert!(line.len() <= MAX_LINE && reader.open.capacity() <= 2 * MAX_LINE);
                all.push(line);
            }
            all
        };
        // In pieces, in one piece, and with lines on both sides of a border.
        let all = split(7);
        assert_eq!((split(64), split(bytes.len() + 1)), (all.clone(), all.clone()));
        all
    }

    #[test]
    fn lines_are_split_as_written() {
        let check = |text: &str, expected: &[&str]| {
            let expected: Vec<Vec<u8>> = expected.iter().map(|line| line.as_bytes().to_vec()).collect();
            assert_eq!(lines(text.as_bytes()), expected, "{text:?}");
        };
        check("", &[]);
        check("a", &["a"]);
        check("a\n", &["a"]);
        check("\n\nlonger than the buffer\r\nend", &["", "", "longer than the buffer", "end"]);
        check("six\r\n\r\nx\r\r\nend\r", &["six", "", "x\r", "end\r"]);
    }

    #[test]
    fn a_line_of_10_mib_is_cut() {
        let mut bytes = vec![b'x'; 10 << 20];
        bytes.extend_from_slice(b"\nnext\n");
        let all = lines(&bytes);
        assert_eq!((all.len(), all[0].len(), all[1].as_slice()), (2, MAX_LINE, &b"next"[..]));
    }
}
