//! Storage classes of this driver, and which VolumeAttributesClasses there are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use stowage_kubernetes::store::Cached;

use super::wire::{WireAttributesClass, WireClass};

/// A StorageClass of this driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) mount_options: Vec<String>,
    /// `Delete` where the class says nothing, as the API server has it.
    pub(crate) reclaim_policy: String,
    pub(crate) waits_for_consumer: bool,
    pub(crate) allowed_topologies: Vec<TopologySelectorTerm>,
}

impl Class {
    /// Reads a class. `None`: it is another driver's.
    pub(crate) fn read(wire: WireClass, driver: &str) -> Option<Self> {
        if wire.provisioner != driver {
            return None;
        }
        Some(Self {
            name: wire.metadata.name?,
            uid: wire.metadata.uid?,
            parameters: wire.parameters,
            mount_options: wire.mount_options,
            reclaim_policy: wire.reclaim_policy.unwrap_or_else(|| "Delete".to_owned()),
            waits_for_consumer: wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            allowed_topologies: wire.allowed_topologies,
        })
    }
}

impl Cached for Class {
    fn key(&self) -> &str {
        &self.name
    }
}

/// A VolumeAttributesClass that exists. It is read when it is needed; that it came is news for claims that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributesClassName {
    pub(crate) name: String,
    uid: String,
}

impl AttributesClassName {
    pub(crate) fn read(wire: WireAttributesClass, _: &str) -> Option<Self> {
        Some(Self {
            name: wire.metadata.name?,
            uid: wire.metadata.uid?,
        })
    }
}

impl Cached for AttributesClassName {
    fn key(&self) -> &str {
        &self.name
    }
}
