//! Arrays.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Capacity, Concealed, Observed, Segments, Unknown};
use super::state::VpsaState;
use crate::schema::{read_text, text};

/// Where an array is, and with which key it lets us in.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Zadara's newest definition wants `displayName` as well; arrays that were added before have none.
#[schemars(extend("required" = ["VSCStorageClassName"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "VPSA",
    root = "Vpsa",
    plural = "vpsas",
    singular = "vpsa",
    doc = "One storage array, a member of a VSCStorageClass.",
    derive = "PartialEq",
    status = "VpsaStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Display Name", "type": "string", "jsonPath": ".spec.displayName"}"#,
    printcolumn = r#"{"name": "Hostname", "type": "string", "jsonPath": ".spec.hostname", "priority": 1}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.version.softwareVersion", "priority": 1}"#,
    printcolumn = r#"{"name": "Capacity Mode", "type": "string", "jsonPath": ".status.capacity.mode"}"#,
    printcolumn = r#"{"name": "Total", "type": "string", "jsonPath": ".status.capacity.total", "priority": 1}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.capacity.available", "priority": 1}"#,
    printcolumn = r#"{"name": "VSC", "type": "string", "jsonPath": ".spec.VSCStorageClassName"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VpsaSpec {
    /// The class it is a member of.
    #[serde(
        default,
        rename = "VSCStorageClassName",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub vsc_storage_class_name: String,
    /// The name that people see.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub display_name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Address or name of the array, optionally with a port, without a scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Access key. Plain text is replaced by an encrypted form (`AES2:...`); prefer `tokenSecretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub token: Option<Concealed>,
    /// Where the access key is kept; wins over `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,
    /// Addresses at which nodes reach its disks, each with a port if it is not 3260: several are several paths. Without them those
    /// that the array tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub portals: Vec<String>,
    /// From where it is reached: nodes that have all labels of one of these. Without them as its class says, or from everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<Segments>,
    /// How the array is trusted; without it over HTTPS, by the authorities that the driver trusts anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct TokenSecretRef {
    /// Namespace of the Secret; without it that of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub name: String,
    /// Its key; `token` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How an array is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// `false`: plain HTTP, and the access key is sent unprotected. `true` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Certificates in PEM form: the authority's, or the array's own if nobody else has signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
    /// Trust whoever answers: anybody in between can then take the access key. A last resort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpsaStatus {
    /// How it is.
    #[serde(default)]
    pub state: VpsaState,
    /// User of iSCSI logins.
    #[serde(default, rename = "CHAPUser", skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// Secret of iSCSI logins, encrypted.
    #[serde(
        default,
        rename = "CHAPSecret",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub chap_secret: Option<Concealed>,
    /// Addresses at which its disks are reached, each with a port if it is not the usual one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub portals: Vec<String>,
    /// The name of its iSCSI target.
    #[serde(default, rename = "IQN", skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Key of the user that manages it from outside, encrypted.
    #[serde(
        default,
        rename = "ExternalManageToken",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub external_manage_token: Option<Concealed>,
    /// Whether it is older than 23.03, which cannot be told that it is managed from outside.
    #[serde(
        default,
        rename = "LegacyVPSA",
        skip_serializing_if = "Option::is_none"
    )]
    pub legacy_vpsa: Option<bool>,
    /// How much there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<VpsaCounters>,
    /// What runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ArrayVersion>,
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["pools", "snapshots", "volumes"]))]
pub struct VpsaCounters {
    /// Pools.
    #[serde(default)]
    pub pools: i64,
    /// Snapshots.
    #[serde(default)]
    pub snapshots: i64,
    /// Volumes.
    #[serde(default)]
    pub volumes: i64,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What runs on an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArrayVersion {
    /// Such as `23.03-sp1-123`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software_version: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
