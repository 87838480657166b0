//! Objects as they are wanted, apart from what the cluster adds.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

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
    /// How many controller pods may be unavailable.
    PodDisruptionBudget,
    /// Pods on every node.
    DaemonSet,
    /// Controller pods.
    Deployment,
    /// A pod that no workload makes.
    Pod,
    /// A Weka client on a node.
    WekaContainer,
}

/// API versions that depend on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BudgetVersion {
    /// Servers before 1.21.
    V1beta1,
    /// All others.
    #[default]
    V1,
}

impl Kind {
    /// Every kind that belongs to a driver as a whole, in the order in which they are made. What belongs to one node of
    /// a driver is found through its node.
    pub const ALL: [Self; 11] = [
        Self::ServiceAccount,
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Role,
        Self::RoleBinding,
        Self::CsiDriver,
        Self::StorageClass,
        Self::VolumeSnapshotClass,
        Self::PodDisruptionBudget,
        Self::DaemonSet,
        Self::Deployment,
    ];

    /// Group, version, kind and plural.
    const fn parts(self, budget: BudgetVersion) -> [&'static str; 4] {
        const RBAC: &str = "rbac.authorization.k8s.io";
        match self {
            Self::ServiceAccount => ["", "v1", "ServiceAccount", "serviceaccounts"],
            Self::ClusterRole => [RBAC, "v1", "ClusterRole", "clusterroles"],
            Self::ClusterRoleBinding => [RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"],
            Self::Role => [RBAC, "v1", "Role", "roles"],
            Self::RoleBinding => [RBAC, "v1", "RoleBinding", "rolebindings"],
            Self::CsiDriver => ["storage.k8s.io", "v1", "CSIDriver", "csidrivers"],
            Self::StorageClass => ["storage.k8s.io", "v1", "StorageClass", "storageclasses"],
            Self::VolumeSnapshotClass => [
                "snapshot.storage.k8s.io",
                "v1",
                "VolumeSnapshotClass",
                "volumesnapshotclasses",
            ],
            Self::PodDisruptionBudget => [
                "policy",
                match budget {
                    BudgetVersion::V1beta1 => "v1beta1",
                    BudgetVersion::V1 => "v1",
                },
                "PodDisruptionBudget",
                "poddisruptionbudgets",
            ],
            Self::DaemonSet => ["apps", "v1", "DaemonSet", "daemonsets"],
            Self::Deployment => ["apps", "v1", "Deployment", "deployments"],
            Self::Pod => ["", "v1", "Pod", "pods"],
            Self::WekaContainer => [
                "weka.weka.io",
                "v1alpha1",
                "WekaContainer",
                "wekacontainers",
            ],
        }
    }

    /// As people write it.
    pub const fn name(self) -> &'static str {
        self.parts(BudgetVersion::V1)[2]
    }

    /// The API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        self.parts(BudgetVersion::V1)[0]
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
        )
    }

    /// How a client addresses this kind.
    pub fn resource(self, budget: BudgetVersion) -> ApiResource {
        let [group, version, kind, plural] = self.parts(budget);
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
    pub fn manifest(&self, budget: BudgetVersion) -> Value {
        let resource = self.kind.resource(budget);
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
