//! Storage classes and snapshot classes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stowage_api::driver_deployment::{
    CSIDriverDeploymentSpec, ClassMetadata, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL,
    OWNER_UID_LABEL, StorageClassTemplate, Unknown,
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
        let base = base(
            errors,
            &path,
            &Common {
                metadata: template.metadata.as_ref(),
                mark: DEFAULT_CLASS,
                default: template.default,
                parameters: template.parameters.as_ref(),
                update_policy: template.update_policy.as_deref(),
                unknown: &template.unknown,
            },
        );
        let reclaim = template.reclaim_policy.as_deref();
        let words = [("Delete", ()), ("Retain", ())];
        errors.word(format!("{path}.reclaimPolicy"), reclaim, &words, ());
        let binding = template.volume_binding_mode.as_deref();
        let words = [("Immediate", ()), ("WaitForFirstConsumer", ())];
        errors.word(format!("{path}.volumeBindingMode"), binding, &words, ());
        let fields = storage_fields(template);
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

/// The fields that are handed on as they are.
fn storage_fields(template: &StorageClassTemplate) -> Map<String, Value> {
    let text = |value: &Option<String>| value.as_deref().map(Value::from);
    let fields = [
        ("reclaimPolicy", text(&template.reclaim_policy)),
        (
            "mountOptions",
            template.mount_options.as_ref().map(|it| json!(it)),
        ),
        (
            "allowVolumeExpansion",
            template.allow_volume_expansion.map(Value::from),
        ),
        ("volumeBindingMode", text(&template.volume_binding_mode)),
        (
            "allowedTopologies",
            template.allowed_topologies.as_ref().map(|it| json!(it)),
        ),
    ];
    let given = fields.into_iter();
    given
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

pub(super) fn snapshot_classes(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> Vec<SnapshotClass> {
    let templates = spec.volume_snapshot_class_templates.as_deref();
    let mut classes = Vec::new();
    for (index, template) in templates.unwrap_or_default().iter().enumerate() {
        let path = format!("{SNAPSHOT}[{index}]");
        let base = base(
            errors,
            &path,
            &Common {
                metadata: template.metadata.as_ref(),
                mark: DEFAULT_SNAPSHOT_CLASS,
                default: template.default,
                parameters: template.parameters.as_ref(),
                update_policy: template.update_policy.as_deref(),
                unknown: &template.unknown,
            },
        );
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

/// What templates of both kinds say.
struct Common<'a> {
    metadata: Option<&'a ClassMetadata>,
    /// The annotation that marks the default class.
    mark: &'static str,
    default: Option<bool>,
    parameters: Option<&'a BTreeMap<String, String>>,
    update_policy: Option<&'a str>,
    unknown: &'a Unknown,
}

fn base(errors: &mut Errors, path: &str, written: &Common<'_>) -> ClassBase {
    errors.unknown(path, written.unknown);
    let update = update_policy(errors, path, written.update_policy);
    let metadata = written.metadata.cloned().unwrap_or_default();
    let mark = written.mark;
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
        default: written.default,
        parameters: written.parameters.cloned(),
        update,
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
