//! What is watched.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodStatus, Taint};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stowage_api::weka::{CONTAINER_UID_LABEL, WekaClient, WekaCluster, WekaContainer};
use stowage_kubernetes::raw::Raw;
use stowage_kubernetes::store::{Cached, Store, exact};
use stowage_kubernetes::watch::{Watched, Watcher};
use tokio_util::sync::CancellationToken;

use super::nodes;
use super::plan::{Claimant, Target, title};

/// Pods of containers, and CSI node pods.
const PODS: &str = "weka.io/mode in (client,csi_node)";

/// An object that is found by its uid, its title and its groups.
#[derive(Debug)]
pub struct Kept<K> {
    uid: String,
    groups: Vec<String>,
    /// As the server sent it.
    pub raw: DynamicObject,
    /// What it says, or why it cannot be read.
    pub object: Result<Arc<K>, String>,
}

impl<K: Send + Sync + 'static> Cached for Kept<K> {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        self.groups.clone()
    }
}

/// A pod.
#[derive(Debug)]
pub struct KeptPod {
    uid: String,
    /// The pod.
    pub pod: Pod,
}

impl Cached for KeptPod {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        let beside = self.pod.labels().get(CONTAINER_UID_LABEL);
        let beside = beside.map(|uid| format!("beside/{uid}"));
        [Some(title(&self.pod)), beside]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A node: only what clients are placed by.
#[derive(Debug, PartialEq)]
pub struct KeptNode(pub nodes::Node);

impl Cached for KeptNode {
    fn key(&self) -> &str {
        &self.0.name
    }
}

/// A volume that is attached to a node, or about to be.
#[derive(Debug)]
pub struct Attachment {
    name: String,
    /// The node.
    pub node: String,
    /// The driver and the node, by which it is found.
    place: String,
}

impl Cached for Attachment {
    fn key(&self) -> &str {
        &self.name
    }

    fn group(&self) -> Option<String> {
        Some(self.place.clone())
    }
}

stowage_kubernetes::reduced!(
    /// A Node: labels and taints.
    ReducedNode as Node { spec: ReducedNodeSpec }
);

/// What is read of a node's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReducedNodeSpec {
    taints: Option<Vec<Taint>>,
}

stowage_kubernetes::reduced!(
    /// A VolumeAttachment: which driver and which node.
    ReducedAttachment as VolumeAttachment { spec: ReducedAttachmentSpec }
);

/// What is read of an attachment's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReducedAttachmentSpec {
    attacher: String,
    node_name: String,
}

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
        watcher.follow_labelled(&self.pods, PODS, read_pod, stop);
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

    /// How many volumes of a driver are attached to a node.
    pub fn mounts(&self, driver: &str, node: &str) -> usize {
        self.attachments
            .store()
            .count_in_group(&place(driver, node))
    }

    /// Whether a client cannot be read: nobody knows then which driver it has.
    pub fn has_unreadable_clients(&self) -> bool {
        self.clients
            .store()
            .all()
            .iter()
            .any(|it| it.object.is_err())
    }

    /// All clients that can be read, with what has to be known about them.
    pub fn claimants(&self) -> Vec<Claimant> {
        let clients = self.clients.store().all();
        let clients = clients.iter().filter_map(|it| it.object.clone().ok());
        clients.map(|client| self.claimant(client)).collect()
    }

    fn claimant(&self, client: Arc<WekaClient>) -> Claimant {
        let uid = client.uid().unwrap_or_default();
        let target = match &client.spec.target_cluster {
            None => Target::None,
            Some(target) => {
                let title = format!("{}/{}", target.namespace, target.name);
                find(self.clusters.store(), &title).map_or(Target::Missing, Target::Found)
            }
        };
        Claimant {
            has_containers: !self.containers_of(&uid).is_empty(),
            client,
            target,
        }
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

/// Keeps objects, in groups by title and by what they say.
fn keep<K>(
    groups: impl Fn(&K) -> Vec<String> + Send + 'static,
) -> impl Fn(Raw<K>) -> Option<Kept<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    move |mut raw| {
        raw.object.metadata.managed_fields = None;
        let object = raw.typed().map(Arc::new);
        // What is compared and written back is the rest.
        if let Some(fields) = raw.object.data.as_object_mut() {
            fields.remove("status");
        }
        let mut all = vec![title(&raw)];
        all.extend(object.iter().flat_map(|object| groups(object)));
        Some(Kept {
            uid: raw.object.metadata.uid.clone()?,
            groups: all,
            raw: raw.object,
            object,
        })
    }
}

fn read_node(node: ReducedNode) -> Option<KeptNode> {
    let metadata = node.metadata;
    Some(KeptNode(nodes::Node {
        name: metadata.name?,
        uid: metadata.uid.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        taints: node.spec.taints.unwrap_or_default(),
    }))
}

/// Only what is looked at: there are two for each node.
fn read_pod(mut pod: Pod) -> Option<KeptPod> {
    pod.metadata.managed_fields = None;
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    let containers = containers.into_iter().map(|it| Container {
        name: it.name,
        image: it.image,
        ..Container::default()
    });
    let status = pod.status.unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default();
    conditions.retain(|it| it.type_ == "Ready");
    let uid = pod.metadata.uid.clone()?;
    let pod = Pod {
        spec: Some(PodSpec {
            containers: exact(containers.collect()),
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: status.phase,
            conditions: Some(exact(conditions)),
            pod_ips: status.pod_ips,
            ..PodStatus::default()
        }),
        metadata: pod.metadata,
    };
    Some(KeptPod { uid, pod })
}

fn read_attachment(attachment: ReducedAttachment) -> Option<Attachment> {
    let spec = attachment.spec;
    Some(Attachment {
        name: attachment.metadata.name?,
        place: place(&spec.attacher, &spec.node_name),
        node: spec.node_name,
    })
}

fn place(driver: &str, node: &str) -> String {
    format!("{driver} {node}")
}
