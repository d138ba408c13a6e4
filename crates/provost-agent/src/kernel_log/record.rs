//! Who wrote a line, when, and the text behind what the log put before it.
//!
//! `/dev/kmsg` (kernel ABI, `Documentation/ABI/testing/dev-kmsg`) writes `priority,sequence,microseconds,flags;text`
//! and escapes what is not printable as `\xHH`; lines that start with a space carry `KEY=value`. The priority
//! holds the facility, and only the kernel writes facility 0. Text logs come in as many shapes as there are
//! tools; they prove nothing about who wrote them.

use std::borrow::Cow;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Records of `/dev/kmsg`, one a line.
    Kmsg,
    /// `dmesg` in its forms, syslog, or bare text.
    Text,
    /// Each line as it looks; for files of unknown origin.
    Any,
}

/// One kernel record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// 0 is the kernel; where the log does not say, absent.
    pub facility: Option<u32>,
    /// 0 emergency to 7 debug.
    pub level: Option<u32>,
    /// Number in the kernel's ring.
    pub sequence: Option<u64>,
    /// Microseconds since boot.
    pub timestamp_us: Option<u64>,
    /// The text, unescaped.
    pub text: Cow<'a, [u8]>,
}

impl Record<'_> {
    /// User space wrote it, and the log says so.
    pub fn is_user_space(&self) -> bool {
        self.facility.is_some_and(|facility| facility != 0)
    }
}

/// What a line of a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A record.
    Record(Record<'a>),
    /// `KEY=value` that belongs to the record before.
    Dictionary,
    /// A line of syslog that does not come from the kernel.
    Foreign,
    /// Not a line of the format.
    Malformed,
}

/// Takes lines apart. It remembers the record before, whose continuation lines have no head of their own.
#[derive(Clone, Debug)]
pub struct Splitter {
    format: Format,
    head: Option<Head>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    priority: u32,
    sequence: u64,
    timestamp_us: u64,
}

impl Head {
    fn record(self, text: &[u8]) -> Record<'_> {
        Record {
            facility: Some(self.priority >> 3),
            level: Some(self.priority & 7),
            sequence: Some(self.sequence),
            timestamp_us: Some(self.timestamp_us),
            text: unescape(text),
        }
    }
}

impl Splitter {
    /// For a log of one format.
    pub fn new(format: Format) -> Splitter {
        Splitter { format, head: None }
    }

    /// Takes one line apart.
    pub fn split<'a>(&mut self, line: &'a [u8]) -> Split<'a> {
        let line = line.trim_ascii_end();
        if self.format == Format::Text {
            return text(line);
        }
        if let Some((head, text)) = kmsg_head(line) {
            self.head = Some(head);
            return Split::Record(head.record(text));
        }
        let strict = self.format == Format::Kmsg;
        match (line.first(), self.head) {
            (Some(b' '), Some(_)) if is_dictionary(&line[1..]) => Split::Dictionary,
            (Some(b' '), Some(head)) if strict => Split::Record(head.record(line.trim_ascii_start())),
            _ if strict => Split::Malformed,
            _ => {
                self.head = None;
                text(line)
            }
        }
    }
}

/// `KEY=`, as `SUBSYSTEM=pci` or `DEVICE=+pci:0000:02:00.0`.
fn is_dictionary(line: &[u8]) -> bool {
    let key = memchr::memchr(b'=', line).map_or(&[][..], |at| &line[..at]);
    !key.is_empty() && key.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
}

fn kmsg_head(line: &[u8]) -> Option<(Head, &[u8])> {
    let (priority, rest) = decimal(line)?;
    let (sequence, rest) = decimal(rest.strip_prefix(b",")?)?;
    let (timestamp_us, rest) = decimal(rest.strip_prefix(b",")?)?;
    let rest = rest.strip_prefix(b",")?;
    // Flags are a letter or `-`, and a caller may follow; a longer run is no head.
    let flags = memchr::memchr(b';', &rest[..rest.len().min(64)])?;
    let head = Head { priority: u32::try_from(priority).ok()?, sequence, timestamp_us };
    Some((head, &rest[flags + 1..]))
}

fn decimal(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut rest) = (0_u64, bytes);
    while let Some((digit @ b'0'..=b'9', after)) = rest.split_first() {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        rest = after;
    }
    (rest.len() < bytes.len()).then_some((number, rest))
}

