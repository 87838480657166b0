//! Classes, claims and nodes, as far as they are read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, PersistentVolumeClaim, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::snapshot::names::CLAIM_AS_SOURCE;
use stowage_api::snapshot::{DeletionPolicy, VolumeGroupSnapshotClass, VolumeSnapshotClass};
use stowage_kubernetes::store::Cached;

use crate::request::{Kind, by};

/// A class of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) policy: DeletionPolicy,
    /// It is used where none is named.
    pub(crate) default: bool,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) uid: String,
    /// As `namespace/name`.
    pub(crate) full_name: String,
    pub(crate) bound: bool,
    pub(crate) deleting: bool,
    /// It has our finalizer.
    pub(crate) protected: bool,
    /// The snapshot, as `namespace/name`, that it is being filled from.
    pub(crate) restores: Option<String>,
}

/// The labels of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeLabels {
    pub(crate) name: String,
    labels: BTreeMap<String, String>,
}

impl Class {
    pub(crate) fn read_single(object: VolumeSnapshotClass) -> Option<Self> {
        Some(Self {
            default: is_default(&object.metadata, Kind::Single),
            name: object.metadata.name?,
            driver: object.spec.driver,
            parameters: object.spec.parameters.unwrap_or_default(),
            policy: object.spec.deletion_policy,
        })
    }

    pub(crate) fn read_group(object: VolumeGroupSnapshotClass) -> Option<Self> {
        Some(Self {
            default: is_default(&object.metadata, Kind::Group),
            name: object.metadata.name?,
            driver: object.spec.driver,
            parameters: object.spec.parameters.unwrap_or_default(),
            policy: object.spec.deletion_policy,
        })
    }
}

fn is_default(metadata: &ObjectMeta, kind: Kind) -> bool {
    let annotations = metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(kind.names().default_class));
    value.is_some_and(|value| value == "true")
}

impl Claim {
    pub(crate) fn read(object: PersistentVolumeClaim) -> Option<Self> {
        let (metadata, spec) = (object.metadata, object.spec.unwrap_or_default());
        let phase = object.status.and_then(|status| status.phase);
        let namespace = metadata.namespace?;
        let of_snapshot = |group: Option<&str>, kind: &str| {
            group == Some("snapshot.storage.k8s.io") && kind == "VolumeSnapshot"
        };
        let older = spec.data_source.filter(|source| {
            let group = source.api_group.as_deref();
            of_snapshot(group, &source.kind)
        });
        let newer = spec.data_source_ref.filter(|source| {
            let elsewhere = source
                .namespace
                .as_ref()
                .is_some_and(|own| *own != namespace);
            of_snapshot(source.api_group.as_deref(), &source.kind) && !elsewhere
        });
        let source = older.map(|source| source.name);
        let source = source.or_else(|| newer.map(|source| source.name));
        let finalizers = metadata.finalizers.unwrap_or_default();
        Some(Self {
            uid: metadata.uid?,
            full_name: format!("{namespace}/{}", metadata.name?),
            bound: phase.as_deref() == Some("Bound"),
            deleting: metadata.deletion_timestamp.is_some(),
            protected: finalizers.iter().any(|name| name == CLAIM_AS_SOURCE),
            restores: source
                .filter(|_| phase.as_deref() == Some("Pending"))
                .map(|name| format!("{namespace}/{name}")),
        })
    }
}

impl NodeLabels {
    pub(crate) fn read(object: Node) -> Option<Self> {
        Some(Self {
            name: object.metadata.name?,
            labels: object.metadata.labels.unwrap_or_default(),
        })
    }

    /// Whether a volume of this affinity can be reached from the node.
    pub(crate) fn reaches(&self, affinity: &VolumeNodeAffinity) -> bool {
        let Some(required) = &affinity.required else {
            return false;
        };
        required.node_selector_terms.iter().any(|term| {
            let labels = term.match_expressions.as_deref().unwrap_or_default();
            let fields = term.match_fields.as_deref().unwrap_or_default();
            !(labels.is_empty() && fields.is_empty())
                && labels.iter().all(|rule| {
                    let value = self.labels.get(&rule.key).map(String::as_str);
                    fits(rule, value)
                })
                && fields.iter().all(|rule| {
                    let name = (rule.key == "metadata.name").then_some(self.name.as_str());
                    fits(rule, name)
                })
        })
    }
}

fn fits(rule: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    let among = value.is_some_and(|value| values.iter().any(|known| known == value));
    match rule.operator.as_str() {
        "In" => among,
        "NotIn" => !among,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // Volumes of drivers have topology, and topology has no order.
        _ => false,
    }
}

impl Cached for Class {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Cached for NodeLabels {
    fn key(&self) -> &str {
        &self.name
    }
}

/// How claims are grouped that are being filled from a snapshot.
pub(crate) fn restoring(snapshot: &str) -> String {
    format!("restores {snapshot}")
}

impl Cached for Claim {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        let mut groups = vec![by::name(&self.full_name)];
        groups.extend(self.restores.as_deref().map(restoring));
        groups
    }
}
