//! Schemas of fields that are not ours to describe, and of texts.
//!
//! Kubernetes 1.20 takes an empty text for null, and refuses it unless null is allowed. Empty texts are the operator's
//! to judge, so null is allowed wherever a text is, and means the empty one.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Any object: pod templates, the spec of a CSIDriver, resource requirements.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The same where it may be left out.
pub(crate) fn optional_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of any objects, which may be left out.
pub(crate) fn optional_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// A text.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "nullable": true})
}

/// A number, or a text such as `10%`, which may be left out.
pub(crate) fn optional_number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "nullable": true})
}

/// A list of texts, which may be left out.
pub(crate) fn optional_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "nullable": true, "items": {"type": "string", "nullable": true}})
}

/// Texts by key, which may be left out.
pub(crate) fn optional_text_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "additionalProperties": {"type": "string", "nullable": true},
    })
}

/// Conditions as `meta/v1` has them, without the long texts of the core API.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string"},
                "message": {"type": "string", "nullable": true},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}

pub(crate) fn read_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

pub(crate) fn read_texts<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<String>>, D::Error> {
    let texts: Option<Vec<Option<String>>> = Option::deserialize(from)?;
    Ok(texts.map(|texts| texts.into_iter().map(Option::unwrap_or_default).collect()))
}

type TextMap = BTreeMap<String, String>;

pub(crate) fn read_text_map<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<TextMap>, D::Error> {
    let texts: Option<BTreeMap<String, Option<String>>> = Option::deserialize(from)?;
    let filled = |(key, text): (String, Option<String>)| (key, text.unwrap_or_default());
    Ok(texts.map(|texts| texts.into_iter().map(filled).collect()))
}
