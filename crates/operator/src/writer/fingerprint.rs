//! What an object is compared by.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::ownership::{RESTARTED_AT, has_pull_secrets, owned_keys, owned_pull_secrets, refers_to};
use crate::driver::{Kind, Object, Owner};

/// An object after a write of ours.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Fingerprint {
    /// What we wanted.
    pub(super) wanted: u64,
    /// What the server made of it.
    pub(super) returned: u64,
}

impl Fingerprint {
    /// Of what is wanted, and of what is there.
    pub(super) fn of(wanted: &Object, there: &DynamicObject) -> Self {
        Self {
            wanted: hash_of_wanted(wanted),
            returned: hash_of_live(wanted, there),
        }
    }

    /// Whether this was written for the same wish.
    pub(super) fn is_for(&self, wanted: &Object) -> bool {
        self.wanted == hash_of_wanted(wanted)
    }
}

/// Everything but type, metadata and status: what a managed object is compared by.
pub(super) fn body(kind: Kind, object: &DynamicObject) -> Map<String, Value> {
    let mut body = object.data.as_object().cloned().unwrap_or_default();
    body.remove("status");
    match kind {
        // The cluster writes tokens and pull secrets of its own into accounts.
        Kind::ServiceAccount => body.clear(),
        Kind::DaemonSet | Kind::Deployment => forget_restart(&mut body),
        _ => {}
    }
    body
}

/// `kubectl rollout restart` is no drift.
fn forget_restart(body: &mut Map<String, Value>) {
    let metadata = body.get_mut("spec");
    let metadata = metadata.and_then(|spec| spec.pointer_mut("/template/metadata"));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else {
        return;
    };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return;
    };
    annotations.remove(RESTARTED_AT);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn hash_of_wanted(wanted: &Object) -> u64 {
    hash(&json!([wanted.labels, wanted.annotations, wanted.body]))
}

/// What is ours in an object: everything, apart from foreign labels and annotations.
fn hash_of_live(wanted: &Object, live: &DynamicObject) -> u64 {
    let of_ours = |ours: &BTreeMap<String, String>,
                   there: &BTreeMap<String, String>|
     -> Vec<Option<String>> {
        ours.keys().map(|key| there.get(key).cloned()).collect()
    };
    let labels = of_ours(&wanted.labels, live.labels());
    let annotations = of_ours(&wanted.annotations, live.annotations());
    let pull_secrets = (wanted.kind == Kind::ServiceAccount)
        .then(|| (has_pull_secrets(wanted, live), owned_pull_secrets(live)));
    hash(&json!([
        labels,
        annotations,
        owned_keys(live),
        pull_secrets,
        refers_to(live, &Owner::of_wanted(wanted).uid),
        body(wanted.kind, live),
    ]))
}

/// Only ever compared with hashes of the same process.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
