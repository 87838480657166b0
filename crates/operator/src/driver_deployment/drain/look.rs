//! What is so on the nodes of a driver: read anew each time, since pods are moved because of it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Error, ResourceExt};
use stowage_api::driver_deployment::{DAEMON_SET_LABEL, DrainingNode};

use super::decide::{DriverPod, NodeSight, Placed, Sight, Taint};
use super::users::{User, user};
use crate::cluster::Cluster;
use crate::cluster::usage::{self, Claim};
use crate::driver::valid::DrainRules;

/// Label of pods and of what they were made from.
const REVISION: &str = "controller-revision-hash";

/// The driver whose pods are replaced.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) client: &'a Client,
    pub(super) evictions: &'a Client,
    pub(super) cluster: &'a Cluster,
    pub(super) driver: &'a str,
    /// The taint of nodes whose pod is about to be replaced.
    pub(super) taint: &'a super::act::TaintOf,
    pub(super) rules: &'a DrainRules,
}

/// The driver pods of a DaemonSet, and where they are.
pub(super) async fn driver_pods(
    client: &Client,
    set: &DynamicObject,
) -> Result<Vec<Placed>, Error> {
    let namespace = set.namespace().unwrap_or_default();
    let selector = format!("{DAEMON_SET_LABEL}={}", set.name_any());
    let selector = ListParams::default().labels(&selector);
    let revisions = Api::<ControllerRevision>::namespaced(client.clone(), &namespace);
    let revisions = revisions.list(&selector).await?;
    let of_set = revisions.iter().filter(|it| {
        let mut owners = it.owner_references().iter();
        owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    });
    let current = of_set.max_by_key(|it| it.revision);
    let current = current.and_then(|it| it.labels().get(REVISION));
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let pods = pods.list(&selector).await?;
    let placed = pods.iter().filter_map(|pod| {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        Some(Placed {
            node,
            pod: driver_pod(pod, current?),
        })
    });
    Ok(placed.collect())
}

fn driver_pod(pod: &Pod, current: &str) -> DriverPod {
    if pod.metadata.deletion_timestamp.is_some() {
        return DriverPod::Missing;
    }
    if pod.labels().get(REVISION).map(String::as_str) == Some(current) {
        let is_ready = is_ready(pod);
        return DriverPod::Current { is_ready };
    }
    DriverPod::Outdated {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| &it.conditions).flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    ready.any(|it| it.status == "True")
}

/// A node that is there, if it is.
pub(super) async fn node(client: &Client, name: &str) -> Result<Option<Node>, Error> {
    Api::<Node>::all(client.clone()).get_opt(name).await
}

/// Whether the kubelet of a node is there.
pub(super) fn is_ready_node(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|it| &it.conditions).flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    ready.any(|it| it.status == "True")
}

impl Subject<'_> {
    /// What is so on a node under way.
    pub(super) async fn sight(
        &self,
        entry: &DrainingNode,
        pods: &[Placed],
    ) -> Result<(Sight, Option<Node>), Error> {
        let node = node(self.client, &entry.name).await?;
        let placed = pods.iter().filter(|it| it.node == entry.name);
        // Where an old pod goes while the new one is there already, the new one counts.
        let driver = placed
            .map(|it| it.pod.clone())
            .max_by_key(|it| *it != DriverPod::Missing);
        let mut sight = Sight {
            node: node.as_ref().map(|node| self.node_sight(node)),
            driver: driver.unwrap_or(DriverPod::Missing),
            is_registered: self.cluster.is_registered(self.driver, &entry.name),
            users: Vec::new(),
            attachments: Vec::new(),
            since: entry.since.0,
            unused_since: entry.unused_since.as_ref().map(|it| it.0),
        };
        if matches!(sight.driver, DriverPod::Outdated { .. }) && node.is_some() {
            let is_claim = |claim: &Claim| self.cluster.is_claim_of(self.driver, claim);
            sight.users = self.users(&entry.name, is_claim).await?;
            if sight.users.is_empty() {
                sight.attachments = self.attachments(&entry.name).await?;
            }
        }
        Ok((sight, node))
    }

    /// The same users, by what the API server has at this moment: what is watched may be behind.
    pub(super) async fn users_now(&self, node: &str) -> Result<Vec<User>, Error> {
        let claims = usage::claims(self.client, self.driver).await?;
        self.users(node, |claim| claims.contains(claim)).await
    }

    async fn users(
        &self,
        node: &str,
        is_claim: impl Fn(&Claim) -> bool,
    ) -> Result<Vec<User>, Error> {
        let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = Api::<Pod>::all(self.client.clone()).list(&there).await?;
        let users = pods
            .iter()
            .filter(|pod| usage::uses(pod, self.driver, &is_claim));
        Ok(users.filter_map(|pod| user(pod, self.rules)).collect())
    }

    async fn attachments(&self, node: &str) -> Result<Vec<String>, Error> {
        let all = usage::attachments(self.client, self.driver).await?;
        let there = all.into_iter().filter(|it| it.spec.node_name == node);
        Ok(there.map(|it| it.name_any()).collect())
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

/// The present, as precise as it is stored.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
