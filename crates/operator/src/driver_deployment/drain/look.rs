//! What is so on the nodes of a driver: read anew each time, since pods are moved because of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures::future;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, NodeCondition, PersistentVolumeClaim, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Error, ResourceExt};
use serde::Deserialize;
use stowage_api::driver_deployment::{DAEMON_SET_LABEL, DrainingNode};
use stowage_api::mounts::VolumeMount;
use stowage_kubernetes::pages;

use super::choice::{Placed, by_node};
use super::decide::{DriverPod, Mounts, NodeSight, Sight, Taint};
use super::users::{User, user};
use crate::cluster::usage::{self, Claim};
use crate::cluster::{self, Attachment, Cluster, REVISION, SetPod};
use crate::driver::valid::DrainRules;
use crate::driver_deployment::context::Clock;
use crate::mounts::Key;

/// The driver whose pods are replaced.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) client: &'a Client,
    pub(super) evictions: &'a Client,
    pub(super) cluster: &'a Cluster,
    /// What is followed of it.
    pub(super) followed: &'a cluster::Update,
    pub(super) driver: &'a str,
    /// The taint of nodes whose pod is about to be replaced.
    pub(super) taint: &'a super::act::TaintOf,
    pub(super) rules: &'a DrainRules,
    /// With which nodes are asked what is mounted.
    pub(super) mounts_key: Option<&'a Key>,
    pub(super) clock: &'a Clock,
}

fn placed(pod: SetPod, current: &str) -> Placed {
    let is_ready = pod.is_ready;
    let is_current = pod.revision.as_deref() == Some(current);
    Placed {
        node: pod.node,
        pod: match (pod.is_going, is_current) {
            (true, _) => DriverPod::Missing,
            (false, true) => DriverPod::Current { is_ready },
            (false, false) => DriverPod::Outdated {
                name: pod.name,
                uid: pod.uid,
                is_ready,
                tells_at: pod.tells_at,
            },
        },
    }
}

/// A node that is there, if it is.
pub(super) async fn node(client: &Client, name: &str) -> Result<Option<Node>, Error> {
    Api::<Node>::all(client.clone()).get_opt(name).await
}

/// Names of the nodes whose kubelet is there.
pub(super) async fn ready_nodes(client: &Client) -> Result<BTreeSet<String>, Error> {
    let nodes = Api::<ReducedNode>::all(client.clone());
    let name = |node: ReducedNode| is_ready(&node.status.conditions).then(|| node.name_any());
    let ready = pages::list(&nodes, &ListParams::default(), name).await?;
    Ok(ready.into_iter().collect())
}

/// Whether the kubelet of a node is there.
pub(super) fn is_ready_node(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|it| it.conditions.as_deref());
    conditions.into_iter().any(is_ready)
}

fn is_ready(conditions: &[NodeCondition]) -> bool {
    let mut ready = conditions.iter().filter(|it| it.type_ == "Ready");
    ready.any(|it| it.status == "True")
}

stowage_kubernetes::reduced!(
    /// A Node: only whether its kubelet is there. Each lists the images that it has.
    ReducedNode as Node { status: ReducedNodeStatus }
);

/// What is read of a node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReducedNodeStatus {
    conditions: Vec<NodeCondition>,
}

