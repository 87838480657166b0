//! Classes of volumes and snapshots, and the secrets that they name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::driver::object::Kind;

/// What happens when an immutable field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatePolicy {
    /// A condition shows the difference.
    Report,
    /// The object is deleted and created again.
    Recreate,
}

/// What all classes have.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassBase {
    /// Name of the class.
    pub name: String,
    /// Labels from the template.
    pub labels: BTreeMap<String, String>,
    /// Annotations from the template.
    pub annotations: BTreeMap<String, String>,
    /// Whether it is the default; `None`: as an administrator decides.
    pub default: Option<bool>,
    /// Settings for the driver.
    pub parameters: Option<BTreeMap<String, String>>,
    /// What happens when an immutable field changes.
    pub update: UpdatePolicy,
}

/// All classes of a driver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// Of volumes.
    pub storage: Vec<StorageClass>,
    /// Of snapshots.
    pub snapshot: Vec<SnapshotClass>,
    /// Of snapshots of several volumes at once.
    pub group_snapshot: Vec<SnapshotClass>,
    /// Of what can be changed of volumes.
    pub attributes: Vec<ClassBase>,
}

impl Classes {
    /// What all classes have, of each with its kind.
    pub fn bases(&self) -> impl Iterator<Item = (Kind, &ClassBase)> {
        let storage = self.storage.iter().map(|it| (Kind::StorageClass, &it.base));
        let snapshot = self.snapshot.iter();
        let snapshot = snapshot.map(|it| (Kind::VolumeSnapshotClass, &it.base));
        let group = self.group_snapshot.iter();
        let group = group.map(|it| (Kind::VolumeGroupSnapshotClass, &it.base));
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|it| (Kind::VolumeAttributesClass, it));
        storage.chain(snapshot).chain(group).chain(attributes)
    }

    /// The class of this kind and name.
    pub fn named(&self, kind: Kind, name: &str) -> Option<&ClassBase> {
        let mut bases = self.bases();
        let found = bases.find(|(of, base)| *of == kind && base.name == name);
        found.map(|(_, base)| base)
    }
}

/// A class of volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// What all classes have.
    pub base: ClassBase,
    /// Fields that are handed on as they are, checked by the server.
    pub fields: serde_json::Map<String, Value>,
}

/// A class of snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotClass {
    /// What all classes have.
    pub base: ClassBase,
    /// `Delete` or `Retain`.
    pub deletion_policy: String,
}

/// Secrets by name: what sidecars may read with [`SecretAccess::Named`](super::SecretAccess::Named).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretNames {
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl SecretNames {
    /// Adds one.
    pub fn insert(&mut self, namespace: impl Into<String>, name: impl Into<String>) {
        self.by_namespace
            .entry(namespace.into())
            .or_default()
            .insert(name.into());
    }

    /// Namespaces, each with the names of secrets in it.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        self.by_namespace.iter()
    }
}

impl<N: Into<String>, S: Into<String>> FromIterator<(N, S)> for SecretNames {
    fn from_iter<I: IntoIterator<Item = (N, S)>>(pairs: I) -> Self {
        let mut names = Self::default();
        for (namespace, name) in pairs {
            names.insert(namespace, name);
        }
        names
    }
}
