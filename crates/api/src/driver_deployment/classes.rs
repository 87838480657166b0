//! Classes, and the CSIDriver object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::Unknown;
use crate::schema::{
    optional_object, optional_objects, optional_text_map, optional_texts, read_text_map, read_texts,
};

/// The CSIDriver object. It is created in any case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverTemplate {
    /// Its spec, as `kubectl explain csidriver.spec` describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub spec: Option<Value>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the object and
    /// creates it again while no volume of the driver is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Report", "Recreate"]))]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Name, labels and annotations of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassMetadata {
    /// Name of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the class.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the class.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A StorageClass; its provisioner is the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageClassTemplate {
    /// Name, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassMetadata>,
    /// Whether claims without a class get this one. Without it, the mark is an administrator's to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Settings for the driver.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// `Delete` or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Delete", "Retain"]))]
    pub reclaim_policy: Option<String>,
    /// Mount options of the volumes.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub mount_options: Option<Vec<String>>,
    /// Whether claims may be expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_volume_expansion: Option<bool>,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Immediate", "WaitForFirstConsumer"]))]
    pub volume_binding_mode: Option<String>,
    /// Where volumes may be, as in a StorageClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub allowed_topologies: Option<Vec<Value>>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the class and
    /// creates it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Report", "Recreate"]))]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A VolumeSnapshotClass of the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClassTemplate {
    /// Name, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassMetadata>,
    /// Whether snapshots without a class get this one. Without it, the mark is an administrator's to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Settings for the driver.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// `Delete` (default) or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Delete", "Retain"]))]
    pub deletion_policy: Option<String>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the class and
    /// creates it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Report", "Recreate"]))]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A VolumeAttributesClass of the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttributesClassTemplate {
    /// Name, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassMetadata>,
    /// What claims that name the class get changed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the class and
    /// creates it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Report", "Recreate"]))]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
