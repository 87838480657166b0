//! Schemas for the Kubernetes types these resources contain.
//!
//! The generated ones would do, but they accept a reference without a name and carry the long texts
//! of the core API into every definition.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An `ObjectReference` that names an object in a namespace; the rest is optional.
pub(super) fn bound_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["name", "namespace"],
        "properties": {
            "apiVersion": {"type": "string"},
            "fieldPath": {"type": "string"},
            "kind": {"type": "string"},
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "resourceVersion": {"type": "string"},
            "uid": {"type": "string"},
        },
        "x-kubernetes-map-type": "atomic",
    })
}

/// A `LabelSelector`.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string"},
                        "operator": {
                            "type": "string",
                            "description": "`In`, `NotIn`, `Exists` or `DoesNotExist`.",
                        },
                        "values": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "x-kubernetes-map-type": "atomic",
    })
}
