//! A cursor over the text of one line, from which matchers take what they expect.

use std::str::FromStr;

use provost_model::signal::PciAddress;

/// What is left of the line. A method that returns `None` has taken nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Scan<'a> {
        Scan { rest: text }
    }

    /// A cursor behind the last place where `mark` stands. Text that a person may have chosen comes first in the
    /// lines that have it, so the last place is the driver's own.
    pub(super) fn behind_last(text: &'a str, mark: &str) -> Option<Scan<'a>> {
        text.rfind(mark).map(|at| Scan { rest: &text[at + mark.len()..] })
    }

    pub(super) fn rest(self) -> &'a str {
        self.rest
    }

    /// Takes exactly `tag`.
    pub(super) fn tag(&mut self, tag: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(tag)?;
        Some(())
    }

    /// Takes `tag` where it stands.
    pub(super) fn skip(&mut self, tag: &str) -> bool {
        self.tag(tag).is_some()
    }

    /// Takes the text up to `end`, and `end`.
    pub(super) fn until(&mut self, end: &str) -> Option<&'a str> {
        let (before, after) = self.rest.split_once(end)?;
        self.rest = after;
        Some(before)
    }

    /// Takes white space, if any.
    pub(super) fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a run of decimal digits that something follows: one that ends the line may have been cut.
    pub(super) fn number<T: FromStr>(&mut self) -> Option<T> {
        self.run(|b| b.is_ascii_digit(), false)?.parse().ok()
    }

    /// As [`Scan::number`], where the line is known to end with the number.
    pub(super) fn last_number<T: FromStr>(&mut self) -> Option<T> {
        self.run(|b| b.is_ascii_digit(), true)?.parse().ok()
    }

    /// Takes a word `0x…` of at most eight digits that something follows, as written.
    pub(super) fn hex_word(&mut self) -> Option<(&'a str, u32)> {
        let mut ahead = *self;
        ahead.tag("0x")?;
        let digits = ahead.run(|b| b.is_ascii_hexdigit(), false)?;
        let value = (digits.len() <= 8).then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
        let word = &self.rest[..2 + digits.len()];
        *self = ahead;
        Some((word, value))
    }

    /// Takes a PCI address.
    pub(super) fn pci(&mut self) -> Option<PciAddress> {
        let mut ahead = *self;
        let run = ahead.run(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.', true)?;
        let address = run.trim_end_matches([':', '.']);
        let pci = address.parse().ok()?;
        self.rest = &self.rest[address.len()..];
        Some(pci)
    }

    fn run(&mut self, member: impl Fn(u8) -> bool, may_end: bool) -> Option<&'a str> {
        let length = self.rest.bytes().position(|b| !member(b)).or(may_end.then_some(self.rest.len()))?;
        let (run, rest) = self.rest.split_at(length);
        if run.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(run)
    }
}

/// `driver 0000:3b:00.0` at the start of a line, and what follows.
pub(super) fn device(text: &str) -> Option<(&str, PciAddress, &str)> {
    let mut scan = Scan::new(text);
    let driver = scan.until(" ")?;
    let pci = scan.pci()?;
    Some((driver, pci, scan.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_at_the_cut_end_is_not_taken() {
        let check = |text, whole: Option<u32>, last: Option<u32>| {
            assert_eq!(Scan::new(text).number::<u32>(), whole, "{text}");
            assert_eq!(Scan::new(text).last_number::<u32>(), last, "{text}");
        };
        check("79, GPU", Some(79), Some(79));
        check("79", None, Some(79));
        check("", None, None);
        check("x", None, None);
        check("4294967296,", None, None);
        check("99999999999999999999999999,", None, None);
    }

    #[test]
    fn addresses_keep_what_follows() {
        let check = |text, expected: Option<(&str, &str)>| {
            let mut scan = Scan::new(text);
            let pci = scan.pci().map(|pci| pci.to_string());
            assert_eq!(pci.as_deref().map(|pci| (pci, scan.rest())), expected, "{text}");
        };
        check("0000:3b:00): 79", Some(("0000:3b:00.0", "): 79")));
        check("0000:3b:00.1: AER", Some(("0000:3b:00.1", ": AER")));
        check("0000:3b:00.1 eth0", Some(("0000:3b:00.1", " eth0")));
        check("0000:3b:0", None);
        check("zz", None);
    }
}
