//! From a driver that is known to be right to the objects that make it run. Pure, and cannot fail.
//!
//! - [`valid`]: what the generator starts from. Whatever can be wrong has been found before.
//! - [`object`]: what it ends with: objects as they are wanted.
//! - [`template`]: pod templates, edited as JSON.
//! - [`sidecar`], [`workload`], [`rbac`], [`class`], [`metrics`]: the parts.
//! - [`secret`]: which secrets classes and volumes name.
//!
//! Nothing here knows who asks: each front door of the operator brings a [`ValidDriver`].

pub mod class;
mod metrics;
pub mod object;
pub mod rbac;
pub mod secret;
pub mod sidecar;
pub mod template;
pub mod valid;
mod workload;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use stowage_api::driver_deployment::{OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL};

use crate::served::Versions;
pub use object::{Kind, Object};
pub use sidecar::{CONTAINER_NAMES, PROBE_PORT_NAME, VOLUME_NAMES};
pub use template::PodTemplate;
pub use valid::{Owner, SecretNames, ValidDriver};
pub use workload::pod_on_node;

/// What must be known about the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The secrets that classes and volumes of the driver name.
    pub secrets: SecretNames,
    /// Which kinds the cluster has.
    pub versions: Versions,
    /// Whether privileged pods need a right of their own, as on OpenShift.
    pub has_security_constraints: bool,
    /// What is the same in all pods.
    pub pods: PodFacts,
}

/// What pods are given that no template says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// A text that changes with what the driver's pods are replaced for, beside their template.
    pub restart_hash: Option<String>,
    /// SHA-256 of the key with which nodes are asked what is mounted; none: they are not asked.
    pub mounts_key_hash: Option<String>,
}

/// Everything that makes the driver run, in the order in which it is made.
pub fn build(driver: &ValidDriver, facts: &Facts) -> Vec<Object> {
    let mut objects = rbac::accounts_and_roles(driver, facts);
    objects.extend(class::csi_driver(driver));
    objects.extend(class::storage_classes(driver));
    objects.extend(class::snapshot_classes(driver));
    objects.extend(class::attributes_classes(driver));
    objects.extend(metrics::objects(driver));
    objects.extend(workload::workloads(driver, facts));
    objects.retain(|object| object.kind.version(facts.versions).is_some());
    objects.sort_by_key(|object| object.kind);
    objects
}

/// The labels by which everything that belongs to an instance is found again.
///
/// There is no ownerReference: a deletion in the foreground would take the DaemonSet away while the finalizer still
/// holds the instance, and cluster-scoped objects cannot have one at all.
pub fn metadata_labels(owner: &Owner) -> BTreeMap<String, String> {
    [
        (OWNER_NAMESPACE_LABEL, &owner.namespace),
        (OWNER_NAME_LABEL, &owner.name),
        (OWNER_UID_LABEL, &owner.uid),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.clone()))
    .collect()
}

/// An object with our labels, in the driver's namespace where its kind has one.
fn object(owner: &Owner, kind: Kind, name: &str, body: Value) -> Object {
    let body = match body {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Object {
        kind,
        namespace: kind.is_namespaced().then(|| owner.namespace.clone()),
        name: name.to_owned(),
        labels: metadata_labels(owner),
        annotations: BTreeMap::new(),
        body,
    }
}