/// Turns `\xHH` back into bytes.
fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = rest.strip_prefix(b"\\x").and_then(|hex| hex.first_chunk::<2>()).and_then(|hex| {
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            Some(digit(hex[0])? << 4 | digit(hex[1])?)
        });
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[4..] } else { after };
    }
    Cow::Owned(bytes)
}

/// A line of a text log. The order of the steps is the order in which tools put prefixes before each other.
fn text(line: &[u8]) -> Split<'_> {
    let mut rest = line.trim_ascii_start();
    let mut record =
        Record { facility: None, level: None, sequence: None, timestamp_us: None, text: Cow::Borrowed(b"") };
    if let Some((priority, after)) = raw_priority(rest) {
        (record.facility, record.level, rest) = (Some(priority >> 3), Some(priority & 7), after);
    } else if let Some((facility, level, after)) = decoded_priority(rest) {
        (record.facility, record.level, rest) = (Some(facility), level, after);
    }
    let stamped = bracket(rest);
    if let Some((stamp, after)) = stamped {
        (record.timestamp_us, rest) = (stamp, after);
    }
    if let Some(after) = syslog_time(rest) {
        // `host kernel: text`; some tools leave the host out.
        let Some(after) = kernel_identifier(after).or_else(|| kernel_identifier(skip_host(after)?)) else {
            return Split::Foreign;
        };
        rest = after;
    } else if let Some(after) = dmesg_iso_time(rest).or_else(|| kernel_identifier(rest)) {
        rest = after;
    } else if let Some(after) = stamped.and_then(|_| kernel_identifier(skip_host(rest)?)) {
        rest = after;
    }
    if record.timestamp_us.is_none()
        && let Some((stamp, after)) = bracket(rest)
    {
        (record.timestamp_us, rest) = (stamp, after);
    }
    record.text = Cow::Borrowed(rest.trim_ascii_start());
    Split::Record(record)
}

/// `<4>` of `dmesg --raw`.
fn raw_priority(line: &[u8]) -> Option<(u32, &[u8])> {
    let (priority, rest) = decimal(line.strip_prefix(b"<")?)?;
    Some((u32::try_from(priority).ok()?, rest.strip_prefix(b">")?))
}

/// `kern  :warn  : ` of `dmesg --decode`. The number of a facility other than the kernel's does not matter.
fn decoded_priority(line: &[u8]) -> Option<(u32, Option<u32>, &[u8])> {
    const FACILITIES: [&[u8]; 12] = [
        b"kern",
        b"user",
        b"mail",
        b"daemon",
        b"auth",
        b"syslog",
        b"lpr",
        b"news",
        b"uucp",
        b"cron",
        b"authpriv",
        b"ftp",
    ];
    const LEVELS: [&[u8]; 8] = [b"emerg", b"alert", b"crit", b"err", b"warn", b"notice", b"info", b"debug"];
    line.first().filter(|first| first.is_ascii_lowercase())?;
    let word = |line: &'_ [u8]| -> Option<(usize, usize)> {
        let colon = memchr::memchr(b':', &line[..line.len().min(10)])?;
        Some((line[..colon].trim_ascii_end().len(), colon + 1))
    };
    let (name, next) = word(line)?;
    let facility = FACILITIES.iter().position(|facility| *facility == &line[..name])?;
    let rest = &line[next..];
    let (name, next) = word(rest)?;
    let level = LEVELS.iter().position(|level| *level == &rest[..name])?;
    let number = |index: usize| u32::try_from(index).ok();
    Some((number(facility)?, number(level), rest[next..].trim_ascii_start()))
}

/// `[ 1234.567890] `, with the caller that some kernels add, or `[Mon Apr  6 03:22:07 2026] `. Other brackets
/// (`[Hardware Error]`) belong to the text.
fn bracket(line: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let inside = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &inside[..inside.len().min(40)])?;
    let (stamp, rest) = (inside[..end].trim_ascii(), inside[end + 1..].trim_ascii_start());
    if stamp.first().is_some_and(u8::is_ascii_digit) {
        let (seconds, fraction) = decimal(stamp)?;
        let (micros, after) = decimal(fraction.strip_prefix(b".")?)?;
        if !after.is_empty() {
            return None;
        }
        // Kernels write six digits; a stamp with another number of digits is passed over, not guessed at.
        let whole = fraction.len() == 7;
        let stamp = whole.then(|| seconds.checked_mul(1_000_000)?.checked_add(micros)).flatten();
        return Some((stamp, skip_caller(rest)));
    }
    let weekday = [&b"Mon "[..], b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun "];
    weekday.iter().any(|day| stamp.starts_with(day)).then_some((None, rest))
}

