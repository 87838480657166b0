//! What is followed of an instance while its nodes are emptied for an update: its driver pods, where its volumes are
//! attached, and the pods of the nodes that are under way. Nothing of it is kept for longer.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Error, ResourceExt};
use parking_lot::Mutex;
use serde::Deserialize;
use stowage_api::driver_deployment::DAEMON_SET_LABEL;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::followed::Followed;
use super::{Cluster, Concern};
use crate::mounts::sidecar_of;

/// Label of pods and of what they were made from.
pub const REVISION: &str = "controller-revision-hash";

/// A driver pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPod {
    /// Its DaemonSet.
    pub set: String,
    /// Its node.
    pub node: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Which template it is of.
    pub revision: Option<String>,
    /// Whether it serves.
    pub is_ready: bool,
    /// Whether it is about to go.
    pub is_going: bool,
    /// Where its sidecar tells what is mounted, if it does.
    pub tells_at: Option<SocketAddr>,
}

/// A volume that is attached to a node, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: String,
    /// The PersistentVolume, if it is of one.
    pub volume: Option<String>,
}

/// An instance whose nodes are emptied.
#[derive(Clone, Copy)]
pub struct Updating<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its driver.
    pub driver: &'a str,
    /// Its DaemonSets.
    pub sets: &'a [String],
}

/// The watches by uid of the instance.
#[derive(Default)]
pub(super) struct Updates(Mutex<HashMap<String, Arc<Update>>>);

/// What is followed of one instance.
pub struct Update {
    driver: String,
    sets: Vec<String>,
    pods: Followed<SetPod>,
    attachments: Followed<Attachment>,
    nodes: Mutex<BTreeMap<String, AbortOnDropHandle<()>>>,
    /// Which template is the current one, and for which generation, by name of the DaemonSet.
    current: Mutex<BTreeMap<String, (i64, String)>>,
    client: Client,
    tell: Tell,
}

impl Cluster {
    /// Follows an update from now on. Called twice: everything is watched once.
    pub fn follow_update(&self, client: &Client, of: Updating<'_>) -> Arc<Update> {
        let mut updates = self.updates.0.lock();
        let known = updates.get(of.uid);
        if let Some(update) = known.filter(|it| it.driver == of.driver && it.sets == of.sets) {
            return Arc::clone(update);
        }
        let update = Arc::new(Update::start(client, of, self.changes.clone()));
        updates.insert(of.uid.to_owned(), Arc::clone(&update));
        update
    }

    /// The update is over. Called twice: nothing is watched.
    pub fn end_update(&self, uid: &str) {
        self.updates.0.lock().remove(uid);
    }
}

impl Update {
    fn start(client: &Client, of: Updating<'_>, changes: broadcast::Sender<Concern>) -> Self {
        let tell = Tell {
            concern: Concern::Instance {
                namespace: of.namespace.to_owned(),
                name: of.name.to_owned(),
            },
            changes,
        };
        let selector = format!("{DAEMON_SET_LABEL} in ({})", of.sets.join(","));
        let labelled = watcher::Config::default().labels(&selector);
        let pods = Api::<ReducedPod>::namespaced(client.clone(), of.namespace);
        let attachments = Api::<ReducedAttachment>::all(client.clone());
        let driver = of.driver.to_owned();
        let is_ours = move |it: &ReducedAttachment| attachment(it, &driver);
        Self {
            driver: of.driver.to_owned(),
            sets: of.sets.to_vec(),
            pods: Followed::start(pods, labelled, set_pod, tell.clone().into_fn()),
            attachments: Followed::start(
                attachments,
                watcher::Config::default(),
                is_ours,
                tell.clone().into_fn(),
            ),
            nodes: Mutex::default(),
            current: Mutex::default(),
            client: client.clone(),
            tell,
        }
    }

    /// The driver pods of a DaemonSet that have a node.
    pub async fn pods_of(&self, set: &str) -> Result<Vec<SetPod>, Error> {
        let mut all = self.pods.all().await?;
        all.retain(|it| it.set == set);
        Ok(all)
    }

    /// What is attached to a node of the driver's volumes.
    pub async fn attached_to(&self, node: &str) -> Result<Vec<Attachment>, Error> {
        let mut all = self.attachments.all().await?;
        all.retain(|it| it.node == node);
        Ok(all)
    }

    /// From now on changes of pods on these nodes concern the instance, and those on other nodes no longer do. Called twice:
    /// each node is watched once.
    pub fn follow_nodes(&self, nodes: &[&str]) {
        let mut watches = self.nodes.lock();
        watches.retain(|node, _| nodes.contains(&node.as_str()));
        for node in nodes {
            watches.entry((*node).to_owned()).or_insert_with(|| {
                let watch = follow(self.client.clone(), node, self.tell.clone());
                AbortOnDropHandle::new(tokio::spawn(watch))
            });
        }
    }

    /// The current template for this generation of a DaemonSet, if it is known.
    pub fn current_revision(&self, set: &str, generation: i64) -> Option<String> {
        let known = self.current.lock().get(set).cloned();
        known.filter(|it| it.0 == generation).map(|it| it.1)
    }

    /// Notes down the current template for this generation of a DaemonSet.
    pub fn note_revision(&self, set: &str, generation: i64, revision: &str) {
        let noted = (generation, revision.to_owned());
        self.current.lock().insert(set.to_owned(), noted);
    }
}

#[derive(Clone)]
struct Tell {
    concern: Concern,
    changes: broadcast::Sender<Concern>,
}

impl Tell {
    fn tell(&self) {
        // Nobody listens yet, or any more.
        let _ = self.changes.send(self.concern.clone());
    }

    fn into_fn(self) -> impl Fn() + Send + 'static {
        move || self.tell()
    }
}

/// Only that something changed is of interest: what there is now is read by whoever decides on it.
fn follow(client: Client, node: &str, tell: Tell) -> impl Future<Output = ()> + Send + 'static {
    let there = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let pods = watcher(pods, there).default_backoff();
    pods.touched_objects().for_each(move |_| {
        tell.tell();
        ready(())
    })
}

stowage_kubernetes::reduced!(
    /// A Pod: what it was started with, and how it is.
    ReducedPod as Pod { spec: PodSpec, status: PodStatus }
);

stowage_kubernetes::reduced!(
    /// A VolumeAttachment: which driver, volume and node.
    ReducedAttachment as VolumeAttachment { spec: ReducedAttachmentSpec }
);

/// What is read of an attachment's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReducedAttachmentSpec {
    /// The driver.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    source: Source,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    persistent_volume_name: Option<String>,
}

fn attachment(attachment: &ReducedAttachment, driver: &str) -> Option<Attachment> {
    let spec = &attachment.spec;
    (spec.attacher == driver).then(|| Attachment {
        name: attachment.name_any(),
        node: spec.node_name.clone(),
        volume: spec.source.persistent_volume_name.clone(),
    })
}

/// Only those that have a node.
fn set_pod(pod: &ReducedPod) -> Option<SetPod> {
    let conditions = pod.status.conditions.iter().flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    Some(SetPod {
        set: pod.labels().get(DAEMON_SET_LABEL)?.clone(),
        node: pod.spec.node_name.clone()?,
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        revision: pod.labels().get(REVISION).cloned(),
        is_ready: ready.any(|it| it.status == "True"),
        is_going: pod.metadata.deletion_timestamp.is_some(),
        tells_at: sidecar_of(&pod.spec, &pod.status),
    })
}
