//! The definitions as they are given to a server.
//!
//! A kind's own `crd()` is what the derive macro makes of the Rust type. [`crds`] brings that into the
//! form that every server from Kubernetes 1.20 on accepts; install nothing else.

#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_core::CustomResourceExt;

use crate::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotClass, VolumeSnapshotContent,
};

/// A server refuses definitions in a `*.k8s.io` group that lack this annotation.
const APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

/// Definitions that are installed together: those of one API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdGroup {
    /// `snapshot.storage.k8s.io`
    Snapshots,
    /// `groupsnapshot.storage.k8s.io`
    GroupSnapshots,
}

impl CrdGroup {
    /// Every group, in the order in which [`crds`] lists them.
    pub const ALL: [Self; 2] = [Self::Snapshots, Self::GroupSnapshots];

    /// The definitions of this group.
    pub fn crds(self) -> Vec<CustomResourceDefinition> {
        let derived = match self {
            Self::Snapshots => [
                VolumeSnapshotClass::crd(),
                VolumeSnapshotContent::crd(),
                VolumeSnapshot::crd(),
            ],
            Self::GroupSnapshots => [
                VolumeGroupSnapshotClass::crd(),
                VolumeGroupSnapshotContent::crd(),
                VolumeGroupSnapshot::crd(),
            ],
        };
        derived.map(|crd| self.finish(crd)).into()
    }

    /// The review in which the Kubernetes project accepted the API.
    fn approval(self) -> &'static str {
        match self {
            Self::Snapshots => "https://github.com/kubernetes-csi/external-snapshotter/pull/419",
            Self::GroupSnapshots => {
                "https://github.com/kubernetes-csi/external-snapshotter/pull/1337"
            }
        }
    }

    fn finish(self, mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
        // Not by the derive's `annotation`: that one also marks every object made with `new`.
        crd.metadata
            .annotations
            .get_or_insert_default()
            .insert(APPROVED_ANNOTATION.to_owned(), self.approval().to_owned());
        for version in &mut crd.spec.versions {
            if let Some(schema) = version.schema.as_mut()
                && let Some(root) = schema.open_api_v3_schema.as_mut()
            {
                root.title = None;
                tidy(root);
            }
        }
        crd
    }
}

/// Every definition, group by group.
pub fn crds() -> Vec<CustomResourceDefinition> {
    CrdGroup::ALL.into_iter().flat_map(CrdGroup::crds).collect()
}

/// Makes optional mean "may be absent", as in the Go types, instead of schemars' "may be null".
///
/// It matters for "exactly one of": `required` is content with a key whose value is null, so a
/// nullable source would let an object through that has no source at all. Line breaks that only wrap
/// a doc comment are taken out of descriptions on the way.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        let paragraphs: Vec<_> = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *description = paragraphs.join("\n\n");
    }
    for property in schema.properties.iter_mut().flatten() {
        tidy(property.1);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => tidy(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        tidy(value);
    }
}