impl Subject<'_> {
    /// The present, as precise as it is stored.
    pub(super) fn now(&self) -> Timestamp {
        let now = (self.clock)();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// The driver pods of a DaemonSet, and where they are.
    pub(super) async fn driver_pods(&self, set: &DynamicObject) -> Result<Vec<Placed>, Error> {
        let Some(current) = self.current_revision(set).await? else {
            return Ok(Vec::new());
        };
        let pods = self.followed.pods_of(&set.name_any()).await?.into_iter();
        Ok(pods.map(|pod| placed(pod, &current)).collect())
    }

    /// Which template is the current one. It is asked for once for each change of the DaemonSet, whose controller writes it
    /// down before it counts by it.
    async fn current_revision(&self, set: &DynamicObject) -> Result<Option<String>, Error> {
        let (name, generation) = (set.name_any(), set.metadata.generation.unwrap_or_default());
        if let Some(known) = self.followed.current_revision(&name, generation) {
            return Ok(Some(known));
        }
        let namespace = set.namespace().unwrap_or_default();
        let selector = format!("{DAEMON_SET_LABEL}={name}");
        let selector = ListParams::default().labels(&selector);
        let revisions = Api::<ControllerRevision>::namespaced(self.client.clone(), &namespace);
        let revisions = revisions.list(&selector).await?;
        let of_set = revisions.iter().filter(|it| {
            let mut owners = it.owner_references().iter();
            owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        });
        let current = of_set.max_by_key(|it| it.revision);
        let current = current.and_then(|it| it.labels().get(REVISION)).cloned();
        if let Some(current) = &current {
            self.followed.note_revision(&name, generation, current);
        }
        Ok(current)
    }

    /// What is so on a node under way.
    pub(super) async fn sight(
        &self,
        entry: &DrainingNode,
        pods: &[Placed],
    ) -> Result<(Sight, Option<Node>), Error> {
        let node = node(self.client, &entry.name).await?;
        let driver = by_node(pods).get(entry.name.as_str()).copied().cloned();
        let driver = driver.unwrap_or(DriverPod::Missing);
        let is_replaced = !matches!(driver, DriverPod::Outdated { .. });
        let replaced_since = entry.replaced_since.as_ref();
        let replaced_since = replaced_since.map_or_else(|| self.now(), |it| it.0);
        let mut sight = Sight {
            node: node.as_ref().map(|node| self.node_sight(node)),
            driver,
            is_registered: self.cluster.is_registered(self.driver, &entry.name),
            users: Vec::new(),
            attachments: Vec::new(),
            mounts: Mounts::Unknown("not asked".to_owned()),
            since: if is_replaced {
                replaced_since
            } else {
                entry.since.0
            },
            told: entry.waiting_for.clone(),
            unused_since: entry.unused_since.as_ref().map(|it| it.0),
        };
        if let DriverPod::Outdated { tells_at, .. } = &sight.driver
            && node.is_some()
        {
            let is_claim = |claim: &Claim| self.cluster.is_claim_of(self.driver, claim);
            let there = self.pods(&entry.name, is_claim).await?;
            sight.users = self.users(&there);
            if sight.users.is_empty() {
                let attached = self.followed.attached_to(&entry.name).await?;
                sight.attachments = self.still_attached(attached, &there);
                let left: Vec<_> = there.iter().filter_map(ResourceExt::uid).collect();
                sight.mounts = self.mounts(*tells_at, &left).await;
            }
        }
        Ok((sight, node))
    }

    /// What uses the driver on a node, by what the API server has at this moment: what is watched may be behind.
    pub(super) async fn used_now(&self, node: &str) -> Result<Option<String>, Error> {
        let there = self.all_pods(node).await?;
        let claims: BTreeSet<_> = there.iter().flat_map(usage::claims_of).collect();
        let ours = claims.into_iter().map(|claim| async move {
            let is_ours = self.is_claim_now(&claim).await?;
            Ok::<_, Error>(is_ours.then_some(claim))
        });
        let ours = future::try_join_all(ours).await?.into_iter().flatten();
        let ours: BTreeSet<Claim> = ours.collect();
        let uses = |pod: &&Pod| usage::uses(pod, self.driver, |claim| ours.contains(claim));
        let pods: Vec<_> = there.iter().filter(uses).cloned().collect();
        if let Some(user) = self.users(&pods).first() {
            return Ok(Some(format!("{} to leave", user.title())));
        }
        let attached = usage::attachments(self.client, self.driver).await?;
        let attached = attached.into_iter().filter(|it| it.spec.node_name == node);
        let attached = attached.map(|it| Attachment {
            name: it.name_any(),
            volume: it.spec.source.persistent_volume_name.clone(),
            node: it.spec.node_name,
        });
        let attached = self.still_attached(attached.collect(), &pods);
        let first = attached.into_iter().next();
        Ok(first.map(|first| format!("{first} to be detached")))
    }

    /// Whether a claim has a volume of the driver. There are few on a node, and many in a cluster: they are asked for one by
    /// one.
    async fn is_claim_now(&self, claim: &Claim) -> Result<bool, Error> {
        if self.cluster.is_claim_of(self.driver, claim) {
            return Ok(true);
        }
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), &claim.0);
        let found = claims.get_opt(&claim.1).await?;
        let Some(volume) = found.and_then(|it| it.spec?.volume_name) else {
            return Ok(false);
        };
        // A volume keeps its driver for its life.
        let driver = match self.cluster.driver_of_volume(&volume) {
            Some(driver) => Some(driver),
            None => usage::driver_of(self.client, &volume).await?,
        };
        Ok(driver.as_deref() == Some(self.driver))
    }

    /// Pods of a node that use the driver.
    async fn pods(&self, node: &str, is_claim: impl Fn(&Claim) -> bool) -> Result<Vec<Pod>, Error> {
        let mut pods = self.all_pods(node).await?;
        pods.retain(|pod| usage::uses(pod, self.driver, &is_claim));
        Ok(pods)
    }

    async fn all_pods(&self, node: &str) -> Result<Vec<Pod>, Error> {
        let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = Api::<Pod>::all(self.client.clone()).list(&there).await?;
        Ok(pods.items)
    }

    /// Those that the node waits for.
    fn users(&self, pods: &[Pod]) -> Vec<User> {
        let taint = self.taint.taint();
        let users = pods.iter().filter_map(|pod| user(pod, self.rules, &taint));
        users.collect()
    }

    /// What is mounted, but for pods that are left where they are.
    async fn mounts(&self, tells_at: Option<SocketAddr>, left: &[String]) -> Mounts {
        let (Some(sidecar), Some(key)) = (tells_at, self.mounts_key) else {
            return Mounts::Unknown("its driver pod does not tell".to_owned());
        };
        match key.ask(sidecar, self.driver).await {
            Ok(mounts) => Mounts::Known(without(mounts, left)),
            Err(why) => Mounts::Unknown(why),
        }
    }

    /// Names of attachments, but for volumes of pods that are left where they are.
    fn still_attached(&self, attached: Vec<Attachment>, left: &[Pod]) -> Vec<String> {
        let claims: BTreeSet<_> = left.iter().flat_map(usage::claims_of).collect();
        let is_left = |it: &Attachment| {
            let claim = it.volume.as_ref();
            let claim = claim.and_then(|volume| self.cluster.claim_of_volume(volume));
            claim.is_some_and(|claim| claims.contains(&claim))
        };
        let waits = attached.into_iter().filter(|it| !is_left(it));
        waits.map(|it| it.name).collect()
    }

    fn node_sight(&self, node: &Node) -> NodeSight {
        let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
        let mut taints = taints.filter(|it| self.taint.is_of_key(it));
        NodeSight {
            is_ready: is_ready_node(node),
            taint: match taints.next() {
                None => Taint::Missing,
                Some(taint) if self.taint.is_ours(taint) => Taint::Ours,
                Some(_) => Taint::Foreign,
            },
        }
    }
}