/// `[T1234] ` or `[ C12] `, where the kernel says which thread or processor wrote.
fn skip_caller(line: &[u8]) -> &[u8] {
    let caller = || {
        let inside = line.strip_prefix(b"[")?;
        let end = memchr::memchr(b']', &inside[..inside.len().min(16)])?;
        let (first, digits) = inside[..end].trim_ascii().split_first()?;
        let is_caller =
            matches!(first, b'T' | b'C') && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        is_caller.then(|| inside[end + 1..].trim_ascii_start())
    };
    caller().unwrap_or(line)
}

/// `May 15 08:57:36 ` or `2026-05-15T08:57:36.123456+00:00 ` at the start of a line of syslog.
fn syslog_time(line: &[u8]) -> Option<&[u8]> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    if let Some(end) = iso_time(line) {
        // `dmesg --time-format iso` writes a comma and neither host nor identifier.
        return (!line[..end].contains(&b',')).then(|| line[end..].trim_ascii_start());
    }
    let (month, day) = line.split_first_chunk::<3>()?;
    let day = day.strip_prefix(b" ").filter(|_| MONTHS.chunks(3).any(|name| name == month))?;
    let (_, rest) = decimal(day.trim_ascii_start())?;
    let time = rest.strip_prefix(b" ")?;
    let shape = time.len() > 8 && time[2] == b':' && time[5] == b':' && time[7].is_ascii_digit();
    shape.then(|| skip_token(time)).flatten()
}

fn dmesg_iso_time(line: &[u8]) -> Option<&[u8]> {
    iso_time(line).map(|end| line[end..].trim_ascii_start())
}

/// The length of `2026-05-15T08:57:36…` up to the next space.
fn iso_time(line: &[u8]) -> Option<usize> {
    let head = line.first_chunk::<19>()?;
    let shape = head[..4].iter().all(u8::is_ascii_digit)
        && (head[4], head[7], head[10], head[13], head[16]) == (b'-', b'-', b'T', b':', b':');
    shape.then(|| memchr::memchr(b' ', line)).flatten()
}

fn kernel_identifier(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"kernel: ").map(<[u8]>::trim_ascii_start)
}

/// A token with a colon at its end is no host but the identifier of a program.
fn skip_host(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', line)?;
    (end > 0 && line[end - 1] != b':').then(|| line[end..].trim_ascii_start())
}

