//! The canonical form of JSON: one object, keys in byte order, no white space, integers within ±(2^53−1), no
//! floats, strings escaped as RFC 8785 does.
//!
//! Every record is written in it, so it is written straight from the typed value: a tree of values in between
//! would cost more than all the rest of making a record durable.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use serde::{Serialize, ser};

/// The largest integer that every JSON reader keeps exact.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// A value that has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A float, or an integer that not every reader keeps exact; its text.
    #[error("the number {0} is not an integer within ±(2^53−1)")]
    Number(String),
    /// Something that is not JSON: a key that is no text.
    #[error("{0}")]
    Shape(String),
}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error::Shape(message.to_string())
    }
}

/// Appends `value` in canonical form.
///
/// # Errors
/// Where it has no canonical form; what was appended until then means nothing.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut page = Page { out, keys: Vec::new(), members: Vec::new(), spare: Vec::new() };
    value.serialize(Writer { page: &mut page })
}

/// RFC 8785, 3.2.2.2: the two-character escapes where JSON has one, `\u00xx` for other controls, else as is.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(text, out);
    }
    out.push(b'"');
}

/// Nothing needs an escape. Looks at every byte, because without a way out of the loop the compiler looks at many
/// at once.
fn is_plain(text: &[u8]) -> bool {
    !text.iter().fold(false, |found, byte| found | matches!(byte, b'"' | b'\\' | 0..0x20))
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut plain = 0;
    for (i, byte) in text.bytes().enumerate() {
        let control;
        let escaped: &str = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x09 => "\\t",
            0x0a => "\\n",
            0x0c => "\\f",
            0x0d => "\\r",
            0..0x20 => {
                control = format!("\\u{byte:04x}");
                &control
            }
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[plain..i]);
        out.extend_from_slice(escaped.as_bytes());
        plain = i + 1;
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
}

/// What is written, and what is kept of the objects that are open: one allocation each for all of them.
struct Page<'o> {
    out: &'o mut Vec<u8>,
    /// Keys of open objects as they sort, which is before they are escaped.
    keys: Vec<u8>,
    /// Members of open objects.
    members: Vec<Member>,
    /// Where an object is while its members are put in order.
    spare: Vec<u8>,
}

/// A member of an open object.
struct Member {
    /// In [`Page::keys`].
    key: Range<usize>,
    /// In [`Page::out`], with a comma at the end.
    written: Range<usize>,
}

/// Writes one value.
struct Writer<'a, 'o> {
    page: &'a mut Page<'o>,
}

impl Writer<'_, '_> {
    fn integer(self, exact: bool, number: impl itoa::Integer) -> Result<(), Error> {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number);
        if !exact {
            return Err(Error::Number(digits.to_owned()));
        }
        self.page.out.extend_from_slice(digits.as_bytes());
        Ok(())
    }
}

/// Formats into bytes without a string in between.
struct Ascii<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Ascii<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Opens `{"variant":` and says what closes it.
fn open_variant(variant: &str, out: &mut Vec<u8>) {
    out.push(b'{');
    write_string(variant, out);
    out.push(b':');
}

