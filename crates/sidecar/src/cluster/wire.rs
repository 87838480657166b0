//! What is read of the objects that the API server sends.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use serde::Deserialize;
use stowage_api::snapshot as snapshots;
use stowage_kubernetes::reduced;

use super::content::Source;

reduced!(
    /// A PersistentVolumeClaim.
    WireClaim as core::PersistentVolumeClaim { spec: ClaimSpec, status: ClaimStatus }
);
reduced!(
    /// A PersistentVolume.
    WireVolume as core::PersistentVolume { spec: VolumeSpec, status: VolumeStatus }
);
reduced!(
    /// A Pod: only which claims it uses.
    WirePod as core::Pod { spec: PodSpec, status: PodStatus }
);
reduced!(
    /// A Node: only its labels are read.
    WireNode as core::Node {}
);
reduced!(
    /// A CSINode.
    WireCsiNode as storage::CSINode { spec: CsiNodeSpec }
);
reduced!(
    /// A StorageClass.
    WireClass as storage::StorageClass {
        provisioner: String,
        parameters: BTreeMap<String, String>,
        mount_options: Vec<String>,
        reclaim_policy: Option<String>,
        volume_binding_mode: Option<String>,
        allowed_topologies: Vec<core::TopologySelectorTerm>,
    }
);
reduced!(
    /// A CSIDriver: only its annotations are read.
    WireCsiDriver as storage::CSIDriver {}
);
reduced!(
    /// A VolumeAttributesClass: only that it is there.
    WireAttributesClass as storage::VolumeAttributesClass {}
);
reduced!(
    /// A VolumeAttachment.
    WireAttachment as storage::VolumeAttachment { spec: AttachmentSpec, status: AttachmentStatus }
);

reduced!(
    /// A VolumeSnapshotContent.
    WireContent as snapshots::VolumeSnapshotContent { spec: ContentSpec, status: Option<ContentStatus> }
);
reduced!(
    /// A VolumeGroupSnapshotContent.
    WireGroupContent as snapshots::VolumeGroupSnapshotContent {
        spec: ContentSpec,
        status: Option<ContentStatus>,
    }
);
reduced!(
    /// A VolumeSnapshotClass.
    WireSnapshotClass as snapshots::VolumeSnapshotClass {
        driver: String,
        parameters: BTreeMap<String, String>,
    }
);
reduced!(
    /// A VolumeGroupSnapshotClass.
    WireGroupClass as snapshots::VolumeGroupSnapshotClass {
        driver: String,
        parameters: BTreeMap<String, String>,
    }
);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimSpec {
    pub(crate) access_modes: Vec<String>,
    pub(crate) data_source: Option<core::TypedLocalObjectReference>,
    pub(crate) data_source_ref: Option<core::TypedObjectReference>,
    pub(crate) resources: Resources,
    pub(crate) selector: Option<serde::de::IgnoredAny>,
    pub(crate) storage_class_name: Option<String>,
    pub(crate) volume_attributes_class_name: Option<String>,
    pub(crate) volume_mode: Option<String>,
    pub(crate) volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) requests: Storage,
}

/// A resource list of which only `storage` counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Storage {
    pub(crate) storage: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimStatus {
    pub(crate) phase: String,
    pub(crate) capacity: Storage,
    pub(crate) conditions: Vec<ClaimCondition>,
    pub(crate) allocated_resources: Storage,
    pub(crate) allocated_resource_statuses: Storage,
    pub(crate) current_volume_attributes_class_name: Option<String>,
    pub(crate) modify_volume_status: Option<ModifyVolumeStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimCondition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ModifyVolumeStatus {
    pub(crate) target_volume_attributes_class_name: Option<String>,
    pub(crate) status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) volumes: Vec<PodVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodVolume {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<PodClaim>,
    pub(crate) ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodClaim {
    pub(crate) claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeSpec {
    pub(crate) access_modes: Vec<String>,
    pub(crate) capacity: Storage,
    pub(crate) claim_ref: Option<core::ObjectReference>,
    pub(crate) csi: Option<core::CSIPersistentVolumeSource>,
    pub(crate) mount_options: Vec<String>,
    pub(crate) node_affinity: Option<core::VolumeNodeAffinity>,
    pub(crate) persistent_volume_reclaim_policy: Option<String>,
    pub(crate) storage_class_name: Option<String>,
    pub(crate) volume_attributes_class_name: Option<String>,
    pub(crate) volume_mode: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeStatus {
    pub(crate) phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNodeSpec {
    /// A node without drivers says `null`.
    pub(crate) drivers: Option<Vec<NodeDriver>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeDriver {
    pub(crate) name: String,
    #[serde(rename = "nodeID")]
    pub(crate) node_id: String,
    pub(crate) topology_keys: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AttachmentSpec {
    pub(crate) attacher: String,
    pub(crate) node_name: String,
    pub(crate) source: AttachmentSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AttachmentSource {
    pub(crate) persistent_volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AttachmentStatus {
    pub(crate) attached: bool,
    pub(crate) attach_error: Option<WireError>,
    pub(crate) detach_error: Option<WireError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireError {
    pub(crate) message: Option<String>,
}

/// Of both kinds of content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContentSpec {
    pub(crate) driver: String,
    pub(crate) deletion_policy: String,
    #[serde(alias = "volumeSnapshotRef", alias = "volumeGroupSnapshotRef")]
    pub(crate) owner: Option<core::ObjectReference>,
    #[serde(
        alias = "volumeSnapshotClassName",
        alias = "volumeGroupSnapshotClassName"
    )]
    pub(crate) class: Option<String>,
    pub(crate) source: ContentSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContentSource {
    volume_handle: Option<String>,
    snapshot_handle: Option<String>,
    volume_handles: Vec<String>,
    group_snapshot_handles: Option<snapshots::GroupSnapshotHandles>,
}

impl From<ContentSource> for Source {
    fn from(source: ContentSource) -> Self {
        let mut volumes = source.volume_handles;
        volumes.extend(source.volume_handle);
        let group = source.group_snapshot_handles;
        match (volumes.is_empty(), source.snapshot_handle, group) {
            (false, None, None) => Self::Volumes(volumes),
            (true, Some(handle), None) => Self::Existing {
                handle,
                members: Vec::new(),
            },
            (true, None, Some(group)) => Self::Existing {
                handle: group.volume_group_snapshot_handle,
                members: group.volume_snapshot_handles,
            },
            _ => Self::Unclear,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContentStatus {
    pub(crate) snapshot_handle: Option<String>,
    pub(crate) volume_group_snapshot_handle: Option<String>,
    pub(crate) ready_to_use: bool,
    pub(crate) error: Option<WireError>,
    pub(crate) volume_snapshot_info_list: Vec<Member>,
    /// The same in `v1beta1`, with less in it.
    pub(crate) volume_snapshot_handle_pair_list: Vec<Member>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Member {
    pub(crate) snapshot_handle: String,
}
