//! The OpenAPI 3.1 document, made of the table of routes and of the types of the views.

mod schema;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub(crate) use schema::{Components, of};

use crate::access::Access;
use crate::field::{Field, MAX_NAME};
use crate::problem::KINDS;
use crate::routes::{ROUTES, Route, Serves, Verb};

/// What a view looks like.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// One thing.
    One(fn(&mut Components) -> Value),
    /// A page of a list of them.
    Page(fn(&mut Components) -> Value),
}

/// `/openapi.json`.
pub(crate) fn respond(version: &str) -> Response {
    Json(document(version)).into_response()
}

/// The whole document.
pub(crate) fn document(version: &str) -> Value {
    let mut components = Components::default();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut components);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        let verb = match route.verb {
            Verb::Get => "get",
            Verb::Post => "post",
        };
        path[verb] = operation;
    }
    components.0.insert("Done", done());
    components.0.insert("Problem", problem());
    components.0.insert("Record", record());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Provost",
            "version": version,
            "description": "Lists are pages; follow the events from `as_of` on to miss nothing. \
                Null is unknown. Clients accept fields and words that they do not know.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components.0,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"problem": {
                "description": "It was refused; `code` says why and `try` what to do.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }},
        },
    })
}

fn operation(route: &Route, components: &mut Components) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{id}") {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": MAX_NAME});
        parameters.push(json!({"name": "id", "in": "path", "required": true, "schema": schema}));
    }
    parameters.extend(route.query.iter().map(|field| {
        json!({
            "name": field.name,
            "in": "query",
            "required": field.required,
            "description": field.about,
            "schema": field.kind.schema(),
        })
    }));
    if let Serves::Command(_) = route.serves {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A request that is sent again with the same key is carried out once.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }));
    }
    let mut operation = json!({
        "summary": route.about,
        "parameters": parameters,
        "responses": responses(route, components),
    });
    if let Serves::Command(command) = &route.serves {
        let schema = body(command.fields);
        operation["requestBody"] = json!({
            "required": command.fields.iter().any(|field| field.required),
            "content": {"application/json": {"schema": schema}},
        });
    }
    if route.serves.access() != Access::Open {
        operation["security"] = json!([{"bearer": []}]);
    }
    operation
}

fn responses(route: &Route, components: &mut Components) -> Value {
    let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
    let content = match &route.serves {
        Serves::Live | Serves::Metrics => json!({"text/plain": {"schema": {"type": "string"}}}),
        Serves::Ready | Serves::OpenApi => json_of(json!({"type": "object"})),
        Serves::View(view) => json_of(match view.shape {
            Shape::One(schema) => schema(components),
            Shape::Page(schema) => page(schema(components)),
        }),
        Serves::Timeline => json_of(page(of::<provost_model::view::TimelineEntry>(components))),
        Serves::Audit => json_of(page(json!({"$ref": "#/components/schemas/Record"}))),
        Serves::Events => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        Serves::Command(_) => json_of(json!({"$ref": "#/components/schemas/Done"})),
    };
    let mut responses = json!({"default": {"$ref": "#/components/responses/problem"}});
    if let Serves::Command(_) = route.serves {
        responses["202"] =
            json!({"description": "It is recorded and will be done.", "content": content.clone()});
        responses["200"] = json!({"description": "It was so already.", "content": content});
    } else {
        responses["200"] = json!({"description": "As asked.", "content": content});
    }
    responses
}

fn body(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.kind.schema();
        schema["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn page(item: Value) -> Value {
    json!({
        "type": "object",
        "required": ["items", "next_cursor", "as_of"],
        "properties": {
            "items": {"type": "array", "items": item},
            "next_cursor": {"type": ["string", "null"]},
            "as_of": {"type": "integer"},
        },
    })
}

fn done() -> Value {
    json!({
        "type": "object",
        "required": ["outcome", "seq", "created"],
        "properties": {
            "outcome": {"type": "string", "enum": ["accepted", "already"]},
            "seq": {"type": ["integer", "null"], "description": "sequence of the first record"},
            "created": {"type": "array", "items": {"type": "string"}, "description": "ids of what was made"},
            "token": {"type": "string", "description": "only in the first answer to POST /v1/agent-tokens"},
            "expires_at": {"type": "string", "format": "date-time", "description": "as `token`"},
        },
    })
}

fn problem() -> Value {
    let codes: Vec<&str> = KINDS.iter().map(|kind| kind.entry().code).collect();
    let error = json!({
        "type": "object",
        "required": ["pointer", "code", "detail"],
        "properties": {
            "pointer": {"type": "string"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
        },
    });
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "instance", "trace_id"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "examples": codes, "description": "a conflict has a code of its own"},
            "detail": {"type": "string"},
            "instance": {"type": "string"},
            "trace_id": {"type": "string"},
            "try": {"type": "string", "description": "what to do"},
            "errors": {"type": "array", "items": error},
            "retry_after_seconds": {"type": "integer"},
        },
    })
}

fn record() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let object = json!({"type": "object"});
    let object_if_any = json!({"type": ["object", "null"]});
    json!({
        "type": "object",
        "description": "In canonical form: what `provost verify` hashes.",
        "required": ["v", "seq", "id", "at", "site", "epoch", "type", "data"],
        "properties": {
            "v": number, "seq": number, "id": text, "at": {"type": "string", "format": "date-time"},
            "site": text, "epoch": number, "producer": text, "producer_seq": number,
            "type": text, "data": object, "class": text, "outcome": text,
            "actor": object, "subject": object_if_any, "decision": object_if_any, "change": object_if_any,
            "corr": object, "sealed": {"type": "array", "items": object},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        Value::String(target) if key == "$ref" => drop(found.insert(target.clone())),
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_view_has_a_schema() {
        let document = document("1.2.3");
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 15, "{found:?}");
        for target in found {
            let pointer = target.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
        for route in ROUTES {
            if let Serves::View(view) = &route.serves {
                let (Shape::One(schema) | Shape::Page(schema)) = view.shape;
                let schema = schema(&mut Components::default());
                assert!(schema["$ref"].is_string(), "{}: {schema}", route.path);
            }
        }
    }

    #[test]
    fn every_route_stands_in_it() {
        let document = document("1.2.3");
        for route in ROUTES {
            let verb = format!("{:?}", route.verb).to_lowercase();
            let operation = &document["paths"][route.path][&verb];
            assert!(operation["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{}", route.path);
            assert_eq!(operation["security"].is_array(), route.serves.access() != Access::Open);
        }
    }
}