impl<'a, 'o> ser::Serializer for Writer<'a, 'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a, 'o>;
    type SerializeTuple = Items<'a, 'o>;
    type SerializeTupleStruct = Items<'a, 'o>;
    type SerializeTupleVariant = Items<'a, 'o>;
    type SerializeMap = Members<'a, 'o>;
    type SerializeStruct = Members<'a, 'o>;
    type SerializeStructVariant = Members<'a, 'o>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.page.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.integer(value.unsigned_abs() <= MAX_INTEGER, value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.integer(value <= MAX_INTEGER, value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        Err(Error::Number(value.to_string()))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        Err(Error::Number(value.to_string()))
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        write_string(value.encode_utf8(&mut [0; 4]), self.page.out);
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_string(value, self.page.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.page.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        open_variant(variant, self.page.out);
        value.serialize(Writer { page: &mut *self.page })?;
        self.page.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a, 'o>, Error> {
        Ok(Items::open(self.page, "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a, 'o>, Error> {
        Ok(Items::open(self.page, "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a, 'o>, Error> {
        Ok(Items::open(self.page, "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a, 'o>, Error> {
        open_variant(variant, self.page.out);
        Ok(Items::open(self.page, "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a, 'o>, Error> {
        Ok(Members::open(self.page, "}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'a, 'o>, Error> {
        Ok(Members::open(self.page, "}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a, 'o>, Error> {
        open_variant(variant, self.page.out);
        Ok(Members::open(self.page, "}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let start = self.page.out.len() + 1;
        self.page.out.push(b'"');
        write!(Ascii(self.page.out), "{value}").map_err(ser::Error::custom)?;
        if is_plain(&self.page.out[start..]) {
            self.page.out.push(b'"');
            return Ok(());
        }
        self.page.out.truncate(start - 1);
        self.serialize_str(&value.to_string())
    }
}

/// Writes an array.
struct Items<'a, 'o> {
    page: &'a mut Page<'o>,
    first: bool,
    close: &'static str,
}

impl<'a, 'o> Items<'a, 'o> {
    fn open(page: &'a mut Page<'o>, close: &'static str) -> Items<'a, 'o> {
        page.out.push(b'[');
        Items { page, first: true, close }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.first, false) {
            self.page.out.push(b',');
        }
        value.serialize(Writer { page: self.page })
    }

    fn close(self) -> Result<(), Error> {
        self.page.out.extend_from_slice(self.close.as_bytes());
        Ok(())
    }
}

/// Writes an object: its members as they come, put in order at the end.
struct Members<'a, 'o> {
    page: &'a mut Page<'o>,
    /// Where its text begins, after the brace.
    start: usize,
    /// Its first member and its first key.
    base: (usize, usize),
    /// Where the member that is being written begins, and its key.
    current: (usize, Range<usize>),
    close: &'static str,
}

impl<'a, 'o> Members<'a, 'o> {
    fn open(page: &'a mut Page<'o>, close: &'static str) -> Members<'a, 'o> {
        page.out.push(b'{');
        let (start, base) = (page.out.len(), (page.members.len(), page.keys.len()));
        Members { page, start, base, current: (start, 0..0), close }
    }

    /// A key was just written, from `from` on in what is written and from `begin` on among the keys.
    fn key(&mut self, from: usize, begin: usize) {
        self.page.out.push(b':');
        self.current = (from, begin..self.page.keys.len());
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Writer { page: self.page })?;
        self.page.out.push(b',');
        let (from, key) = std::mem::take(&mut self.current);
        self.page.members.push(Member { key, written: from..self.page.out.len() });
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        let (first, first_key) = self.base;
        let Page { out, keys, members, spare } = self.page;
        let key = |member: &Member| &keys[member.key.clone()];
        if !members[first..].is_sorted_by_key(key) {
            members[first..].sort_unstable_by(|a, b| key(a).cmp(key(b)));
            spare.clear();
            spare.extend_from_slice(&out[self.start..]);
            out.truncate(self.start);
            for Member { written, .. } in &members[first..] {
                out.extend_from_slice(&spare[written.start - self.start..written.end - self.start]);
            }
        }
        if members.len() > first {
            // The last one's comma.
            out.pop();
        }
        members.truncate(first);
        keys.truncate(first_key);
        out.extend_from_slice(self.close.as_bytes());
        Ok(())
    }
}

macro_rules! items {
    ($($name:ident, $method:ident;)*) => {$(
        impl ser::$name for Items<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

items! {
    SerializeSeq, serialize_element;
    SerializeTuple, serialize_element;
    SerializeTupleStruct, serialize_field;
    SerializeTupleVariant, serialize_field;
}

macro_rules! members {
    ($($name:ident;)*) => {$(
        impl ser::$name for Members<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                let (from, begin) = (self.page.out.len(), self.page.keys.len());
                write_string(key, self.page.out);
                self.page.keys.extend_from_slice(key.as_bytes());
                self.key(from, begin);
                self.value(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

members! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeMap for Members<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let from = self.page.out.len();
        key.serialize(Writer { page: self.page })?;
        let Page { out, keys, .. } = &mut *self.page;
        let begin = keys.len();
        match &out[from..] {
            [b'"', raw @ .., b'"'] if !raw.contains(&b'\\') => keys.extend_from_slice(raw),
            escaped @ [b'"', ..] => {
                let raw: String = serde_json::from_slice(escaped).map_err(ser::Error::custom)?;
                keys.extend_from_slice(raw.as_bytes());
            }
            // JSON has only text as keys; numbers are written as text.
            number @ [b'-' | b'0'..=b'9', ..] => {
                keys.extend_from_slice(number);
                out.insert(from, b'"');
                out.push(b'"');
            }
            _ => {
                return Err(Error::Shape("something other than text or a number cannot be a key".to_owned()));
            }
        }
        self.key(from, begin);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    fn written<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
        let mut out = Vec::new();
        write(value, &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn canonical_form() {
        let check = |json: &str, expected: &str| {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(written(&value).as_deref(), Ok(expected), "{json}");
            let again: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(again, value);
        };
        check(r#"{"b":1,"a":[true,null]}"#, r#"{"a":[true,null],"b":1}"#);
        check(r#""\u0007\u0008\n\"\\/é""#, "\"\\u0007\\b\\n\\\"\\\\/é\"");
        check("9007199254740991", "9007199254740991");
        check("-9007199254740991", "-9007199254740991");
        check("{}", "{}");
        check("[]", "[]");
        check(
            r#"{"c":{"z":1,"y":{}},"b":[],"a":[[],{"k":"v","j":0}]}"#,
            r#"{"a":[[],{"j":0,"k":"v"}],"b":[],"c":{"y":{},"z":1}}"#,
        );
        // By the bytes of the keys, not of what is written for them: `\n` sorts before `!` and is longer.
        check(r#"{"!":1,"\n":2,"é":3,"z":4,"":5}"#, "{\"\":5,\"\\n\":2,\"!\":1,\"z\":4,\"é\":3}");
    }

    #[test]
    fn other_numbers_are_refused() {
        let check = |json: &str| {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(written(&value), Err(format!("the number {json} is not an integer within ±(2^53−1)")));
        };
        check("9007199254740992");
        check("-9007199254740992");
        check("18446744073709551615");
        check("1.5");
    }

    /// As serde_json understands the same types.
    #[test]
    fn every_shape_of_a_type_is_written() {
        #[derive(Serialize)]
        struct Unit;
        #[derive(Serialize)]
        struct Newtype(u8);
        #[derive(Serialize)]
        struct Pair(i8, char);
        #[derive(Serialize)]
        enum Shape {
            Unit,
            Newtype(Option<bool>),
            Tuple(u8, u8),
            Struct { z: (), a: &'static str },
        }
        #[derive(Serialize)]
        #[serde(tag = "type", content = "data")]
        enum Tagged {
            Some { b: u8, a: u8 },
        }
        #[derive(Serialize)]
        struct Flat {
            z: u8,
            #[serde(flatten)]
            tagged: Tagged,
            a: BTreeMap<i32, Shape>,
        }
        let a = BTreeMap::from([
            (-1, Shape::Unit),
            (10, Shape::Newtype(None)),
            (9, Shape::Tuple(1, 2)),
            (2, Shape::Struct { z: (), a: "a" }),
        ]);
        let all = (Unit, Newtype(1), Pair(-1, '"'), Flat { z: 1, tagged: Tagged::Some { b: 1, a: 2 }, a });
        let value = serde_json::to_value(&all).unwrap();
        assert_eq!(written(&all), written(&value));
        assert!(written(&all).unwrap().contains(r#""data":{"a":2,"b":1},"type":"Some","z":1}"#));
        assert!(written(&1.5_f32).is_err());
        assert!(written(&BTreeMap::from([([1, 2], 1)])).is_err(), "a key that is no text");
        assert_eq!(written(&format_args!("a\"b")).as_deref(), Ok(r#""a\"b""#));
    }
}
