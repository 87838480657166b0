//! What the cluster says, unjudged.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};

use super::version;
use crate::cluster::lists::{Failure, list, settle};
use crate::cluster::{Cluster, trouble};

/// Everything that is read for one report.
#[derive(Debug, Default)]
pub struct Facts {
    /// Version of the API server, such as `v1.20.2`.
    pub server: String,
    pub csi_drivers: Vec<CSIDriver>,
    pub csi_nodes: Vec<CSINode>,
    pub nodes: Vec<Node>,
    pub storage_classes: Vec<StorageClass>,
    /// Number of volumes by driver; the volumes themselves are not kept.
    pub volumes: BTreeMap<String, usize>,
}

/// Asks for the server's version first, then for everything at once.
pub async fn gather(cluster: &Cluster) -> anyhow::Result<Facts> {
    let info = cluster
        .client
        .apiserver_version()
        .await
        .map_err(|error| trouble::request(cluster, "get /version", &error))?;
    let mut facts = Facts {
        server: version::check(&info)?,
        ..Facts::default()
    };
    let answers: [Result<(), Failure>; 5] = tokio::join!(
        list(cluster, |object| facts.csi_drivers.push(object)),
        list(cluster, |object| facts.csi_nodes.push(object)),
        list(cluster, |object| facts.nodes.push(object)),
        list(cluster, |object| facts.storage_classes.push(object)),
        list(cluster, |object: PersistentVolume| {
            if let Some(csi) = object.spec.and_then(|spec| spec.csi) {
                *facts.volumes.entry(csi.driver).or_default() += 1;
            }
        }),
    )
    .into();
    settle("stowage-status", answers)?;
    Ok(facts)
}
