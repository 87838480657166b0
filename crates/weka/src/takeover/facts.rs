//! What the cluster says, unjudged.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Container, PersistentVolume, PodSpec, PodTemplateSpec};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::driver_deployment::OWNER_NAME_LABEL;
use stowage_api::snapshot::{VolumeSnapshotClass, VolumeSnapshotContent};

use super::secrets::{ClassSecret, SecretName, SecretState, of_class};
use super::{classes, flags, volumes};

/// The operator's Deployment and its account, in a namespace of the same name unless a chart chose another.
pub(super) const OPERATOR: &str = "csi-operator";

/// Everything that a check goes by.
#[derive(Debug, Default)]
pub struct Facts {
    /// Name of the driver.
    pub driver: String,
    /// Its volumes.
    pub volumes: Vec<PersistentVolume>,
    /// Its classes.
    pub classes: Vec<StorageClass>,
    /// Its snapshot classes, where the server has such.
    pub snapshot_classes: Vec<VolumeSnapshotClass>,
    /// Its snapshots, where the server has such.
    pub snapshots: Vec<VolumeSnapshotContent>,
    /// Its CSIDriver object.
    pub csi_driver: Option<CSIDriver>,
    /// All workloads of the cluster.
    pub workloads: Vec<Workload>,
    /// All bindings of the cluster.
    pub bindings: Vec<Binding>,
    /// All ClusterRoles.
    pub cluster_roles: Vec<ObjectMeta>,
    /// All Roles.
    pub roles: Vec<ObjectMeta>,
    /// All ServiceAccounts.
    pub accounts: Vec<ObjectMeta>,
    /// All ConfigMaps.
    pub config_maps: Vec<ObjectMeta>,
    /// What became of each of [`Facts::secrets_named`].
    pub secrets: BTreeMap<SecretName, SecretState>,
}

impl Facts {
    /// Whether the cluster knows the driver at all.
    pub fn know_the_driver(&self) -> bool {
        let objects = self.volumes.len() + self.classes.len() + self.snapshots.len();
        objects > 0 || self.csi_driver.is_some() || !self.plugin_workloads().is_empty()
    }

    /// The workloads that run WEKA's plugin under the driver's name. Those of an instance are not among them.
    pub fn plugin_workloads(&self) -> Vec<&Workload> {
        let workloads = self.workloads.iter();
        let of_driver = |workload: &&Workload| {
            let labels = workload.metadata.labels.as_ref();
            let is_ours = labels.is_some_and(|labels| labels.contains_key(OWNER_NAME_LABEL));
            let name = workload.plugin().map(flags::driver_name);
            !is_ours && name.is_some_and(|name| name == self.driver)
        };
        let mut found: Vec<_> = workloads.filter(of_driver).collect();
        found.sort_by_key(|it| (it.kind, it.namespace.as_str(), it.name.as_str()));
        found
    }

    /// Where the operator runs, or will if it is installed by its manifests.
    pub(super) fn operator_namespace(&self) -> &str {
        let mut workloads = self.workloads.iter();
        let operator = workloads.find(|it| it.name == OPERATOR && it.account() == OPERATOR);
        operator.map_or(OPERATOR, |it| &it.namespace)
    }

    /// The secrets that classes and volumes of the driver name.
    pub fn secrets_named(&self) -> BTreeSet<SecretName> {
        let volumes = self.volumes.iter().flat_map(volumes::secrets);
        let snapshots = self.snapshots.iter().filter_map(volumes::snapshot_secret);
        let classes = self.classes.iter();
        let classes = classes.filter_map(|class| class.parameters.as_ref());
        let classes = classes.flat_map(|parameters| of_class(parameters, &classes::PURPOSES));
        let snapshot_classes = self.snapshot_classes.iter();
        let snapshot_classes = snapshot_classes.filter_map(|class| class.spec.parameters.as_ref());
        let snapshot_classes = snapshot_classes
            .flat_map(|parameters| of_class(parameters, &classes::SNAPSHOT_PURPOSES));
        let fixed = classes.chain(snapshot_classes).flatten();
        let fixed = fixed.filter_map(|(_, secret)| match secret {
            ClassSecret::Fixed(name) => Some(name),
            ClassSecret::ByClaim(_) | ClassSecret::Invalid(_) => None,
        });
        let legacy = self.plugin_workloads().into_iter();
        let legacy = legacy.filter_map(Workload::legacy_secret);
        let of_volumes = volumes.map(|(_, name)| name);
        of_volumes
            .chain(snapshots)
            .chain(fixed)
            .chain(legacy)
            .collect()
    }
}