fn skip_token(line: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b' ', line).map(|end| line[end..].trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, line: &str, expected: Option<(Option<u32>, Option<u64>, &str)>) {
        let split = Splitter::new(format).split(line.as_bytes());
        let Split::Record(record) = split else {
            assert_eq!(expected, None, "{line}: {split:?}");
            return;
        };
        let text = String::from_utf8_lossy(&record.text);
        assert_eq!(expected, Some((record.facility, record.timestamp_us, text.as_ref())), "{line}");
    }

    #[test]
    fn text_logs() {
        let text = |line: &str, facility, stamp, text: &str| {
            check(Format::Text, line, Some((facility, stamp, text)))
        };
        text("NVRM: x", None, None, "NVRM: x");
        text("   NVRM: x", None, None, "NVRM: x");
        text("[ 1234.567890] NVRM: x", None, Some(1_234_567_890), "NVRM: x");
        text("[111111111.111] NVRM: x", None, None, "NVRM: x");
        text("[    1.000001][  T12] NVRM: x", None, Some(1_000_001), "NVRM: x");
        text("[Mon Apr  6 03:22:07 2026] NVRM: x", None, None, "NVRM: x");
        text("[Sun Dec  1 14:54:40 2024] gpu-node-01 kernel: mlx5 x", None, None, "mlx5 x");
        text("[Hardware Error]: x", None, None, "[Hardware Error]: x");
        text("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: x", Some(0), None, "NVRM: x");
        text("kern  :err   : [ 1234.567890] NVRM: x", Some(0), Some(1_234_567_890), "NVRM: x");
        text("user  :warn  : [ 1234.567890] NVRM: x", Some(1), Some(1_234_567_890), "NVRM: x");
        text("daemon:info  : [ 1234.567890] NVRM: x", Some(3), Some(1_234_567_890), "NVRM: x");
        text("<4>[ 1234.567890] NVRM: x", Some(0), Some(1_234_567_890), "NVRM: x");
        text("<12>[ 1234.567890] NVRM: x", Some(1), Some(1_234_567_890), "NVRM: x");
        text("May 15 08:57:36 gpu-node-01 kernel: NVRM: x", None, None, "NVRM: x");
        text(
            "May  5 08:57:36 gpu-node-01 kernel: [680111.646286] NVRM: x",
            None,
            Some(680_111_646_286),
            "NVRM: x",
        );
        text("2026-06-19T14:32:07.000000+00:00 host kernel: NVRM: x", None, None, "NVRM: x");
        text("kernel: nfs: x", None, None, "nfs: x");
        text("", None, None, "");
        text("[", None, None, "[");
        text("kern", None, None, "kern");
        text("app: kernel: NVRM: x", None, None, "app: kernel: NVRM: x");
        text("host kernel: NVRM: x", None, None, "host kernel: NVRM: x");
        text("[    1.000001] app: kernel: NVRM: x", None, Some(1_000_001), "app: kernel: NVRM: x");
    }

    #[test]
    fn syslog_of_others_is_not_the_kernel() {
        for line in [
            "May 15 08:57:36 gpu-node-01 python[123]: NVRM: Xid (PCI:0000:3b:00): 79, x",
            "May 15 08:57:36 gpu-node-01 python[123]: kernel: NVRM: Xid (PCI:0000:3b:00): 79, x",
            "2026-06-19T14:32:07.000000+00:00 host app: kernel: NVRM: Xid (PCI:0000:3b:00): 79, x",
            "May 15 08:57:36 app: kernel: NVRM: Xid (PCI:0000:3b:00): 79, x",
            "May 15 08:57:36 gpu-node-01 kernel[1]: NVRM: Xid (PCI:0000:3b:00): 79, x",
        ] {
            assert_eq!(Splitter::new(Format::Text).split(line.as_bytes()), Split::Foreign, "{line}");
            assert_eq!(Splitter::new(Format::Any).split(line.as_bytes()), Split::Foreign, "{line}");
        }
    }

    #[test]
    fn kmsg_records() {
        let kmsg = |line: &str, expected| check(Format::Kmsg, line, expected);
        kmsg("4,3981,240602560,-;NVRM: x", Some((Some(0), Some(240_602_560), "NVRM: x")));
        kmsg("12,3981,240602560,-;NVRM: x", Some((Some(1), Some(240_602_560), "NVRM: x")));
        kmsg("4,1,2,-,caller=T12;NVRM: x", Some((Some(0), Some(2), "NVRM: x")));
        kmsg("4,1,2,-;a\\x0ab\\\\x0\\xzz", Some((Some(0), Some(2), "a\nb\\\\x0\\xzz")));
        kmsg("4,1,2,-;", Some((Some(0), Some(2), "")));
        for bad in [
            "",
            "NVRM: x",
            "4,1,2,-",
            "4,1;x",
            "-4,1,2,-;x",
            "4,18446744073709551616,2,-;x",
            "4294967296,1,2,-;x",
            " a=b",
        ] {
            kmsg(bad, None);
        }
    }

    #[test]
    fn lines_that_belong_to_the_record_before() {
        let mut splitter = Splitter::new(Format::Kmsg);
        assert!(matches!(splitter.split(b"12,7,9,-;first"), Split::Record(_)));
        assert_eq!(splitter.split(b" SUBSYSTEM=pci"), Split::Dictionary);
        let Split::Record(record) = splitter.split(b" NVRM: second") else { panic!("a record") };
        assert_eq!(
            (record.facility, record.sequence, record.text.as_ref()),
            (Some(1), Some(7), &b"NVRM: second"[..])
        );
    }
}
