//! Fields that a server does not have, kept beside it: they are taken out of what is written and put into what is
//! read.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// Fields of claims, by namespace and name, and the classes that there are.
#[derive(Default)]
pub struct Overlay {
    claims: Mutex<BTreeMap<String, Value>>,
    classes: Mutex<BTreeMap<String, Value>>,
}

const NEW_STATUS: [&str; 4] = [
    "allocatedResources",
    "allocatedResourceStatuses",
    "currentVolumeAttributesClassName",
    "modifyVolumeStatus",
];

impl Overlay {
    pub fn set_class(&self, name: &str, driver: &str, parameters: &Value) {
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttributesClass",
            "metadata": {"name": name},
            "driverName": driver,
            "parameters": parameters,
        });
        self.classes.lock().insert(name.to_owned(), object);
    }

    pub fn class(&self, name: &str) -> Option<Value> {
        self.classes.lock().get(name).cloned()
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
