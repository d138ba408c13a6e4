//! The JSON Schema of a runbook file, for editors. Made from the actions, so that it cannot fall behind; a test
//! compares it with `runbooks/schema.json`.

use provost_model::runbook::HUMAN_ROLES;
use serde_json::{Value, json};

use super::actions::ACTIONS;
use super::lint::MAX_STEPS;

/// The JSON Schema (2020-12) of a runbook file. What it cannot say, `runbook lint` checks.
pub fn schema() -> Value {
    let actions: Vec<Value> =
        ACTIONS.iter().map(|action| json!({ "const": action.name, "description": action.about })).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Runbook",
        "type": "object",
        "additionalProperties": false,
        "required": ["api_version", "id", "title", "risk", "steps"],
        "properties": {
            "api_version": { "const": "runbook/v1" },
            "id": { "type": "string", "pattern": "^[a-z][a-z0-9-]{0,63}$" },
            "title": { "type": "string", "minLength": 1, "maxLength": 120 },
            "risk": {
                "enum": ["R0", "R1", "R2", "R3", "R4"],
                "description": "R0 observes, R1 is reversible on one node, R2 disrupts one node, R3 touches several nodes or data and needs one approval, R4 touches the fleet and needs two",
            },
            "incident": { "enum": ["required", "none"], "default": "required" },
            "scope": {
                "enum": ["gpu", "node"], "default": "gpu",
                "description": "what an execution is about: the GPU of its alert, or the whole node with every job on it",
            },
            "steps": {
                "type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": { "$ref": "#/$defs/step" },
            },
        },
        "$defs": {
            "span": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" },
            "step": step(&actions),
            "question": question(),
        },
    })
}

fn step(actions: &[Value]) -> Value {
    let roles: Vec<&str> = HUMAN_ROLES.iter().map(|(role, _)| *role).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id", "about", "timeout"],
        "oneOf": [{ "required": ["use"] }, { "required": ["human"] }],
        "properties": {
            "id": { "type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$" },
            "about": { "type": "string", "minLength": 1, "maxLength": 200 },
            "use": { "oneOf": actions },
            "with": { "type": "object", "additionalProperties": { "type": "string" } },
            "when": {
                "type": "string",
                "description": "slot.needs_spare, node.has_jobs, node.has_bmc, fault.contained, fault.wants_reset, fault.wants_restart, done.STEP, answer.STEP.FIELD == VALUE or != VALUE; `not` before a term, `and` between terms",
            },
            "timeout": { "$ref": "#/$defs/span", "description": "of one attempt, or of the wait for a person" },
            "retry": {
                "type": "object",
                "additionalProperties": false,
                "required": ["max", "backoff"],
                "properties": {
                    "max": { "type": "integer", "minimum": 1, "maximum": 100, "description": "counts the first attempt" },
                    "backoff": { "$ref": "#/$defs/span" },
                },
            },
            "on_fail": { "enum": ["hold", "continue", "rollback"], "default": "hold" },
            "point_of_no_return": { "type": "boolean", "default": false },
            "human": {
                "type": "object",
                "additionalProperties": false,
                "required": ["role", "instructions", "ask"],
                "properties": {
                    "role": {
                        "enum": roles,
                        "description": "who may answer; a technician answers through an operator",
                    },
                    "instructions": { "type": "string", "minLength": 1, "maxLength": 4000 },
                    "ask": {
                        "type": "object", "minProperties": 1, "maxProperties": 16,
                        "propertyNames": { "pattern": "^[a-z][a-z0-9_]{0,63}$" },
                        "additionalProperties": { "$ref": "#/$defs/question" },
                    },
                },
            },
        },
    })
}

fn question() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["type"],
        "properties": {
            "type": { "enum": ["choice", "boolean", "integer", "serial", "text"] },
            "required": { "type": "boolean", "default": false },
            "choices": { "type": "array", "items": { "type": "string" }, "maxItems": 32, "uniqueItems": true },
        },
    })
}
