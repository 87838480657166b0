//! The definitions as they are given to a server.
//!
//! A kind's own `crd()` is what the derive macro makes of the Rust type. [`crds`] brings that into the
//! form that every server from Kubernetes 1.20 on accepts; install nothing else.

#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_core::CustomResourceExt;

use crate::driver_deployment::{CSIDriverDeployment, defaults};
use crate::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotClass, VolumeSnapshotContent,
};
use crate::vpsa::{
    ExternalVolume, Snapshot, Volume, VolumeAttachment, Vpsa, VscNode, VscStorageClass,
};
use crate::weka::{WekaClient, WekaCluster, WekaContainer};

/// A server refuses definitions in a `*.k8s.io` group that lack this annotation.
const APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

/// Which release a definition is of: an older one never replaces a newer one.
pub const VERSION_ANNOTATION: &str = "stowage.dev/version";

/// Definitions that are installed together: those of one API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdGroup {
    /// `csidriver.storage.openshift.io`
    DriverDeployments,
    /// `snapshot.storage.k8s.io`
    Snapshots,
    /// `groupsnapshot.storage.k8s.io`
    GroupSnapshots,
    /// `storage.zadara.com`
    Vpsa,
    /// `weka.weka.io`
    Weka,
}

impl CrdGroup {
    /// Every group, in the order in which [`crds`] lists them.
    pub const ALL: [Self; 5] = [
        Self::DriverDeployments,
        Self::Snapshots,
        Self::GroupSnapshots,
        Self::Vpsa,
        Self::Weka,
    ];

    /// The definitions of this group.
    pub fn crds(self) -> Vec<CustomResourceDefinition> {
        let derived = match self {
            Self::DriverDeployments => vec![CSIDriverDeployment::crd()],
            Self::Snapshots => vec![
                VolumeSnapshotClass::crd(),
                VolumeSnapshotContent::crd(),
                VolumeSnapshot::crd(),
            ],
            Self::GroupSnapshots => vec![
                VolumeGroupSnapshotClass::crd(),
                VolumeGroupSnapshotContent::crd(),
                VolumeGroupSnapshot::crd(),
            ],
            Self::Vpsa => vec![
                VscStorageClass::crd(),
                Vpsa::crd(),
                VscNode::crd(),
                Volume::crd(),
                ExternalVolume::crd(),
                VolumeAttachment::crd(),
                Snapshot::crd(),
            ],
            Self::Weka => vec![WekaClient::crd(), WekaContainer::crd(), WekaCluster::crd()],
        };
        derived.into_iter().map(|crd| self.finish(crd)).collect()
    }

    /// Versions before `v1` that clients still ask for. They have the shape of `v1`, so that nothing is to be converted.
    fn older_versions(self) -> &'static [&'static str] {
        match self {
            Self::DriverDeployments | Self::Snapshots | Self::Vpsa | Self::Weka => &[],
            Self::GroupSnapshots => &["v1beta1", "v1beta2"],
        }
    }

    /// The review in which the Kubernetes project accepted the API, for groups that are its own.
    fn approval(self) -> Option<&'static str> {
        match self {
            Self::DriverDeployments | Self::Vpsa | Self::Weka => None,
            Self::Snapshots => {
                Some("https://github.com/kubernetes-csi/external-snapshotter/pull/419")
            }
            Self::GroupSnapshots => {
                Some("https://github.com/kubernetes-csi/external-snapshotter/pull/1337")
            }
        }
    }

    /// What an absent optional field may look like.
    fn absence(self) -> Absence {
        match self {
            // A field whose lines were all commented out is null, and old manifests have such fields.
            Self::DriverDeployments | Self::Vpsa | Self::Weka => Absence::MissingOrNull,
            Self::Snapshots | Self::GroupSnapshots => Absence::Missing,
        }
    }

    fn finish(self, mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
        // Not by the derive's `annotation`: that one also marks every object made with `new`.
        let annotations = crd.metadata.annotations.get_or_insert_default();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        annotations.insert(VERSION_ANNOTATION.to_owned(), version);
        if let Some(approval) = self.approval() {
            annotations.insert(APPROVED_ANNOTATION.to_owned(), approval.to_owned());
        }
        for version in &mut crd.spec.versions {
            if let Some(schema) = version.schema.as_mut()
                && let Some(root) = schema.open_api_v3_schema.as_mut()
            {
                root.title = None;
                tidy(root, self.absence());
                if self == Self::DriverDeployments {
                    defaults::fill_in(root);
                }
            }
        }
        let newest = crd.spec.versions.clone();
        for (older, version) in self.older_versions().iter().zip(newest.iter().cycle()) {
            crd.spec.versions.push(CustomResourceDefinitionVersion {
                name: (*older).to_owned(),
                storage: false,
                ..version.clone()
            });
        }
        crd
    }
}

/// Every definition, group by group.
pub fn crds() -> Vec<CustomResourceDefinition> {
    CrdGroup::ALL.into_iter().flat_map(CrdGroup::crds).collect()
}

/// How an optional field may be left out.
#[derive(Clone, Copy)]
enum Absence {
    /// As in the Go types. It matters for "exactly one of": `required` is content with a key whose value is null, so a
    /// nullable source would let an object through that has no source at all.
    Missing,
    /// As schemars has it.
    MissingOrNull,
}

/// Says how optional fields may be left out. Takes out the defaults of the Rust types, which a server would fill in where
/// a field is required, and line breaks that only wrap a doc comment.
fn tidy(schema: &mut JSONSchemaProps, absence: Absence) {
    if matches!(absence, Absence::Missing) {
        schema.nullable = None;
    }
    schema.default = None;
    if let Some(words) = &mut schema.enum_ {
        // kubectl 1.20 refuses a definition whose enum has a null among its words.
        words.retain(|word| !word.0.is_null());
        schema.nullable = None;
    }
    if let Some(description) = &mut schema.description {
        let paragraphs: Vec<_> = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *description = paragraphs.join("\n\n");
    }
    for property in schema.properties.iter_mut().flatten() {
        tidy(property.1, absence);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => tidy(item, absence),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => {
            for item in items {
                tidy(item, absence);
            }
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        tidy(value, absence);
    }
}
