//! JSON patches with tests in them: on another object of the same name, or when somebody changed the finalizers
//! meanwhile, nothing is written.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// The operations of a patch.
pub type Operations = Vec<Value>;

/// Nothing special.
pub const PARAMS: PatchParams = PatchParams {
    dry_run: false,
    force: false,
    field_manager: None,
    field_validation: None,
};

/// The patch of these operations.
pub fn patch(operations: Operations) -> Patch<()> {
    let operations = Value::Array(operations);
    Patch::Json(serde_json::from_value(operations).expect("operations are built well-formed"))
}

/// The patch applies to the object of this uid only.
pub fn same_object(uid: &str) -> Operations {
    vec![test("/metadata/uid", &json!(uid))]
}

/// Adds one finalizer to the known ones.
pub fn add_finalizer(known: &[String], finalizer: &str) -> [Value; 2] {
    let mut all = known.to_vec();
    all.push(finalizer.to_owned());
    replace_finalizers(known, &all)
}

/// Removes one finalizer from the known ones.
pub fn remove_finalizer(known: &[String], finalizer: &str) -> [Value; 2] {
    let mut rest = known.to_vec();
    rest.retain(|name| name != finalizer);
    replace_finalizers(known, &rest)
}

/// The wanted finalizers in place of the known ones.
pub fn replace_finalizers(known: &[String], wanted: &[String]) -> [Value; 2] {
    let path = "/metadata/finalizers";
    // The server leaves an empty list out, and what is not there is null to a test.
    let known = if known.is_empty() {
        Value::Null
    } else {
        json!(known)
    };
    [test(path, &known), set(path, &json!(wanted))]
}

/// Sets one annotation. The map must be made where there is none: `annotated` says whether there is one.
pub fn set_annotation(annotated: bool, key: &str, value: &str) -> Operations {
    if annotated {
        return vec![set(&annotation(key), &json!(value))];
    }
    let path = "/metadata/annotations";
    vec![test(path, &Value::Null), set(path, &json!({ key: value }))]
}

/// Removes one annotation, which must be there.
pub fn remove_annotation(key: &str) -> Value {
    json!({ "op": "remove", "path": annotation(key) })
}

fn annotation(key: &str) -> String {
    format!("/metadata/annotations/{}", key.replace('/', "~1"))
}

/// The rest is done only if this is so.
pub fn test(path: &str, value: &Value) -> Value {
    json!({ "op": "test", "path": path, "value": value })
}

/// `add` replaces what is there.
pub fn set(path: &str, value: &Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}
