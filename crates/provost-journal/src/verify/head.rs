//! The few fields of a record that verification compares, read from canonical bytes without building a tree of
//! values: at ten million records, a general JSON parser would cost as much as the hashing.

/// What a record says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) seq: u64,
    pub(crate) epoch: u64,
    pub(crate) producer: &'a [u8],
    pub(crate) producer_seq: u64,
    /// `type`.
    pub(crate) kind: &'a [u8],
    /// `at` in milliseconds since 1970.
    pub(crate) at_ms: i64,
}

impl<'a> Head<'a> {
    /// `None` where the bytes are no object, lack a field, or have their keys out of order or twice. Inside of
    /// other values only brackets and strings are followed; whether they are canonical is asked by `--strict`.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Head<'a>> {
        let mut cursor = Cursor { rest: bytes };
        let mut head = Head::default();
        let mut found = 0u8;
        let mut last: &[u8] = b"";
        cursor.expect(b'{')?;
        loop {
            cursor.expect(b'"')?;
            let key = cursor.string()?;
            cursor.expect(b':')?;
            (last < key).then_some(())?;
            last = key;
            found += 1;
            match key {
                b"at" => head.at_ms = millis(cursor.text()?)?,
                b"epoch" => head.epoch = cursor.number()?,
                b"producer" => head.producer = cursor.text()?,
                b"producer_seq" => head.producer_seq = cursor.number()?,
                b"seq" => head.seq = cursor.number()?,
                b"type" => head.kind = cursor.text()?,
                _ => {
                    found -= 1;
                    cursor.skip()?;
                }
            }
            match cursor.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        (found == 6 && cursor.rest.is_empty()).then_some(head)
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// The raw content of a string whose opening quote is read.
    fn string(&mut self) -> Option<&'a [u8]> {
        let mut at = 0;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.rest.get(at..)?)?;
            if self.rest[at] == b'"' {
                break;
            }
            at += 2;
        }
        let (content, rest) = self.rest.split_at(at);
        self.rest = &rest[1..];
        Some(content)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        self.string()
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Any value, up to the comma or bracket behind it.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match *self.rest.first()? {
                b'"' => {
                    self.next()?;
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return Some(()),
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => return Some(()),
                _ => {}
            }
            self.next()?;
        }
    }
}

/// Milliseconds since 1970 of `2026-11-30T19:00:00.123Z`, in exactly this form.
fn millis(text: &[u8]) -> Option<i64> {
    let shape = b"0000-00-00T00:00:00.000Z";
    let fits = text.len() == shape.len()
        && text
            .iter()
            .zip(shape)
            .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form });
    fits.then_some(())?;
    let number = |from: usize, to: usize| {
        text[from..to].iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'))
    };
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(())?;
    // Days since 1970 in the Gregorian calendar, counted in years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(
        ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60_000
            + number(17, 19) * 1_000
            + number(20, 23),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use provost_model::time::Timestamp;

    use super::*;

    const GOOD: &str = r#"{"actor":{"sub":"a\"}"},"at":"2026-11-30T21:00:00.123Z","epoch":3,"producer":"controller","producer_seq":7,"sealed":[{"x":[1,2]},null],"seq":5,"site":"s","type":"alert.raised","v":1}"#;

    #[test]
    fn the_fields_are_found_whatever_stands_between_them() {
        let head = Head::parse(GOOD.as_bytes()).unwrap();
        let expected = Head {
            seq: 5,
            epoch: 3,
            producer: b"controller",
            producer_seq: 7,
            kind: b"alert.raised",
            at_ms: 1_796_072_400_123,
        };
        assert_eq!(head, expected);
        for (old, new) in [
            (r#""seq":5,"#, ""),
            (r#""seq":5"#, r#""seq":-5"#),
            (r#""seq":5"#, r#""seq":5.0"#),
            (r#""seq":5"#, r#""seq":99999999999999999999"#),
            (r#""epoch":3"#, r#""epoch":3,"epoch":3"#),
            (r#""epoch":3"#, r#""zepoch":3"#),
            ("21:00", "21-00"),
            ("11-30", "13-30"),
            (r#""v":1}"#, r#""v":1}}"#),
            (r#""v":1}"#, r#""v":1"#),
            ("{\"actor", "[\"actor"),
        ] {
            assert_eq!(Head::parse(GOOD.replace(old, new).as_bytes()), None, "{old} → {new}");
        }
    }

    proptest! {
        #[test]
        fn every_time_reads_back(at in -62_000_000_000_000i64..250_000_000_000_000) {
            prop_assert_eq!(millis(Timestamp::from_millis(at).to_string().as_bytes()), Some(at));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..200, flip in any::<u8>()) {
            prop_assert_eq!(Head::parse(&bytes), None);
            let mut broken = GOOD.as_bytes().to_vec();
            let at = cut % broken.len();
            prop_assert_eq!(Head::parse(&broken[..at]), None);
            broken[at] ^= flip;
            // Either still a record or not; never a panic.
            prop_assert!(Head::parse(&broken).is_none_or(|head| head.seq <= 9));
        }
    }
}
