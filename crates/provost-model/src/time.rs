//! Points in time and lengths of time as the whole system writes them.
//!
//! The model never reads a clock: every [`Timestamp`] comes from outside. Milliseconds are enough for an
//! audit record and keep the canonical form free of fractions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 point in time.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an RFC 3339 time such as 2026-11-30T19:00:00.123Z")]
pub struct ParseTimestampError {
    text: String,
}

impl Timestamp {
    /// The earliest time that can be written and read back: the year 0.
    pub const MIN: Timestamp = Timestamp(-62_167_219_200_000);
    /// The latest: two days before the year 10000, where the calendar library ends.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_999);

    /// From milliseconds since the Unix epoch, held between [`Timestamp::MIN`] and [`Timestamp::MAX`]: a time
    /// that can't be read back would make the whole journal after it unreadable.
    pub const fn from_millis(millis: i64) -> Timestamp {
        if millis < Timestamp::MIN.0 {
            Timestamp::MIN
        } else if millis > Timestamp::MAX.0 {
            Timestamp::MAX
        } else {
            Timestamp(millis)
        }
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time that has passed from `earlier` to `self`; zero where `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The calendar year in UTC; numbers of incidents carry it.
    pub fn year(self) -> i64 {
        civil(self.0.div_euclid(86_400_000)).0
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, length: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, length: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_sub(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// Year, month and day of a day number since 1970-01-01 in the proleptic Gregorian calendar. Written out
/// because records are formatted on the hot path, where a calendar library costs more than the rest.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0.div_euclid(86_400_000));
        let in_day = self.0.rem_euclid(86_400_000);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, milli) = (in_day / 1_000 % 60, in_day % 1_000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let places = [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, hour),
            (14..16, minute),
            (17..19, second),
            (20..23, milli),
        ];
        for (place, mut number) in places {
            for digit in text[place].iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Timestamp, ParseTimestampError> {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|at| Timestamp(at.as_millisecond()))
            .filter(|at| (Timestamp::MIN..=Timestamp::MAX).contains(at))
            .ok_or_else(|| ParseTimestampError { text: text.chars().take(40).collect() })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A length of time in configuration and runbooks: `250ms`, `5s`, `10m`, `24h`, `3d`. Whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// The text is not a length of time.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a length of time; write a whole number and a unit: 250ms, 5s, 10m, 24h, 3d")]
pub struct ParseSpanError {
    text: String,
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Span, ParseSpanError> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let parse = || {
            let (number, unit) = text.split_at(digits);
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
            number.parse::<u64>().ok()?.checked_mul(*factor)
        };
        parse()
            .map(|millis| Span(Duration::from_millis(millis)))
            .ok_or_else(|| ParseSpanError { text: text.chars().take(40).collect() })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (name, factor) = UNITS
            .iter()
            .rev()
            .find(|(_, factor)| millis >= *factor && millis % factor == 0)
            .unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", millis / factor)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_back() {
        let check = |millis, text: &str| {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap().as_millis(), millis);
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00.000Z");
        check(1_796_072_400_123, "2026-11-30T21:00:00.123Z");
        check(4_102_444_799_999, "2099-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(1_796_072_400_123).year(), 2026);
    }

    #[test]
    fn every_time_can_be_read_back() {
        let check = |at: Timestamp| assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        check(Timestamp::MIN);
        check(Timestamp::MAX);
        check(Timestamp::from_millis(i64::MIN));
        check(Timestamp::from_millis(i64::MAX));
        check(Timestamp::from_millis(0) + Duration::MAX);
        check(Timestamp::from_millis(0) - Duration::MAX);
        for outside in ["-000001-12-31T23:59:59.999Z", "-009000-01-02T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert!(outside.parse::<Timestamp>().is_err(), "{outside}");
        }
    }

    #[test]
    fn spans_are_written_and_read_back() {
        let check = |text: &str, millis| {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(millis));
            assert_eq!(span.to_string(), text);
        };
        check("250ms", 250);
        check("5s", 5_000);
        check("90s", 90_000);
        check("24h".replace("24h", "1d").as_str(), 86_400_000);
        check("7h", 25_200_000);
        for bad in ["", "5", "s", "-5s", "1.5s", "5 s", "5w", "99999999999999999999d", "5ms5s"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
