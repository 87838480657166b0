//! The two things that are made of an intent: the call to the driver, and the object in Kubernetes. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::quantity;
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, Topology, Volume, VolumeContentSource,
    volume_content_source,
};

use super::topology::requirement;
use crate::access;
use crate::cluster::claim::claim_reference;
use crate::cluster::volume::{
    DELETION_PROTECTION, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, MODIFY_SECRET_NAME,
    MODIFY_SECRET_NAMESPACE, PROVISIONED_BY,
};
use crate::intent::{Intent, Source};

/// Tells volumes of different provisioners apart, as upstream's do.
const PROVISIONER_IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// The call that makes the volume. The same intent gives the same call, whoever makes it and when.
pub(crate) fn create_request(
    intent: &Intent,
    secrets: BTreeMap<String, String>,
) -> CreateVolumeRequest {
    let class = &intent.class;
    let mut parameters = class.parameters.clone();
    if class.extra_metadata {
        for (key, value) in [
            ("csi.storage.k8s.io/pvc/name", &intent.claim.name),
            ("csi.storage.k8s.io/pvc/namespace", &intent.claim.namespace),
            ("csi.storage.k8s.io/pv/name", &intent.volume),
        ] {
            parameters.insert(key.to_owned(), value.clone());
        }
    }
    let capability =
        |mode: &i32| access::capability(*mode, intent.block, &class.fs_type, &class.mount_options);
    CreateVolumeRequest {
        name: intent.volume.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes: intent.bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: intent.csi_modes.iter().map(capability).collect(),
        parameters,
        secrets,
        volume_content_source: intent.source.as_ref().map(content_source),
        accessibility_requirements: intent.topology.as_ref().map(requirement),
        mutable_parameters: intent
            .attributes
            .iter()
            .flat_map(|class| class.parameters.clone())
            .collect(),
    }
}

fn content_source(source: &Source) -> VolumeContentSource {
    use volume_content_source::{SnapshotSource, Type, VolumeSource};
    let kind = match source {
        Source::Snapshot(snapshot_id) => Type::Snapshot(SnapshotSource {
            snapshot_id: snapshot_id.clone(),
        }),
        Source::Volume(volume_id) => Type::Volume(VolumeSource {
            volume_id: volume_id.clone(),
        }),
    };
    VolumeContentSource { r#type: Some(kind) }
}

/// What is wrong with a volume that a driver made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("the driver answered without a volume")]
    Nothing,
    #[error("the driver made a volume without an id")]
    NoId,
    #[error("the driver made a volume with an id of {0} bytes, which is more than {LONGEST_ID}")]
    LongId(usize),
    #[error("the driver made a volume of {made} bytes, but {asked} were requested")]
    Small { made: i64, asked: i64 },
    #[error(
        "the driver made a volume without the content that was requested: it may not be able to copy"
    )]
    NotCopied,
}

/// The longest id that is taken. CSI allows 128 bytes, but drivers whose ids are paths of their cloud have always had
/// longer ones.
const LONGEST_ID: usize = 1024;

/// Checks that the driver made what it was asked for.
pub(crate) fn check_answer(
    intent: &Intent,
    volume: Option<Volume>,
) -> Result<Volume, (AnswerError, Option<String>)> {
    let Some(volume) = volume else {
        return Err((AnswerError::Nothing, None));
    };
    let made = volume.capacity_bytes;
    let error = if volume.volume_id.is_empty() {
        return Err((AnswerError::NoId, None));
    } else if volume.volume_id.len() > LONGEST_ID {
        AnswerError::LongId(volume.volume_id.len())
    } else if made != 0 && made < intent.bytes {
        AnswerError::Small {
            made,
            asked: intent.bytes,
        }
    } else if intent.source.is_some() && volume.content_source.is_none() {
        // Which source it names does not matter: drivers write one id in several ways.
        AnswerError::NotCopied
    } else {
        return Ok(volume);
    };
    Err((error, Some(volume.volume_id)))
}

/// Who made a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker<'a> {
    pub(crate) driver: &'a str,
    /// Of this process.
    pub(crate) identity: &'a str,
    /// The driver's volumes are in places. What a driver without topology says of a place means nothing.
    pub(crate) topology: bool,
}

