//! Nodes that have the taint with which they registered: followed only while a driver asks for one.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use stowage_kubernetes::answer;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::{Cluster, Concern};

/// What is followed, and what was found.
#[derive(Default)]
pub(super) struct StartupTaints {
    found: Arc<Mutex<Found>>,
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Default)]
struct Found {
    /// The key of each driver that has one.
    keys: BTreeMap<String, String>,
    /// The keys of taints of each node that has any.
    nodes: BTreeMap<String, BTreeSet<String>>,
}

impl Cluster {
    /// From now on nodes with a taint of this key concern a driver; `None`: no taint does. Called twice: nodes are watched once.
    pub fn follow_taint(&self, client: &Client, driver: &str, key: Option<&str>) {
        let StartupTaints { found, watch } = &*self.startup_taints;
        let mut known = found.lock();
        match key {
            Some(key) => known.keys.insert(driver.to_owned(), key.to_owned()),
            None => known.keys.remove(driver),
        };
        let mut watch = watch.lock();
        if known.keys.is_empty() {
            *watch = None;
            known.nodes.clear();
        } else if watch.is_none() {
            let follow = follow(client.clone(), Arc::clone(found), self.changes.clone());
            *watch = Some(AbortOnDropHandle::new(tokio::spawn(follow)));
        }
    }

    /// The nodes that have a taint of this key.
    pub fn tainted_with(&self, key: &str) -> Vec<String> {
        let found = self.startup_taints.found.lock();
        let tainted = found.nodes.iter().filter(|(_, keys)| keys.contains(key));
        tainted.map(|(node, _)| node.clone()).collect()
    }
}

impl Found {
    /// What a node looks like now. The drivers that are concerned: those whose taint it has got or lost.
    fn take_in(&mut self, node: &str, keys: BTreeSet<String>) -> Vec<String> {
        let before = self.nodes.remove(node).unwrap_or_default();
        let changed: BTreeSet<_> = before.symmetric_difference(&keys).cloned().collect();
        if !keys.is_empty() {
            self.nodes.insert(node.to_owned(), keys);
        }
        let concerned = self.keys.iter().filter(|(_, key)| changed.contains(*key));
        concerned.map(|(driver, _)| driver.clone()).collect()
    }
}

fn follow(
    client: Client,
    found: Arc<Mutex<Found>>,
    changes: broadcast::Sender<Concern>,
) -> impl Future<Output = ()> + Send + 'static {
    let nodes = watcher(Api::<Node>::all(client), watcher::Config::default()).default_backoff();
    nodes.for_each(move |event| {
        let (node, keys) = match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                (node.name_any(), taint_keys(&node))
            }
            Ok(watcher::Event::Delete(node)) => (node.name_any(), BTreeSet::new()),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => return ready(()),
            Err(error) => {
                let error = answer::chain(&error);
                tracing::warn!(
                    error,
                    "The watch of nodes was interrupted and is started again."
                );
                return ready(());
            }
        };
        for driver in found.lock().take_in(&node, keys) {
            // Nobody listens yet, or any more.
            let _ = changes.send(Concern::Driver(driver));
        }
        ready(())
    })
}

fn taint_keys(node: &Node) -> BTreeSet<String> {
    let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref());
    taints.flatten().map(|taint| taint.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_concerned_where_its_taint_comes_or_goes() {
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
        let mut found = Found::default();
        found.keys.insert("d".to_owned(), "k".to_owned());
        assert_eq!(found.take_in("n", keys(&["other"])), [""; 0]);
        assert_eq!(found.take_in("n", keys(&["other", "k"])), ["d"]);
        assert_eq!(found.take_in("n", keys(&["k"])), [""; 0]);
        assert_eq!(found.take_in("n", keys(&[])), ["d"]);
        assert!(found.nodes.is_empty());
    }
}
