//! Pods of single nodes: followed only while a driver waits for some of them to leave.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::{Cluster, Concern};

/// The watches by driver and node.
#[derive(Default)]
pub(super) struct NodePods(Mutex<HashMap<String, Watches>>);

type Watches = BTreeMap<String, AbortOnDropHandle<()>>;

impl Cluster {
    /// From now on changes of pods on these nodes concern a driver, and those on other nodes no longer do. Called twice:
    /// each node is watched once.
    pub fn follow_pods(&self, client: &Client, driver: &str, nodes: &[&str]) {
        let mut drivers = self.node_pods.0.lock();
        if nodes.is_empty() {
            drivers.remove(driver);
            return;
        }
        let watches = drivers.entry(driver.to_owned()).or_default();
        watches.retain(|node, _| nodes.contains(&node.as_str()));
        for node in nodes {
            watches.entry((*node).to_owned()).or_insert_with(|| {
                let watch = follow(
                    client.clone(),
                    driver.to_owned(),
                    node,
                    self.changes.clone(),
                );
                AbortOnDropHandle::new(tokio::spawn(watch))
            });
        }
    }
}

/// Only that something changed is of interest: what there is now is read by whoever decides on it.
fn follow(
    client: Client,
    driver: String,
    node: &str,
    changes: broadcast::Sender<Concern>,
) -> impl Future<Output = ()> + Send + 'static {
    let there = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let pods = watcher(pods, there).default_backoff();
    pods.touched_objects().for_each(move |_| {
        // Nobody listens yet, or any more.
        let _ = changes.send(Concern::Driver(driver.clone()));
        ready(())
    })
}
