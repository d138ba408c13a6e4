//! JSON Schema of the views, read off their own `Deserialize`: a type is asked to read itself, and what it asks
//! for is its schema. So the document follows the types and can't say something else.

use std::collections::BTreeMap;

use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

/// What every text reads as; it must do for points in time, too.
const SAMPLE: &str = "2026-11-30T19:00:00.000Z";

/// Schemas by the name of their type.
#[derive(Default)]
pub(crate) struct Components(pub(crate) BTreeMap<&'static str, Value>);

/// The schema of `T`; its structs become components.
pub(crate) fn of<T: DeserializeOwned>(components: &mut Components) -> Value {
    let mut schema = json!({});
    match T::deserialize(Tracer { components, schema: &mut schema }) {
        Ok(_) => schema,
        // A type that can't be read this way has no schema, which is true of everything.
        Err(_) => json!({}),
    }
}

/// Notes what is asked for in `schema` and gives a value of that type.
struct Tracer<'a> {
    components: &'a mut Components,
    schema: &'a mut Value,
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            *self.schema = json!({"type": "integer"});
            visitor.visit_u64(0)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("the type does not say what it is"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "boolean"});
        visitor.visit_bool(false)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "string"});
        visitor.visit_str(SAMPLE)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut inner = json!({});
        let value = visitor.visit_some(Tracer { components: self.components, schema: &mut inner })?;
        *self.schema = match inner.get("type") {
            Some(Value::String(name)) => {
                let types = json!([name, "null"]);
                inner["type"] = types;
                inner
            }
            _ => json!({"anyOf": [inner, {"type": "null"}]}),
        };
        Ok(value)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut item = json!({});
        let once = Once { components: self.components, schema: &mut item, given: false };
        let value = visitor.visit_seq(once)?;
        *self.schema = json!({"type": "array", "items": item});
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut item = json!({});
        let once = Once { components: self.components, schema: &mut item, given: false };
        let value = visitor.visit_map(once)?;
        *self.schema = json!({"type": "object", "additionalProperties": item});
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut properties = json!({});
        let members =
            Members { components: &mut *self.components, properties: &mut properties, fields, at: 0 };
        let value = visitor.visit_map(members)?;
        let schema = json!({"type": "object", "required": fields, "properties": properties});
        self.components.0.insert(name, schema);
        *self.schema = json!({"$ref": format!("#/components/schemas/{name}")});
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "string", "enum": variants});
        visitor.visit_enum(variants.first().copied().unwrap_or_default().into_deserializer())
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// A list or map of one element.
struct Once<'a> {
    components: &'a mut Components,
    schema: &'a mut Value,
    given: bool,
}

impl<'de> SeqAccess<'de> for Once<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        seed.deserialize(Tracer { components: self.components, schema: self.schema }).map(Some)
    }
}

impl<'de> MapAccess<'de> for Once<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        seed.deserialize(SAMPLE.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Tracer { components: self.components, schema: self.schema })
    }
}

/// The fields of a struct, one after the other.
struct Members<'a> {
    components: &'a mut Components,
    properties: &'a mut Value,
    fields: &'static [&'static str],
    at: usize,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(field) = self.fields.get(self.at) else { return Ok(None) };
        seed.deserialize((*field).into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let field = self.fields.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        let mut schema = json!({});
        let value = seed.deserialize(Tracer { components: self.components, schema: &mut schema })?;
        let is_text = schema["type"] == "string" || schema["type"] == json!(["string", "null"]);
        if is_text && (field.ends_with("_at") || ["at", "since", "until"].contains(&field)) {
            schema["format"] = json!("date-time");
        }
        self.properties[field] = schema;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use provost_model::view;

    use super::*;

    #[test]
    fn schemas_follow_the_types() {
        let mut components = Components::default();
        assert_eq!(of::<view::Node>(&mut components), json!({"$ref": "#/components/schemas/Node"}));
        let node = &components.0["Node"]["properties"];
        assert_eq!(node["name"], json!({"type": "string"}));
        assert_eq!(node["serial"], json!({"type": ["string", "null"]}));
        assert_eq!(node["phase_since"], json!({"type": "string"}));
        assert_eq!(node["last_seen_at"], json!({"type": ["string", "null"], "format": "date-time"}));
        assert_eq!(node["schedulable"], json!({"type": "boolean"}));
        assert_eq!(node["gpus"], json!({"type": "array", "items": {"$ref": "#/components/schemas/Gpu"}}));
        let gpu = &components.0["Gpu"]["properties"];
        assert_eq!(gpu["index"], json!({"type": "integer"}));
        assert_eq!(
            components.0["Hold"]["properties"]["subject"],
            json!({"$ref": "#/components/schemas/Subject"})
        );
        assert_eq!(components.0["Subject"]["properties"]["kind"]["enum"][0], "site");
    }

    #[test]
    fn names_are_those_on_the_wire() {
        let mut components = Components::default();
        of::<view::Execution>(&mut components);
        let step = &components.0["StepView"]["properties"];
        assert_eq!(step["use"], json!({"type": "string"}));
        assert_eq!(step["ask"]["additionalProperties"], json!({"type": "string"}));
        assert_eq!(
            components.0["Execution"]["properties"]["subject"],
            json!({"anyOf": [{"$ref": "#/components/schemas/Subject"}, {"type": "null"}]}),
        );
    }
}