/// What runs pods.
#[derive(Debug)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    pub(super) metadata: ObjectMeta,
    pub(super) replicas: Option<i32>,
    pub(super) pod: PodSpec,
}

/// In the order in which they are stopped: who makes volumes goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl WorkloadKind {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }
}

impl Workload {
    fn new(kind: WorkloadKind, metadata: ObjectMeta, template: Option<PodTemplateSpec>) -> Self {
        Self {
            kind,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            metadata,
            replicas: None,
            pod: template
                .and_then(|template| template.spec)
                .unwrap_or_default(),
        }
    }

    /// The container of WEKA's plugin, as its chart and its `deploy.sh` call it.
    pub(super) fn plugin(&self) -> Option<&Container> {
        let is_plugin = |container: &&Container| {
            let image = container.image.as_deref().unwrap_or_default();
            let image = image.rsplit('/').next().unwrap_or_default();
            container.name == "wekafs" || image.starts_with("csi-wekafs")
        };
        self.pod.containers.iter().find(is_plugin)
    }

    /// The secret for requests without one.
    pub(super) fn legacy_secret(&self) -> Option<SecretName> {
        let mounts = self.plugin()?.volume_mounts.as_ref()?;
        let mount = mounts
            .iter()
            .find(|mount| mount.mount_path == flags::LEGACY_DIRECTORY)?;
        let mut volumes = self.pod.volumes.iter().flatten();
        let volume = volumes.find(|volume| volume.name == mount.name)?;
        Some(SecretName {
            namespace: self.namespace.clone(),
            name: volume.secret.as_ref()?.secret_name.clone()?,
        })
    }

    /// The account of its pods.
    pub(super) fn account(&self) -> &str {
        let name = self.pod.service_account_name.as_deref();
        name.filter(|name| !name.is_empty()).unwrap_or("default")
    }
}

impl From<DaemonSet> for Workload {
    fn from(object: DaemonSet) -> Self {
        let template = object.spec.map(|spec| spec.template);
        Self::new(WorkloadKind::DaemonSet, object.metadata, template)
    }
}

impl From<Deployment> for Workload {
    fn from(object: Deployment) -> Self {
        let replicas = object.spec.as_ref().and_then(|spec| spec.replicas);
        let template = object.spec.map(|spec| spec.template);
        Self {
            replicas,
            ..Self::new(WorkloadKind::Deployment, object.metadata, template)
        }
    }
}

impl From<StatefulSet> for Workload {
    fn from(object: StatefulSet) -> Self {
        let replicas = object.spec.as_ref().and_then(|spec| spec.replicas);
        let template = object.spec.map(|spec| spec.template);
        Self {
            replicas,
            ..Self::new(WorkloadKind::StatefulSet, object.metadata, template)
        }
    }
}

/// A RoleBinding or, without a namespace, a ClusterRoleBinding.
#[derive(Debug)]
pub struct Binding {
    pub(super) metadata: ObjectMeta,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

impl From<ClusterRoleBinding> for Binding {
    fn from(object: ClusterRoleBinding) -> Self {
        Self {
            metadata: object.metadata,
            role: object.role_ref,
            subjects: object.subjects.unwrap_or_default(),
        }
    }
}

impl From<RoleBinding> for Binding {
    fn from(object: RoleBinding) -> Self {
        Self {
            metadata: object.metadata,
            role: object.role_ref,
            subjects: object.subjects.unwrap_or_default(),
        }
    }
}
