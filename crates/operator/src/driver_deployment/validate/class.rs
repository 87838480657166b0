//! Storage classes and snapshot classes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stowage_api::driver_deployment::{
    CSIDriverDeploymentSpec, ClassMetadata, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL,
    OWNER_UID_LABEL, StorageClassTemplate, Unknown, VolumeSnapshotClassTemplate,
};

use super::field::Errors;
use super::name::is_subdomain;
use crate::driver::class::{DEFAULT_CLASS, DEFAULT_GROUP_SNAPSHOT_CLASS, DEFAULT_SNAPSHOT_CLASS};
use crate::driver::valid::{ClassBase, Classes, SnapshotClass, StorageClass, UpdatePolicy};

const STORAGE: &str = "spec.storageClassTemplates";

pub(super) fn classes(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Classes {
    Classes {
        storage: storage_classes(errors, spec),
        snapshot: snapshot_classes(errors, spec),
        group_snapshot: group_snapshot_classes(errors, spec),
        attributes: attributes_classes(errors, spec),
    }
}

fn storage_classes(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Vec<StorageClass> {
    let templates = spec.storage_class_templates.as_deref().unwrap_or_default();
    let mut classes = Vec::new();
    for (index, template) in templates.iter().enumerate() {
        let path = format!("{STORAGE}[{index}]");
        let base = base(
            errors,
            &path,
            &Common {
                metadata: template.metadata.as_ref(),
                mark: Some(DEFAULT_CLASS),
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

fn snapshot_classes(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Vec<SnapshotClass> {
    let kind = SnapshotKind {
        path: "spec.volumeSnapshotClassTemplates",
        name: "volume snapshot",
        mark: DEFAULT_SNAPSHOT_CLASS,
    };
    let templates = spec.volume_snapshot_class_templates.as_deref();
    classes_of_snapshots(errors, &kind, templates.unwrap_or_default())
}

fn group_snapshot_classes(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> Vec<SnapshotClass> {
    let kind = SnapshotKind {
        path: "spec.volumeGroupSnapshotClassTemplates",
        name: "volume group snapshot",
        mark: DEFAULT_GROUP_SNAPSHOT_CLASS,
    };
    let templates = spec.volume_group_snapshot_class_templates.as_deref();
    classes_of_snapshots(errors, &kind, templates.unwrap_or_default())
}

/// Snapshots of one volume, or of several at once.
struct SnapshotKind {
    path: &'static str,
    name: &'static str,
    /// The annotation that marks the default class.
    mark: &'static str,
}

fn classes_of_snapshots(
    errors: &mut Errors,
    kind: &SnapshotKind,
    templates: &[VolumeSnapshotClassTemplate],
) -> Vec<SnapshotClass> {
    let mut classes = Vec::new();
    for (index, template) in templates.iter().enumerate() {
        let path = format!("{}[{index}]", kind.path);
        let base = base(
            errors,
            &path,
            &Common {
                metadata: template.metadata.as_ref(),
                mark: Some(kind.mark),
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
    let bases = classes.iter().map(|class| &class.base);
    together(errors, kind.path, kind.name, bases);
    classes
}

fn attributes_classes(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Vec<ClassBase> {
    const PATH: &str = "spec.volumeAttributesClassTemplates";
    let templates = spec.volume_attributes_class_templates.as_deref();
    let mut classes = Vec::new();
    for (index, template) in templates.unwrap_or_default().iter().enumerate() {
        let written = Common {
            metadata: template.metadata.as_ref(),
            mark: None,
            default: None,
            parameters: template.parameters.as_ref(),
            update_policy: template.update_policy.as_deref(),
            unknown: &template.unknown,
        };
        classes.push(base(errors, &format!("{PATH}[{index}]"), &written));
    }
    together(errors, PATH, "volume attributes", classes.iter());
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

/// What templates of all kinds say.
struct Common<'a> {
    metadata: Option<&'a ClassMetadata>,
    /// The annotation that marks the default class, where there may be one.
    mark: Option<&'static str>,
    default: Option<bool>,
    parameters: Option<&'a BTreeMap<String, String>>,
    update_policy: Option<&'a str>,
    unknown: &'a Unknown,
}

fn base(errors: &mut Errors, path: &str, written: &Common<'_>) -> ClassBase {
    errors.unknown(path, written.unknown);
    let update = update_policy(errors, path, written.update_policy);
    let metadata = written.metadata.cloned().unwrap_or_default();
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
    if let Some(mark) = written.mark.filter(|it| annotations.contains_key(*it)) {
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
