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

/// A text of these words.
pub(crate) fn one_of(words: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": words})
}

/// The name of a CSI driver as CSI lets it be, or nothing yet.
pub(crate) fn driver_name(_: &mut SchemaGenerator) -> Schema {
    let pattern = "^([a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?)?$";
    json_schema!({"type": "string", "nullable": true, "maxLength": 63, "pattern": pattern})
}

/// The key of a taint, which may be left out: an optional domain and `/`, then a name.
pub(crate) fn optional_taint_key(_: &mut SchemaGenerator) -> Schema {
    let domain = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    let pattern = format!("^({domain}/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]{{0,61}}[a-zA-Z0-9])?$");
    json_schema!({"type": "string", "nullable": true, "maxLength": 317, "pattern": pattern})
}

/// An absolute path, or nothing yet.
pub(crate) fn absolute_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "nullable": true, "pattern": "^(/.*)?$"})
}

/// A number, or a text such as `10%`, which may be left out.
pub(crate) fn optional_number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "nullable": true})
}

/// A list of texts, which may be left out.
pub(crate) fn optional_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "nullable": true, "items": {"type": "string", "nullable": true}})
}

/// A list of texts of which each is there once, in any order: whoever applies some of them leaves the others alone. It may be
/// left out.
pub(crate) fn optional_text_set(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
    })
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
