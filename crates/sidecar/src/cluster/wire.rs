//! What is read of the objects that the API server sends.
//!
//! Everything else, `managedFields` above all, is skipped while decoding: it is never allocated. All fields are
//! optional here, so that one odd object cannot stop a whole watch.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::{core::v1 as core, storage::v1 as storage},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// A kind whose path and names are those of a Kubernetes type, and whose content is only what we read.
macro_rules! wire {
    ($(#[$about:meta])* $name:ident as $kind:ty { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            #[serde(default, deserialize_with = "slim")]
            pub(crate) metadata: ObjectMeta,
            $(#[serde(default)] pub(crate) $field: $type,)*
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = <$kind as Resource>::Scope;

            fn kind(kind: &()) -> Cow<'_, str> {
                <$kind as Resource>::kind(kind)
            }
            fn group(kind: &()) -> Cow<'_, str> {
                <$kind as Resource>::group(kind)
            }
            fn version(kind: &()) -> Cow<'_, str> {
                <$kind as Resource>::version(kind)
            }
            fn plural(kind: &()) -> Cow<'_, str> {
                <$kind as Resource>::plural(kind)
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

wire!(
    /// A PersistentVolumeClaim.
    WireClaim as core::PersistentVolumeClaim { spec: ClaimSpec, status: ClaimStatus }
);
wire!(
    /// A PersistentVolume.
    WireVolume as core::PersistentVolume { spec: VolumeSpec, status: VolumeStatus }
);
wire!(
    /// A Pod: only which claims it uses.
    WirePod as core::Pod { spec: PodSpec, status: PodStatus }
);
wire!(
    /// A Node: only its labels are read.
    WireNode as core::Node {}
);
wire!(
    /// A CSINode.
    WireCsiNode as storage::CSINode { spec: CsiNodeSpec }
);
wire!(
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
wire!(
    /// A VolumeAttachment.
    WireAttachment as storage::VolumeAttachment { spec: AttachmentSpec, status: AttachmentStatus }
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
    pub(crate) drivers: Vec<NodeDriver>,
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

/// Metadata without what nobody here reads.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<Time>,
        annotations: Option<BTreeMap<String, String>>,
        labels: Option<BTreeMap<String, String>>,
        finalizers: Option<Vec<String>>,
    }
    let slim = Slim::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        deletion_timestamp: slim.deletion_timestamp,
        annotations: slim.annotations,
        labels: slim.labels,
        finalizers: slim.finalizers,
        ..ObjectMeta::default()
    })
}
