//! JSON patches with tests in them: on another object of the same name, or when somebody changed the finalizers
//! meanwhile, nothing is written.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, TestOperation};
use jsonptr::PointerBuf;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::finalizer;

/// Nothing special.
pub const PARAMS: PatchParams = PatchParams {
    dry_run: false,
    force: false,
    field_manager: None,
    field_validation: None,
};

/// Changes of one object, made all or none. A path is the names of the fields on the way, without escapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectPatch(Vec<PatchOperation>);

impl ObjectPatch {
    /// Nothing yet; whoever sends it knows which object it is for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies to the object of this uid only.
    pub fn of(uid: &str) -> Self {
        Self::new().test(["metadata", "uid"], json!(uid))
    }

    /// The rest is done only if this is so. What is not there is null.
    pub fn test<const N: usize>(mut self, path: [&str; N], value: Value) -> Self {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Test(TestOperation { path, value }));
        self
    }

    /// Sets a field, whether it is there or not.
    pub fn set<const N: usize>(mut self, path: [&str; N], value: Value) -> Self {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Add(AddOperation { path, value }));
        self
    }

    /// Removes a field, which must be there.
    pub fn remove<const N: usize>(mut self, path: [&str; N]) -> Self {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Remove(RemoveOperation { path }));
        self
    }

    /// Adds a finalizer to the known ones.
    pub fn add_finalizer(self, known: &[String], finalizer: &str) -> Self {
        self.replace_finalizers(known, &finalizer::with(known, finalizer))
    }

    /// Removes a finalizer from the known ones.
    pub fn remove_finalizer(self, known: &[String], finalizer: &str) -> Self {
        self.replace_finalizers(known, &finalizer::without(known, finalizer))
    }

    /// The wanted finalizers in place of the known ones.
    pub fn replace_finalizers(self, known: &[String], wanted: &[String]) -> Self {
        let path = ["metadata", "finalizers"];
        // The server leaves an empty list out.
        let known = if known.is_empty() {
            Value::Null
        } else {
            json!(known)
        };
        self.test(path, known).set(path, json!(wanted))
    }

    /// Sets an annotation. The map must be made where there is none: `annotated` says whether there is one.
    pub fn set_annotation(self, annotated: bool, key: &str, value: &str) -> Self {
        if annotated {
            return self.set(["metadata", "annotations", key], json!(value));
        }
        let path = ["metadata", "annotations"];
        self.test(path, Value::Null)
            .set(path, json!({ key: value }))
    }

    /// Removes an annotation, which must be there.
    pub fn remove_annotation(self, key: &str) -> Self {
        self.remove(["metadata", "annotations", key])
    }

    /// These changes, then those of another patch.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it is sent.
    pub fn into_patch(self) -> Patch<()> {
        Patch::Json(json_patch::Patch(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(patch: &ObjectPatch) -> Value {
        serde_json::to_value(&patch.0).unwrap()
    }

    #[test]
    fn finalizers_are_compared_before_they_are_replaced() {
        let known = ["theirs".to_owned()];
        assert_eq!(
            text(&ObjectPatch::of("1").add_finalizer(&known, "ours")),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "1"},
                {"op": "test", "path": "/metadata/finalizers", "value": ["theirs"]},
                {"op": "add", "path": "/metadata/finalizers", "value": ["theirs", "ours"]},
            ])
        );
        assert_eq!(
            text(&ObjectPatch::new().remove_finalizer(&[], "ours"))[0],
            json!({"op": "test", "path": "/metadata/finalizers", "value": null})
        );
    }

    #[test]
    fn keys_with_slashes_are_escaped() {
        let key = "stowage.dev/a~b";
        assert_eq!(
            text(&ObjectPatch::new().remove_annotation(key)),
            json!([{"op": "remove", "path": "/metadata/annotations/stowage.dev~1a~0b"}])
        );
        assert_eq!(
            text(&ObjectPatch::new().set_annotation(false, key, "x"))[1],
            json!({"op": "add", "path": "/metadata/annotations", "value": {key: "x"}})
        );
    }
}
