//! `csidriver.storage.openshift.io/v1alpha1`: one object describes the deployment of one CSI driver.
//!
//! Names and meaning of the fields of 2018 are kept, so that old manifests apply unchanged; everything newer is
//! optional. The schema checks what it can say about a single field from Kubernetes 1.20 on: types, words, limits and
//! patterns. What fields say together is the operator's to judge, because it can list every mistake at once in a
//! condition; servers that can do it too are told by [`validation`]. Unknown fields are the operator's to judge as well: so that it
//! sees what was written they are kept, in the cluster and in these types (`unknown`).
//!
//! Pod templates are JSON and stay JSON: a typed template would drop each field that is newer than the types.

mod classes;
pub(crate) mod defaults;
mod sidecars;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod updates;
pub mod validation;
mod variants;

pub use classes::{
    ClassMetadata, CsiDriverTemplate, StorageClassTemplate, VolumeAttributesClassTemplate,
    VolumeSnapshotClassTemplate,
};
pub use sidecars::{
    ContainerImages, ExtraRules, Metrics, RestartOn, ScopedRules, ServiceMonitor, SidecarContainer,
    Sidecars,
};
pub use spec::{CSIDriverDeployment, CSIDriverDeploymentSpec, Unknown};
pub use status::{
    CSIDriverDeploymentStatus, Child, ConditionStatus, DrainStatus, DrainStop, DrainingNode,
    DriverCondition, IN_USE,
};
pub use updates::NodeDrain;
pub use variants::{NodeLabel, NodeVariant};

/// The API group.
pub const GROUP: &str = "csidriver.storage.openshift.io";
/// Keeps an instance until everything that belongs to it is gone.
pub const FINALIZER: &str = "csidriver.storage.openshift.io";
/// Label of everything the operator makes: the namespace of the instance.
pub const OWNER_NAMESPACE_LABEL: &str = "csidriver.storage.openshift.io/owner-namespace";
/// Label of everything the operator makes: the name of the instance.
pub const OWNER_NAME_LABEL: &str = "csidriver.storage.openshift.io/owner-name";
/// Label of everything the operator makes: the uid of the instance. An instance that was deleted and made again
/// has the same name and another uid.
pub const OWNER_UID_LABEL: &str = "stowage.dev/owner-uid";
/// Label by which a DaemonSet knows its pods.
pub const DAEMON_SET_LABEL: &str = "csidriver.storage.openshift.io/daemonset";
/// Label by which a Deployment knows its pods.
pub const DEPLOYMENT_LABEL: &str = "csidriver.storage.openshift.io/deployment";
/// How the keys of [taints](draining_taint) begin with which nodes are kept free.
pub const DRAINING_TAINTS: &str = "draining.stowage.dev/";
/// Effect of the [taint](draining_taint) of a node whose driver pod is about to be replaced.
pub const DRAINING_EFFECT: &str = "NoSchedule";
/// Annotation of pods that must not be evicted for an update: `"true"` holds it until they are gone.
pub const HOLD_ANNOTATION: &str = "draining.stowage.dev/hold";
/// Annotation of an object that an instance is to take over: `NAMESPACE/NAME` of the instance.
pub const ADOPT_ANNOTATION: &str = "stowage.dev/adopt-by";
/// Annotation of a CSIDriver whose driver is being uninstalled: its sidecars make no new volumes.
pub const UNINSTALLING_ANNOTATION: &str = "stowage.dev/uninstalling";

/// Key of the taint of a node whose driver pod is about to be replaced: one for each driver, since a node's taints are
/// told apart by key and effect. Its value is the uid of the instance.
pub fn draining_taint(driver: &str) -> String {
    format!("{DRAINING_TAINTS}{driver}")
}
