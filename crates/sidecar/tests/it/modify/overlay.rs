//! Fields that a server does not have, kept beside it: they are taken out of what is written and put into what is
//! read.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{Stream, unfold};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// Fields of claims, by namespace and name, and the classes that there are, in the order in which they came.
#[derive(Default)]
pub struct Overlay {
    claims: Mutex<BTreeMap<String, Value>>,
    classes: watch::Sender<Vec<Value>>,
}

/// What the status of a claim has on newer servers.
pub const NEW_STATUS: [&str; 4] = [
    "allocatedResources",
    "allocatedResourceStatuses",
    "currentVolumeAttributesClassName",
    "modifyVolumeStatus",
];

impl Overlay {
    pub fn add_class(&self, mut class: Value) {
        self.classes.send_modify(|all| {
            class["metadata"]["uid"] = class["metadata"]["name"].clone();
            class["metadata"]["resourceVersion"] = json!((all.len() + 1).to_string());
            all.push(class);
        });
    }

    pub fn class(&self, name: &str) -> Option<Value> {
        let classes = self.classes.borrow();
        let mut named = classes.iter().filter(|one| one["metadata"]["name"] == name);
        named.next().cloned()
    }

    pub fn list_classes(&self) -> Value {
        let classes = self.classes.borrow().clone();
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttributesClassList",
            "metadata": {"resourceVersion": classes.len().to_string()},
            "items": classes,
        })
    }

    /// Classes that come after the first so many, as a watch tells of them.
    pub fn watch_classes(
        self: Arc<Self>,
        known: usize,
    ) -> impl Stream<Item = Result<String, axum::Error>> {
        let classes = self.classes.subscribe();
        unfold((classes, known), |(mut classes, known)| async move {
            let more = classes.wait_for(|all| all.len() > known).await.ok()?;
            let event = json!({"type": "ADDED", "object": more[known]});
            drop(more);
            Some((Ok(format!("{event}\n")), (classes, known + 1)))
        })
    }

    /// Changes fields of a claim, as a merge patch.
    pub fn set(&self, key: &str, fields: &Value) {
        let mut claims = self.claims.lock();
        merge(claims.entry(key.to_owned()).or_insert(json!({})), fields);
    }

    pub fn get(&self, key: &str) -> Value {
        self.claims.lock().get(key).cloned().unwrap_or_default()
    }

    /// Takes note of what a patch of a claim's status says about fields that the server does not have.
    pub fn take(&self, key: &str, patch: &Value) {
        let mut known = Map::new();
        for field in NEW_STATUS {
            if let Some(value) = patch["status"].as_object().and_then(|all| all.get(field)) {
                known.insert(field.to_owned(), value.clone());
            }
        }
        self.set(key, &json!({ "status": known }));
    }

    /// Adds the fields to claims, wherever they are in what the server says.
    pub fn add(&self, value: &mut Value) {
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            for item in items {
                self.add(item);
            }
        } else if value["object"]["metadata"].is_object() {
            self.add(&mut value["object"]);
        } else if value["metadata"]["namespace"].is_string() {
            let metadata = &value["metadata"];
            let part = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
            let key = format!("{}/{}", part("namespace"), part("name"));
            let fields = self.get(&key);
            if !fields.is_null() {
                merge(value, &fields);
            }
        }
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
