//! Storage classes and snapshot classes.

use serde_json::{Map, Value, json};
use stowage_api::driver_deployment::{
    CSIDriverDeploymentSpec, ClassMetadata, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL,
    OWNER_UID_LABEL,
};

use super::field::Errors;
use super::name::is_subdomain;
use crate::driver::class::{DEFAULT_CLASS, DEFAULT_SNAPSHOT_CLASS};
use crate::driver::valid::{ClassBase, SnapshotClass, StorageClass, UpdatePolicy};

const STORAGE: &str = "spec.storageClassTemplates";
const SNAPSHOT: &str = "spec.volumeSnapshotClassTemplates";

pub(super) fn storage_classes(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> Vec<StorageClass> {
    let templates = spec.storage_class_templates.as_deref().unwrap_or_default();
    let mut classes = Vec::new();
    for (index, template) in templates.iter().enumerate() {
        let path = format!("{STORAGE}[{index}]");
        errors.unknown(&path, &template.unknown);
        let policy = template.update_policy.as_deref();
        let base = ClassBase {
            default: template.default,
            parameters: template.parameters.clone(),
            update: update_policy(errors, &path, policy),
            ..base(errors, &path, template.metadata.as_ref(), DEFAULT_CLASS)
        };
        let reclaim = template.reclaim_policy.as_deref();
        let words = [("Delete", ()), ("Retain", ())];
        errors.word(format!("{path}.reclaimPolicy"), reclaim, &words, ());
        let binding = template.volume_binding_mode.as_deref();
        let words = [("Immediate", ()), ("WaitForFirstConsumer", ())];
        errors.word(format!("{path}.volumeBindingMode"), binding, &words, ());

        let mut fields = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        set("reclaimPolicy", reclaim.map(Value::from));
        set(
            "mountOptions",
            template.mount_options.as_ref().map(|it| json!(it)),
        );
        set(
            "allowVolumeExpansion",
            template.allow_volume_expansion.map(Value::from),
        );
        set("volumeBindingMode", binding.map(Value::from));
        set(
            "allowedTopologies",
            template.allowed_topologies.as_ref().map(|it| json!(it)),
        );
        classes.push(StorageClass { base, fields });
    }
    together(
        errors,
        STORAGE,
        "storage",
        classes.iter().map(|class| &class.base),
    );
    classes
}

pub(super) fn snapshot_classes(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> Vec<SnapshotClass> {
    let templates = spec.volume_snapshot_class_templates.as_deref();
    let mut classes = Vec::new();
    for (index, template) in templates.unwrap_or_default().iter().enumerate() {
        let path = format!("{SNAPSHOT}[{index}]");
        errors.unknown(&path, &template.unknown);
        let policy = template.update_policy.as_deref();
        let base = ClassBase {
            default: template.default,
            parameters: template.parameters.clone(),
            update: update_policy(errors, &path, policy),
            ..base(
                errors,
                &path,
                template.metadata.as_ref(),
                DEFAULT_SNAPSHOT_CLASS,
            )
        };
        let deletion = template.deletion_policy.as_deref();
        let words = [("Delete", "Delete"), ("Retain", "Retain")];
        let deletion = errors.word(format!("{path}.deletionPolicy"), deletion, &words, "Delete");
        classes.push(SnapshotClass {
            base,
            deletion_policy: deletion.to_owned(),
        });
    }
    together(
        errors,
        SNAPSHOT,
        "volume snapshot",
        classes.iter().map(|class| &class.base),
    );
    classes
}

/// What happens when an immutable field of the object changes.
pub(super) fn update_policy(errors: &mut Errors, path: &str, word: Option<&str>) -> UpdatePolicy {
    let words = [
        ("Recreate", UpdatePolicy::Recreate),
        ("Report", UpdatePolicy::Report),
    ];
    errors.word(
        format!("{path}.updatePolicy"),
        word,
        &words,
        UpdatePolicy::Report,
    )
}

fn base(
    errors: &mut Errors,
    path: &str,
    metadata: Option<&ClassMetadata>,
    mark: &str,
) -> ClassBase {
    let metadata = metadata.cloned().unwrap_or_default();
    let path = format!("{path}.metadata");
    errors.unknown(&path, &metadata.unknown);
    let name = metadata.name.unwrap_or_default();
    if name.is_empty() {
        errors.required(format!("{path}.name"), "a class needs a name");
    } else if !is_subdomain(&name) {
        let detail = "must consist of lower case alphanumeric characters, '-' or '.', must start and end with an \
                      alphanumeric character, and must have at most 253 characters";
        errors.invalid(format!("{path}.name"), name.as_str(), detail);
    }
    let labels = metadata.labels.unwrap_or_default();
    for ours in [OWNER_NAMESPACE_LABEL, OWNER_NAME_LABEL, OWNER_UID_LABEL] {
        if labels.contains_key(ours) {
            errors.forbidden(format!("{path}.labels[{ours}]"), "is set by the operator");
        }
    }
    let annotations = metadata.annotations.unwrap_or_default();
    if annotations.contains_key(mark) {
        errors.forbidden(
            format!("{path}.annotations[{mark}]"),
            "use the field `default`",
        );
    }
    ClassBase {
        name,
        labels,
        annotations,
        default: None,
        parameters: None,
        update: UpdatePolicy::Report,
    }
}

/// What is wrong with classes that are right each by itself.
fn together<'a>(
    errors: &mut Errors,
    path: &str,
    what: &str,
    classes: impl Iterator<Item = &'a ClassBase> + Clone,
) {
    for (index, class) in classes.clone().enumerate() {
        let is_again = classes
            .clone()
            .take(index)
            .any(|other| other.name == class.name);
        if is_again && !class.name.is_empty() {
            errors.duplicate(
                format!("{path}[{index}].metadata.name"),
                class.name.as_str(),
            );
        }
    }
    let defaults: Vec<_> = classes
        .filter(|class| class.default == Some(true))
        .map(|class| class.name.as_str())
        .collect();
    if defaults.len() > 1 {
        let names = defaults.join(", ");
        let detail = format!("multiple default {what} classes are not supported: {names}");
        errors.invalid(path, "true", detail);
    }
}