/// The paths of mounts, but for these pods and of what they share with others.
fn without(mounts: Vec<VolumeMount>, pods: &[String]) -> Vec<String> {
    let is_left = |mount: &VolumeMount| mount.pod.as_ref().is_some_and(|it| pods.contains(it));
    let left = mounts.iter().filter(|it| is_left(it));
    let volumes: BTreeSet<_> = left.filter_map(|it| it.volume.clone()).collect();
    let is_shared = |mount: &VolumeMount| {
        let volume = mount.volume.as_ref();
        mount.pod.is_none() && volume.is_some_and(|it| volumes.contains(it))
    };
    let counts = |mount: &VolumeMount| !is_left(mount) && !is_shared(mount);
    let counted = mounts.into_iter().filter(counts);
    counted.map(|it| it.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_pods_that_are_left_hold_nothing_nor_what_they_share() {
        let mount = |path: &str, pod: Option<&str>, volume: Option<&str>| VolumeMount {
            path: path.to_owned(),
            pod: pod.map(str::to_owned),
            volume: volume.map(str::to_owned),
        };
        let mounts = vec![
            mount("agent", Some("left"), Some("a")),
            mount("shared by agent", None, Some("a")),
            mount("agent, without a note", Some("left"), None),
            mount("another pod with the same volume", Some("gone"), Some("a")),
            mount("of another volume", None, Some("b")),
            mount("of nobody knows what", None, None),
        ];
        let left = ["left".to_owned()];
        let counted = [
            "another pod with the same volume",
            "of another volume",
            "of nobody knows what",
        ];
        assert_eq!(without(mounts.clone(), &left), counted);
        assert_eq!(without(mounts.clone(), &[]).len(), mounts.len());
    }
}
