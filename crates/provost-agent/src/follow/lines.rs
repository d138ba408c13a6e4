//! Bytes that come in pieces become lines of bounded length.

use crate::kernel_log::lines::MAX_LINE;

use super::Position;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Without its end, at most [`MAX_LINE`] bytes.
    pub(crate) bytes: &'a [u8],
    /// Bytes of the whole, with its end.
    pub(super) length: u64,
    /// It is longer, and `bytes` is only its start.
    pub(crate) cut: bool,
    /// Nobody saw its start, so nobody may judge it.
    pub(super) skipped: bool,
    /// Where it starts; none where the source has no past.
    pub(crate) start: Option<Position>,
    /// Where the next one starts.
    pub(crate) end: Option<Position>,
}

#[cfg(test)]
impl<'a> Line<'a> {
    /// A line of a device.
    pub(crate) fn of(bytes: &'a [u8]) -> Line<'a> {
        whole(bytes, bytes.len() as u64 + 1, false, false)
    }
}

/// Collects the line that is not complete.
#[derive(Debug, Default)]
pub(super) struct Lines {
    open: Vec<u8>,
    length: u64,
    skipping: bool,
}

impl Lines {
    /// The bytes to come begin inside a line, which is to be passed over.
    pub(super) fn skip_to_end(&mut self) {
        self.skipping = true;
    }

    /// Whether no line is open.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds bytes and hands each line to `take` that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.length == 0 && line.len() <= MAX_LINE {
                // Nearly always: a whole line in one piece, which needs no copy.
                let length = line.len() as u64 + 1;
                take(whole(line, length, false, std::mem::take(&mut self.skipping)));
            } else {
                self.add(line);
                self.length += 1;
                self.take(&mut take);
            }
        }
        self.add(rest);
    }

    /// Hands over the open line, if there is one.
    pub(super) fn flush(&mut self, mut take: impl FnMut(Line<'_>)) {
        if self.length > 0 {
            self.take(&mut take);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.open.len();
        self.open.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length += bytes.len() as u64;
    }

    fn take(&mut self, take: &mut impl FnMut(Line<'_>)) {
        let cut = self.length > self.open.len() as u64 + 1;
        take(whole(&self.open, self.length, cut, std::mem::take(&mut self.skipping)));
        self.open.clear();
        self.length = 0;
    }
}

fn whole(bytes: &[u8], length: u64, cut: bool, skipped: bool) -> Line<'_> {
    Line { bytes, length, cut, skipped, start: None, end: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines as text, with a `~` where one was cut.
    fn split(bytes: &[u8], piece: usize) -> (Vec<String>, u64) {
        let mut lines = Lines::default();
        let (mut all, mut length) = (Vec::new(), 0);
        let mut take = |line: Line<'_>| {
            all.push(format!("{}{}", String::from_utf8_lossy(line.bytes), if line.cut { "~" } else { "" }));
            length += line.length;
        };
        for chunk in bytes.chunks(piece) {
            lines.push(chunk, &mut take);
        }
        lines.flush(&mut take);
        (all, length)
    }

    #[test]
    fn lines_are_split_as_written() {
        let check = |text: &str, expected: &[&str]| {
            for piece in [1, 2, 3, 1_000] {
                let (lines, length) = split(text.as_bytes(), piece);
                assert_eq!(lines, expected, "{text:?} in pieces of {piece}");
                assert_eq!(length, text.len() as u64);
            }
        };
        check("a\n", &["a"]);
        check("a\nb", &["a", "b"]);
        check("\n\nabc\n", &["", "", "abc"]);
    }

    #[test]
    fn a_line_of_10_mib_is_cut_and_measured() {
        let mut bytes = vec![b'x'; 10 << 20];
        bytes.extend_from_slice(b"\nnext\n");
        let (lines, length) = split(&bytes, 16 * 1024);
        assert_eq!((lines.len(), lines[0].len(), lines[1].as_str()), (2, MAX_LINE + 1, "next"));
        assert_eq!(length, bytes.len() as u64);
        // The longest that is still whole.
        let mut bytes = vec![b'x'; MAX_LINE];
        bytes.push(b'\n');
        assert!(!split(&bytes, 1_000).0[0].ends_with('~'));
        bytes.insert(0, b'x');
        assert!(split(&bytes, 1_000).0[0].ends_with('~') && split(&bytes, 1 << 20).0[0].ends_with('~'));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[ab\n]{0,60}", piece in 1_usize..9) {
            prop_assert_eq!(split(text.as_bytes(), piece), split(text.as_bytes(), 1_000));
        }
    }
}
