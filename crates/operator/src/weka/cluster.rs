//! What is watched.

mod kept;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use stowage_api::weka::{WekaClient, WekaCluster, WekaContainer};
use stowage_kubernetes::store::{Cached as _, Store};
use stowage_kubernetes::watch::{Watched, Watcher};
use tokio_util::sync::CancellationToken;

pub use self::kept::{Attachment, Kept, KeptNode, KeptPod, place, read_attachment};
use self::kept::{keep, read_node, read_pod};
use super::join;
use super::plan::{Claimant, Target};

/// Pods of containers, and CSI node pods.
const PODS: &str = "weka.io/mode in (client,csi_node)";

/// Everything that is watched.
#[derive(Default)]
pub struct Cluster {
    /// WekaClients.
    pub clients: Arc<Watched<Kept<WekaClient>>>,
    /// WekaContainers, in groups by client and by node.
    pub containers: Arc<Watched<Kept<WekaContainer>>>,
    /// WekaClusters.
    pub clusters: Arc<Watched<Kept<WekaCluster>>>,
    /// Nodes.
    pub nodes: Arc<Watched<KeptNode>>,
    /// Pods of containers and CSI node pods.
    pub pods: Arc<Watched<KeptPod>>,
    /// VolumeAttachments, in groups by driver and node.
    pub attachments: Arc<Watched<Attachment>>,
}

impl Cluster {
    /// Starts the watches; they end with `stop`. Returns when everything that exists is known.
    pub async fn follow(&self, watcher: &Watcher, stop: &CancellationToken) {
        watcher.follow(&self.clients, keep(|_: &WekaClient| Vec::new()), stop);
        let places = |it: &WekaContainer| {
            let client = client_of(it.meta()).map(|client| format!("client/{client}"));
            let node = it.node().map(|node| format!("node/{node}"));
            client.into_iter().chain(node).collect()
        };
        watcher.follow(&self.containers, keep(places), stop);
        watcher.follow(&self.clusters, keep(|_: &WekaCluster| Vec::new()), stop);
        watcher.follow(&self.nodes, read_node, stop);
        watcher.follow_labelled(PODS, &self.pods, read_pod, stop);
        watcher.follow(&self.attachments, read_attachment, stop);
        tokio::join!(
            self.clients.synced(),
            self.containers.synced(),
            self.clusters.synced(),
            self.nodes.synced(),
            self.pods.synced(),
            self.attachments.synced(),
        );
    }

    /// The client of this title.
    pub fn client(&self, title: &str) -> Option<Arc<Kept<WekaClient>>> {
        self.clients.store().in_group(title).pop()
    }

    /// The container of this title.
    pub fn container(&self, title: &str) -> Option<Arc<Kept<WekaContainer>>> {
        self.containers.store().in_group(title).pop()
    }

    /// The containers of a client.
    pub fn containers_of(&self, client_uid: &str) -> Vec<Arc<Kept<WekaContainer>>> {
        let group = format!("client/{client_uid}");
        self.containers.store().in_group(&group)
    }

    /// The containers on a node.
    pub fn containers_on(&self, node: &str) -> Vec<Arc<Kept<WekaContainer>>> {
        self.containers.store().in_group(&format!("node/{node}"))
    }

    /// All nodes.
    pub fn all_nodes(&self) -> Vec<Arc<KeptNode>> {
        self.nodes.store().all()
    }

    /// The pod of this title.
    pub fn pod(&self, title: &str) -> Option<Arc<KeptPod>> {
        self.pods.store().in_group(title).pop()
    }

    /// The CSI node pods beside a container.
    pub fn pods_beside(&self, container_uid: &str) -> Vec<Arc<KeptPod>> {
        self.pods
            .store()
            .in_group(&format!("beside/{container_uid}"))
    }

    /// How many volumes of a driver are attached to a node, as far as the watch has come.
    pub fn attached(&self, driver: &str, node: &str) -> usize {
        self.attachments
            .store()
            .count_in_group(&place(driver, node))
    }

    /// The drivers of clients that cannot be read: what they had, nobody knows what they want.
    pub fn held_drivers(&self) -> BTreeSet<String> {
        let clients = self.clients.store().all();
        let unreadable = clients.iter().filter(|it| it.object.is_err());
        unreadable.flat_map(|it| self.drivers_of(it)).collect()
    }

    /// The drivers that a client has, by its status and by its containers.
    fn drivers_of(&self, client: &Kept<WekaClient>) -> Vec<String> {
        let told = client.raw.data.pointer("/status/csi/driverName");
        let told = told.and_then(Value::as_str).map(str::to_owned);
        let containers = self.containers_of(client.key());
        let beside = containers.iter().filter_map(|it| it.object.as_ref().ok());
        let beside = beside.map(|it| it.spec.csi_driver_name.clone());
        let all = told.into_iter().chain(beside);
        all.filter(|driver| !driver.is_empty()).collect()
    }

    /// All clients that can be read, with what has to be known about them.
    pub fn claimants(&self) -> Vec<Claimant> {
        let clients = self.clients.store().all();
        let clients = clients.iter().filter_map(|it| it.object.clone().ok());
        clients.map(|client| self.claimant(client)).collect()
    }

    fn claimant(&self, client: Arc<WekaClient>) -> Claimant {
        let uid = client.uid().unwrap_or_default();
        Claimant {
            has_containers: !self.containers_of(&uid).is_empty(),
            target: self.target(&client),
            client,
        }
    }

    fn target(&self, client: &WekaClient) -> Target {
        let Some(target) = &client.spec.target_cluster else {
            return Target::None;
        };
        let title = format!("{}/{}", target.namespace, target.name);
        find(self.clusters.store(), &title).map_or(Target::Missing, Target::Found)
    }

    /// Where a client joins its target cluster, as the cluster's own containers say.
    pub fn addresses_for(&self, client: &WekaClient) -> Vec<String> {
        let Target::Found(cluster) = self.target(client) else {
            return Vec::new();
        };
        let all = self.containers.store().all();
        let readable = all.iter().filter_map(|it| it.object.as_deref().ok());
        join::addresses(&cluster, readable)
    }
}

fn find<K: Send + Sync + 'static>(store: &Store<Kept<K>>, title: &str) -> Option<Arc<K>> {
    let found = store.in_group(title).pop()?;
    found.object.clone().ok()
}

/// The uid of the client that a container was made for.
pub fn client_of(metadata: &ObjectMeta) -> Option<&str> {
    let labels = metadata.labels.as_ref()?;
    let uid = labels.get(stowage_api::driver_deployment::OWNER_UID_LABEL);
    uid.map(String::as_str)
}
