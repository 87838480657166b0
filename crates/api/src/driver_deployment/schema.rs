//! Schemas of fields that are not ours to describe.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Any object: pod templates, the spec of a CSIDriver, resource requirements.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The same where it may be left out.
pub(super) fn optional_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of any objects, which may be left out.
pub(super) fn optional_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}
