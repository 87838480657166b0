//! Volumes on nodes.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Observed, Unknown};
use super::state::{AttachType, AttachmentState, IscsiStatus};
use crate::schema::{any_object, read_text, text};

/// A volume that is to be reached from a node.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["volumeName", "VSCNodeName", "attachType", "readOnly"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "VolumeAttachment",
    plural = "volumeattachments",
    singular = "volumeattachment",
    shortname = "vas",
    doc = "A Volume that is reached from a VSCNode. Not to be confused with that of storage.k8s.io.",
    derive = "PartialEq",
    status = "VolumeAttachmentStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "ISCSI", "type": "string", "jsonPath": ".status.Block.ISCSIStatus"}"#,
    printcolumn = r#"{"name": "Volume", "type": "string", "jsonPath": ".spec.volumeName"}"#,
    printcolumn = r#"{"name": "VSCNode", "type": "string", "jsonPath": ".spec.VSCNodeName"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeAttachmentSpec {
    /// The Volume.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub volume_name: String,
    /// The VSCNode.
    #[serde(default, rename = "VSCNodeName", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub vsc_node_name: String,
    /// `NFS` or `ISCSI`.
    #[serde(default)]
    pub attach_type: AttachType,
    /// Whether the node may only read.
    #[serde(default)]
    pub read_only: bool,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about an attachment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttachmentStatus {
    /// How it is.
    #[serde(default)]
    pub state: AttachmentState,
    /// The Server record on the array, such as `srv-00000001`; all attachments of a node there share it.
    #[serde(
        default,
        rename = "VPSAServerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub vpsa_server_id: Option<String>,
    /// Of a share: nothing.
    #[serde(default, rename = "NAS", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub nas: Option<Unknown>,
    /// Of a disk.
    #[serde(default, rename = "Block", skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockAttachment>,
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How a node reaches a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["lun", "target"]))]
pub struct BlockAttachment {
    /// Its number for this node.
    #[serde(default)]
    pub lun: i64,
    /// The iSCSI target.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub target: String,
    /// `Active`, `Disconnected`, or for shares `N/A (NAS)`.
    #[serde(
        default,
        rename = "ISCSIStatus",
        skip_serializing_if = "Option::is_none"
    )]
    pub iscsi_status: Option<IscsiStatus>,
    /// The initiator that has this number for it: under another name there may be another disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