/// The object of a volume that was made.
pub(crate) fn persistent_volume(
    intent: &Intent,
    volume: Volume,
    maker: Maker<'_>,
) -> PersistentVolume {
    let driver = maker.driver;
    let places = if maker.topology {
        volume.accessible_topology.as_slice()
    } else {
        &[]
    };
    let class = &intent.class;
    let bytes = if volume.capacity_bytes == 0 {
        intent.bytes
    } else {
        volume.capacity_bytes
    };
    let affinity = node_affinity(places);
    let source = source(intent, volume, maker);
    let claim = &intent.claim;
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(intent.volume.clone()),
            annotations: Some(annotations(intent, driver)),
            finalizers: Some(vec![DELETION_PROTECTION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(intent.access_modes.clone()),
            capacity: Some(BTreeMap::from([(
                "storage".to_owned(),
                Quantity(quantity::text(bytes)),
            )])),
            claim_ref: Some(claim_reference(&claim.namespace, &claim.name, &claim.uid)),
            csi: Some(source),
            mount_options: (!class.mount_options.is_empty()).then(|| class.mount_options.clone()),
            node_affinity: affinity,
            persistent_volume_reclaim_policy: Some(class.reclaim_policy.clone()),
            storage_class_name: Some(class.name.clone()),
            volume_attributes_class_name: intent
                .attributes
                .as_ref()
                .map(|class| class.name.clone()),
            volume_mode: Some(if intent.block { "Block" } else { "Filesystem" }.to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// What the driver knows the volume by.
fn source(intent: &Intent, volume: Volume, maker: Maker<'_>) -> CSIPersistentVolumeSource {
    let class = &intent.class;
    let secrets = &intent.secrets;
    let mut attributes = volume.volume_context;
    attributes.insert(PROVISIONER_IDENTITY.to_owned(), maker.identity.to_owned());
    CSIPersistentVolumeSource {
        driver: maker.driver.to_owned(),
        volume_handle: volume.volume_id,
        volume_attributes: Some(attributes),
        fs_type: (!intent.block && !class.fs_type.is_empty()).then(|| class.fs_type.clone()),
        read_only: intent.read_only.then_some(true),
        controller_publish_secret_ref: secrets.controller_publish.clone(),
        node_stage_secret_ref: secrets.node_stage.clone(),
        node_publish_secret_ref: secrets.node_publish.clone(),
        controller_expand_secret_ref: secrets.controller_expand.clone(),
        node_expand_secret_ref: secrets.node_expand.clone(),
    }
}

fn annotations(intent: &Intent, driver: &str) -> BTreeMap<String, String> {
    let secrets = &intent.secrets;
    let text = |part: Option<&String>| part.cloned().unwrap_or_default();
    let deletion = secrets.provisioner.as_ref();
    let mut annotations = BTreeMap::from([
        (PROVISIONED_BY.to_owned(), driver.to_owned()),
        (
            DELETION_SECRET_NAME.to_owned(),
            text(deletion.and_then(|secret| secret.name.as_ref())),
        ),
        (
            DELETION_SECRET_NAMESPACE.to_owned(),
            text(deletion.and_then(|secret| secret.namespace.as_ref())),
        ),
    ]);
    if let Some(modify) = &secrets.controller_modify {
        annotations.insert(MODIFY_SECRET_NAME.to_owned(), text(modify.name.as_ref()));
        annotations.insert(
            MODIFY_SECRET_NAMESPACE.to_owned(),
            text(modify.namespace.as_ref()),
        );
    }
    annotations
}

/// Any of the places, each by all of its keys.
fn node_affinity(places: &[Topology]) -> Option<VolumeNodeAffinity> {
    let term = |place: &Topology| {
        let requirement = |(key, value): (&String, &String)| NodeSelectorRequirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: Some(vec![value.clone()]),
        };
        NodeSelectorTerm {
            match_expressions: Some(place.segments.iter().map(requirement).collect()),
            match_fields: None,
        }
    };
    // A term without keys matches no node at all: a place without segments is no restriction.
    let terms: Vec<_> = places
        .iter()
        .filter(|place| !place.segments.is_empty())
        .map(term)
        .collect();
    (!terms.is_empty()).then_some(VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: terms,
        }),
    })
}

#[cfg(test)]
mod tests;
