//! When the server refuses a change: is it that the field can never change, or that the value is wrong?

use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;
use stowage_kubernetes::answer::Answer;

use super::{Change, Key, WriteError, Writer, body, dry_run, post};
use crate::driver::{Kind, Object};

/// One field that would change.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Path of the field.
    pub path: String,
    /// What it is.
    pub from: Value,
    /// What it should be.
    pub to: Value,
}

/// The name under which an object is tried out, without ever being made.
const DRY_RUN_NAME: &str = "stowage-dry-run";

impl Writer {
    /// Learns from a dry-run why a change was refused.
    pub(super) async fn explain(
        &self,
        key: &Key,
        wanted: &Object,
        live: &DynamicObject,
        refusal: kube::Error,
    ) -> WriteError {
        let is_refused = matches!(Answer::of(&refusal), Answer::Refused(_));
        if !is_refused || !can_be_recreated(key.kind) {
            return WriteError::api(key)(refusal);
        }
        let mut renamed = self.document(wanted, None);
        renamed.metadata.name = Some(DRY_RUN_NAME.to_owned());
        // Taken under another name: the values are right, the server only does not let them change.
        let Ok(answer) = self.api(key).create(&dry_run(), &renamed).await else {
            return WriteError::api(key)(refusal);
        };
        let mut differences = Vec::new();
        let (from, to) = (body(key.kind, live), body(key.kind, &answer));
        compare(
            "",
            &Value::Object(from),
            &Value::Object(to),
            &mut differences,
        );
        WriteError::Immutable {
            key: key.clone(),
            differences,
        }
    }

    /// Deletes the object and makes it again, for changes that the server does not allow in place.
    pub async fn recreate(
        &self,
        wanted: &Object,
        live: &DynamicObject,
    ) -> Result<(DynamicObject, Change), WriteError> {
        let key = Key::of_wanted(wanted);
        self.delete(&key, live).await?;
        // Labels and annotations of others come along; what the server wrote does not.
        let mut document = self.document(wanted, Some(live));
        document.metadata = ObjectMeta {
            name: document.metadata.name,
            namespace: document.metadata.namespace,
            labels: document.metadata.labels,
            annotations: document.metadata.annotations,
            ..ObjectMeta::default()
        };
        let stored = self.api(&key).create(&post(), &document).await;
        let stored = stored.map_err(WriteError::api(&key))?;
        self.remember(&key, wanted, &stored);
        Ok((stored, Change::Recreated))
    }
}

/// Kinds with fields that never change, and which nothing but names refers to.
const fn can_be_recreated(kind: Kind) -> bool {
    match kind {
        Kind::StorageClass
        | Kind::CsiDriver
        | Kind::VolumeSnapshotClass
        | Kind::VolumeGroupSnapshotClass
        | Kind::VolumeAttributesClass
        | Kind::RoleBinding
        | Kind::ClusterRoleBinding => true,
        Kind::ServiceAccount
        | Kind::ClusterRole
        | Kind::Role
        | Kind::Service
        | Kind::ServiceMonitor
        | Kind::PodDisruptionBudget
        | Kind::DaemonSet
        | Kind::Deployment
        | Kind::Pod
        | Kind::WekaContainer => false,
    }
}

fn compare(path: &str, from: &Value, to: &Value, differences: &mut Vec<Difference>) {
    if let (Value::Object(before), Value::Object(after)) = (from, to) {
        let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let path = match path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            let of =
                |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            compare(&path, &of(before), &of(after), differences);
        }
    } else if from != to {
        differences.push(Difference {
            path: path.to_owned(),
            from: from.clone(),
            to: to.clone(),
        });
    }
}

/// One line that shows every field.
pub(super) fn preview(differences: &[Difference]) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "(none)".to_owned(),
        value => value.to_string(),
    };
    let lines: Vec<_> = differences
        .iter()
        .map(|it| format!("{}: {} -> {}", it.path, shown(&it.from), shown(&it.to)))
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_has_an_update_policy_can_be_recreated() {
        for kind in [
            Kind::StorageClass,
            Kind::VolumeSnapshotClass,
            Kind::VolumeGroupSnapshotClass,
            Kind::VolumeAttributesClass,
            Kind::CsiDriver,
        ] {
            assert!(can_be_recreated(kind), "{kind:?}");
        }
    }

    #[test]
    fn a_preview_shows_each_field_once() {
        let mut differences = Vec::new();
        let before =
            json!({"parameters": {"pool": "a", "same": "x", "gone": "y"}, "mountOptions": ["a"]});
        let after =
            json!({"parameters": {"pool": "b", "same": "x"}, "mountOptions": ["b"], "new": true});
        compare("", &before, &after, &mut differences);
        assert_eq!(
            preview(&differences),
            r#"mountOptions: ["a"] -> ["b"]; new: (none) -> true; parameters.gone: "y" -> (none); parameters.pool: "a" -> "b""#
        );
    }
}
