//! Objects as they are wanted, apart from what the cluster adds.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

use crate::served::Versions;

/// The kinds that make up a driver, in the order in which they are made: what others refer to comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The account of pods.
    ServiceAccount,
    /// Rules in the whole cluster.
    ClusterRole,
    /// Grants them to accounts.
    ClusterRoleBinding,
    /// Rules in one namespace.
    Role,
    /// Grants them to accounts.
    RoleBinding,
    /// How Kubernetes treats the driver.
    CsiDriver,
    /// A class of volumes.
    StorageClass,
    /// A class of snapshots.
    VolumeSnapshotClass,
    /// A class of snapshots of several volumes at once.
    VolumeGroupSnapshotClass,
    /// What can be changed of volumes that are there.
    VolumeAttributesClass,
    /// How many controller pods may be unavailable.
    PodDisruptionBudget,
    /// Pods on every node.
    DaemonSet,
    /// Controller pods.
    Deployment,
    /// Where metrics of pods are read.
    Service,
    /// Has Prometheus read them.
    ServiceMonitor,
    /// A pod that no workload makes.
    Pod,
    /// A Weka client on a node.
    WekaContainer,
}

impl Kind {
    /// Every kind that belongs to a driver as a whole, in the order in which they are made. What belongs to one node of
    /// a driver is found through its node.
    pub const ALL: [Self; 15] = [
        Self::ServiceAccount,
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Role,
        Self::RoleBinding,
        Self::CsiDriver,
        Self::StorageClass,
        Self::VolumeSnapshotClass,
        Self::VolumeGroupSnapshotClass,
        Self::VolumeAttributesClass,
        Self::PodDisruptionBudget,
        Self::DaemonSet,
        Self::Deployment,
        Self::Service,
        Self::ServiceMonitor,
    ];

    /// In which version a server has this kind; `None`: it has not.
    pub const fn version(self, versions: Versions) -> Option<&'static str> {
        match self {
            Self::PodDisruptionBudget => Some(versions.budget),
            Self::VolumeSnapshotClass => versions.snapshot_class,
            Self::VolumeGroupSnapshotClass => versions.group_snapshot_class,
            Self::VolumeAttributesClass => versions.attributes_class,
            Self::ServiceMonitor => versions.service_monitor,
            Self::WekaContainer => Some("v1alpha1"),
            _ => Some("v1"),
        }
    }

    /// Whether every server has this kind.
    pub const fn is_everywhere(self) -> bool {
        self.version(Versions::LEAST).is_some()
    }

    /// Group, kind and plural.
    const fn parts(self) -> [&'static str; 3] {
        const RBAC: &str = "rbac.authorization.k8s.io";
        const STORAGE: &str = "storage.k8s.io";
        match self {
            Self::ServiceAccount => ["", "ServiceAccount", "serviceaccounts"],
            Self::ClusterRole => [RBAC, "ClusterRole", "clusterroles"],
            Self::ClusterRoleBinding => [RBAC, "ClusterRoleBinding", "clusterrolebindings"],
            Self::Role => [RBAC, "Role", "roles"],
            Self::RoleBinding => [RBAC, "RoleBinding", "rolebindings"],
            Self::CsiDriver => [STORAGE, "CSIDriver", "csidrivers"],
            Self::StorageClass => [STORAGE, "StorageClass", "storageclasses"],
            Self::VolumeSnapshotClass => [
                "snapshot.storage.k8s.io",
                "VolumeSnapshotClass",
                "volumesnapshotclasses",
            ],
            Self::VolumeGroupSnapshotClass => [
                "groupsnapshot.storage.k8s.io",
                "VolumeGroupSnapshotClass",
                "volumegroupsnapshotclasses",
            ],
            Self::VolumeAttributesClass => {
                [STORAGE, "VolumeAttributesClass", "volumeattributesclasses"]
            }
            Self::PodDisruptionBudget => ["policy", "PodDisruptionBudget", "poddisruptionbudgets"],
            Self::DaemonSet => ["apps", "DaemonSet", "daemonsets"],
            Self::Deployment => ["apps", "Deployment", "deployments"],
            Self::Service => ["", "Service", "services"],
            Self::ServiceMonitor => ["monitoring.coreos.com", "ServiceMonitor", "servicemonitors"],
            Self::Pod => ["", "Pod", "pods"],
            Self::WekaContainer => ["weka.weka.io", "WekaContainer", "wekacontainers"],
        }
    }

    /// As people write it.
    pub const fn name(self) -> &'static str {
        self.parts()[1]
    }

    /// The API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        self.parts()[0]
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether objects of this kind grant rights to accounts.
    pub const fn is_binding(self) -> bool {
        matches!(self, Self::ClusterRoleBinding | Self::RoleBinding)
    }

    /// Whether objects of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::ClusterRole
                | Self::ClusterRoleBinding
                | Self::CsiDriver
                | Self::StorageClass
                | Self::VolumeSnapshotClass
                | Self::VolumeGroupSnapshotClass
                | Self::VolumeAttributesClass
        )
    }

    /// How a client addresses this kind.
    pub fn resource(self, versions: Versions) -> ApiResource {
        let [group, kind, plural] = self.parts();
        // A server that lacks it says so.
        let version = self.version(versions).unwrap_or("v1");
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }
}

/// An object as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Where it is; `None` for kinds without a namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Labels that it must have; it may have more.
    pub labels: BTreeMap<String, String>,
    /// Annotations that it must have; it may have more.
    pub annotations: BTreeMap<String, String>,
    /// Everything beside type and metadata: `spec`, `rules`, `provisioner` and so on.
    pub body: Map<String, Value>,
}

impl Object {
    /// The whole document.
    pub fn manifest(&self, versions: Versions) -> Value {
        let resource = self.kind.resource(versions);
        let mut metadata = json!({"name": self.name, "labels": self.labels});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let mut document = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
        });
        for (key, value) in &self.body {
            document[key] = value.clone();
        }
        document
    }

    /// The accounts that it grants rights to, or that its pods run as.
    pub fn accounts(&self) -> BTreeSet<&str> {
        let subjects = self.body.get("subjects").and_then(Value::as_array);
        let named = subjects.into_iter().flatten().map(|it| &it["name"]);
        let pods = self.body.get("spec").map(|spec| &spec["template"]["spec"]);
        let of_pods = pods.map(|pods| &pods["serviceAccountName"]);
        named.chain(of_pods).filter_map(Value::as_str).collect()
    }
}
