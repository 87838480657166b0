//! What the cluster says about a driver. Only gets and lists.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use kube::Api;
use stowage_api::snapshot::{VolumeSnapshotClass, VolumeSnapshotContent};
use stowage_kubernetes::discovery::{Server, ServerError};
use stowage_weka::takeover::{Facts, SecretState};

use crate::cluster::lists::{Failure, list, list_metadata, list_version, settle};
use crate::cluster::{Cluster, trouble};

/// The ClusterRoles that the commands in errors make. Lists are of whole kinds, secrets are read one by one.
const ROLE: &str = "stowage-takeover";
const SECRETS_ROLE: &str = "stowage-takeover-secrets";

/// Versions of snapshots, the best first; the fields that are read are the same.
const SNAPSHOTS: [&str; 2] = [
    "snapshot.storage.k8s.io/v1",
    "snapshot.storage.k8s.io/v1beta1",
];

/// Reads everything that a check goes by.
pub async fn gather(cluster: &Cluster, driver: &str) -> anyhow::Result<Facts> {
    let server = Server::discover(&cluster.client).await;
    let server = server.map_err(|error| match error {
        ServerError::Unreachable(error) => trouble::request(cluster, "tell what it serves", &error),
        error @ ServerError::TooOld(_) => error.into(),
    })?;
    let mut facts = Facts {
        driver: driver.to_owned(),
        ..Facts::default()
    };
    let mut drivers = Vec::new();
    let mut answers = read_driver(cluster, &mut facts, &mut drivers).await;
    if let Some(version) = server.first_served(&SNAPSHOTS) {
        answers.extend(read_snapshots(cluster, version, &mut facts).await);
    }
    answers.extend(read_rights(cluster, &mut facts).await);
    settle(ROLE, answers)?;
    anyhow::ensure!(
        facts.know_the_driver(),
        "the cluster has no object of the driver `{driver}`: give the name of the driver with --driver-name (CSIDriver objects: {})",
        if drivers.is_empty() {
            "none".to_owned()
        } else {
            drivers.join(", ")
        }
    );
    read_secrets(cluster, &mut facts).await?;
    Ok(facts)
}

/// Volumes, classes, and what runs.
async fn read_driver(
    cluster: &Cluster,
    facts: &mut Facts,
    drivers: &mut Vec<String>,
) -> Vec<Result<(), Failure>> {
    let driver = facts.driver.clone();
    let (mut deployments, mut stateful_sets) = (Vec::new(), Vec::new());
    let answers: [_; 6] = tokio::join!(
        list(cluster, |volume: PersistentVolume| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            if csi.is_some_and(|csi| csi.driver == driver) {
                facts.volumes.push(volume);
            }
        }),
        list(cluster, |class: StorageClass| {
            if class.provisioner == driver {
                facts.classes.push(class);
            }
        }),
        list(cluster, |object: CSIDriver| {
            let name = object.metadata.name.clone().unwrap_or_default();
            if name == driver {
                facts.csi_driver = Some(object);
            }
            drivers.push(name);
        }),
        list(cluster, |it: DaemonSet| facts.workloads.push(it.into())),
        list(cluster, |it: Deployment| deployments.push(it.into())),
        list(cluster, |it: StatefulSet| stateful_sets.push(it.into())),
    )
    .into();
    facts.workloads.append(&mut deployments);
    facts.workloads.append(&mut stateful_sets);
    answers.into()
}

async fn read_snapshots(
    cluster: &Cluster,
    version: &str,
    facts: &mut Facts,
) -> Vec<Result<(), Failure>> {
    let driver = facts.driver.clone();
    let answers: [_; 2] = tokio::join!(
        list_version(cluster, version, |class: VolumeSnapshotClass| {
            if class.spec.driver == driver {
                facts.snapshot_classes.push(class);
            }
        }),
        list_version(cluster, version, |content: VolumeSnapshotContent| {
            if content.spec.driver == driver {
                facts.snapshots.push(content);
            }
        }),
    )
    .into();
    answers.into()
}

/// Whose accounts have which rights, and what else an installation leaves.
async fn read_rights(cluster: &Cluster, facts: &mut Facts) -> Vec<Result<(), Failure>> {
    let mut local = Vec::new();
    let answers: [_; 6] = tokio::join!(
        list(cluster, |it: ClusterRoleBinding| facts
            .bindings
            .push(it.into())),
        list(cluster, |it: RoleBinding| local.push(it.into())),
        list_metadata::<ClusterRole>(cluster, |it| facts.cluster_roles.push(it)),
        list_metadata::<Role>(cluster, |it| facts.roles.push(it)),
        list_metadata::<ServiceAccount>(cluster, |it| facts.accounts.push(it)),
        list_metadata::<ConfigMap>(cluster, |it| facts.config_maps.push(it)),
    )
    .into();
    facts.bindings.append(&mut local);
    answers.into()
}

async fn read_secrets(cluster: &Cluster, facts: &mut Facts) -> anyhow::Result<()> {
    let mut answers = Vec::new();
    for name in facts.secrets_named() {
        let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &name.namespace);
        match api.get_opt(&name.name).await {
            Ok(secret) => {
                let state = SecretState::of(secret.as_ref());
                facts.secrets.insert(name, state);
            }
            Err(error) => answers.push(Err(Failure::of::<Secret>(cluster, "get", &error))),
        }
    }
    settle(SECRETS_ROLE, answers)
}
