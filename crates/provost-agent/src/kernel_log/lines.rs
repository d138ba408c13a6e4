//! Lines of bounded length from a reader of any length.

use std::io::{self, BufRead};

/// The longest line that is looked at, in bytes; the rest of a longer one is passed over.
pub const MAX_LINE: usize = 8 * 1024;

/// Reads line by line and never holds more than [`MAX_LINE`] bytes of one.
#[derive(Debug)]
pub struct BoundedLines<R> {
    reader: R,
}

impl<R: BufRead> BoundedLines<R> {
    /// From the start of `reader`.
    pub fn new(reader: R) -> BoundedLines<R> {
        BoundedLines { reader }
    }

    /// Puts the next line into `line`, without its end. False at the end of the input.
    ///
    /// # Errors
    /// Where the reader can't be read.
    pub fn next_into(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let mut seen = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(seen);
            }
            seen = true;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&part[..part.len().min(MAX_LINE - line.len())]);
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = BoundedLines::new(io::BufReader::with_capacity(7, bytes));
        let (mut line, mut all) = (Vec::new(), Vec::new());
        while reader.next_into(&mut line).unwrap() {
            assert!(line.capacity() <= 2 * MAX_LINE);
            all.push(line.clone());
        }
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
    }

    #[test]
    fn a_line_of_10_mib_is_cut() {
        let mut bytes = vec![b'x'; 10 << 20];
        bytes.extend_from_slice(b"\nnext\n");
        let all = lines(&bytes);
        assert_eq!((all.len(), all[0].len(), all[1].as_slice()), (2, MAX_LINE, &b"next"[..]));
    }
}
