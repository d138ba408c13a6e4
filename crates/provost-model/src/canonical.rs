//! The canonical form of JSON: one object, keys in byte order, no white space, integers within ±(2^53−1), no
//! floats, strings escaped as RFC 8785 does.
//!
//! Every record is written in it, so it is written straight from the typed value: a tree of values in between
//! would cost more than all the rest of making a record durable.

use std::fmt::{Display, Write as _};

use serde::{Serialize, ser};
use serde_json::Value;

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
    value.serialize(Writer { out })
}

/// RFC 8785, 3.2.2.2: the two-character escapes where JSON has one, `\u00xx` for other controls, else as is.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
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
    out.push(b'"');
}

/// Writes one value.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn integer(self, exact: bool, number: impl Display) -> Result<(), Error> {
        if !exact {
            return Err(Error::Number(number.to_string()));
        }
        self.display(number);
        Ok(())
    }

    fn display(self, value: impl Display) {
        let mut text = Ascii(self.out);
        // A vector takes everything.
        write!(text, "{value}").unwrap_or_default();
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

impl<'a> ser::Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Members<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
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
        write_string(value.encode_utf8(&mut [0; 4]), self.out);
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_string(value, self.out);
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
        self.out.extend_from_slice(b"null");
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
        open_variant(variant, self.out);
        value.serialize(Writer { out: &mut *self.out })?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(Items::open(self.out, "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Error> {
        Ok(Items::open(self.out, "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        Ok(Items::open(self.out, "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Error> {
        open_variant(variant, self.out);
        Ok(Items::open(self.out, "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, Error> {
        Ok(Members::open(self.out, "}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'a>, Error> {
        Ok(Members::open(self.out, "}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, Error> {
        open_variant(variant, self.out);
        Ok(Members::open(self.out, "}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let start = self.out.len() + 1;
        self.out.push(b'"');
        write!(Ascii(&mut *self.out), "{value}").map_err(ser::Error::custom)?;
        if self.out[start..].iter().all(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
            self.out.push(b'"');
            return Ok(());
        }
        self.out.truncate(start - 1);
        self.serialize_str(&value.to_string())
    }
}

/// Writes an array.
struct Items<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    close: &'static str,
}

impl<'a> Items<'a> {
    fn open(out: &'a mut Vec<u8>, close: &'static str) -> Items<'a> {
        out.push(b'[');
        Items { out, first: true, close }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        value.serialize(Writer { out: self.out })
    }

    fn close(self) -> Result<(), Error> {
        self.out.extend_from_slice(self.close.as_bytes());
        Ok(())
    }
}

/// Writes an object: its members as they come, put in order at the end.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    /// Where the first member begins.
    start: usize,
    members: Vec<Member>,
    key: Key,
    close: &'static str,
}

/// A key as it sorts, which is before it is escaped.
enum Key {
    Static(&'static str),
    Owned(String),
}

impl Key {
    fn as_str(&self) -> &str {
        match self {
            Key::Static(text) => text,
            Key::Owned(text) => text,
        }
    }
}

struct Member {
    key: Key,
    /// Where its value ends and the next member begins.
    end: usize,
}

impl<'a> Members<'a> {
    fn open(out: &'a mut Vec<u8>, close: &'static str) -> Members<'a> {
        out.push(b'{');
        let start = out.len();
        Members { out, start, members: Vec::with_capacity(8), key: Key::Static(""), close }
    }

    fn member<T: Serialize + ?Sized>(&mut self, key: Key, value: &T) -> Result<(), Error> {
        write_string(key.as_str(), self.out);
        self.out.push(b':');
        value.serialize(Writer { out: self.out })?;
        self.out.push(b',');
        self.members.push(Member { key, end: self.out.len() });
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        let keys = |pair: &[Member]| pair[0].key.as_str() < pair[1].key.as_str();
        if !self.members.windows(2).all(keys) {
            let written = self.out.split_off(self.start);
            let starts = std::iter::once(0).chain(self.members.iter().map(|member| member.end - self.start));
            let mut order: Vec<(&str, &[u8])> = (self.members.iter().zip(starts))
                .map(|(member, from)| (member.key.as_str(), &written[from..member.end - self.start]))
                .collect();
            order.sort_by_key(|(key, _)| *key);
            order.iter().for_each(|(_, bytes)| self.out.extend_from_slice(bytes));
        }
        if !self.members.is_empty() {
            // The last one's comma.
            self.out.pop();
        }
        self.out.extend_from_slice(self.close.as_bytes());
        Ok(())
    }
}

macro_rules! items {
    ($($name:ident, $method:ident;)*) => {$(
        impl ser::$name for Items<'_> {
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
        impl ser::$name for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.member(Key::Static(key), value)
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

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        // JSON has only text as keys; numbers are written as text.
        self.key = match serde_json::to_value(key).map_err(ser::Error::custom)? {
            Value::String(text) => Key::Owned(text),
            Value::Number(number) => Key::Owned(number.to_string()),
            other => return Err(Error::Shape(format!("{other} cannot be a key"))),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::replace(&mut self.key, Key::Static(""));
        self.member(key, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
