//! Claims whose volumes the driver expands only while nobody uses them.
//!
//! Pods are watched only while there are such claims: on a large cluster they are by far the largest kind, and most
//! drivers never need to know of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use parking_lot::Mutex;
use stowage_kubernetes::queue::{Key, Queue};
use stowage_kubernetes::store::Change;
use stowage_kubernetes::watch::Watched;
use stowage_service::Health;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::claim::Claim;
use crate::cluster::pod::Pod;

/// How long the list of pods may take before the driver is simply asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Claims that wait for pods to go.
pub(super) struct InUse {
    client: Client,
    queue: Queue,
    waiting: Arc<Mutex<Waiting>>,
    watch: Mutex<Option<PodWatch>>,
}

/// Keys of the queue, by namespace and name of the claim.
type Waiting = HashMap<(String, String), Key>;

struct PodWatch {
    pods: Arc<Watched<Pod>>,
    _ends_with_it: DropGuard,
}

impl InUse {
    pub(super) fn new(client: Client, queue: Queue) -> Self {
        Self {
            client,
            queue,
            waiting: Arc::default(),
            watch: Mutex::default(),
        }
    }

    /// The driver refused because of use. Says whether a pod uses the claim; if so, the claim is back in the queue
    /// as soon as the last one is gone.
    pub(super) async fn wait(&self, key: Key, claim: &Claim) -> bool {
        let pods = {
            self.waiting.lock().insert(name_of(claim), key);
            let mut watch = self.watch.lock();
            let watch = watch.get_or_insert_with(|| self.follow());
            Arc::clone(&watch.pods)
        };
        // Without the right to list pods there is nothing to wait for: the driver is asked now and then.
        let _ = tokio::time::timeout(PATIENCE, pods.synced()).await;
        is_used(&pods, claim)
    }

    /// Whether the claim waits, and with reason.
    pub(super) fn blocks(&self, claim: &Claim) -> bool {
        if !self.waiting.lock().contains_key(&name_of(claim)) {
            return false;
        }
        let watch = self.watch.lock();
        watch
            .as_ref()
            .is_some_and(|watch| is_used(&watch.pods, claim))
    }

    /// The claim waits no more. With the last one the watch ends.
    pub(super) fn leave(&self, claim: &Claim) {
        let mut waiting = self.waiting.lock();
        waiting.remove(&name_of(claim));
        if waiting.is_empty() {
            self.watch.lock().take();
        }
    }

    fn follow(&self) -> PodWatch {
        tracing::info!(
            "Pods are watched: the driver expands volumes only while they are not used."
        );
        let stop = CancellationToken::new();
        let pods = Arc::new(Watched::default());
        let (waiting, queue) = (Arc::clone(&self.waiting), self.queue.clone());
        pods.listen(move |change: &Change<Pod>| {
            if let Change::Gone(pod) = change {
                let waiting = waiting.lock();
                for claim in &pod.claims {
                    if let Some(key) = waiting.get(&(pod.namespace.clone(), claim.clone())) {
                        queue.add(Arc::clone(key));
                    }
                }
            }
        });
        // A list of pods that does not come is told in the log; it makes nobody unready.
        let unread = Health::default().check("pods");
        let client = self.client.clone();
        let following = Arc::clone(&pods).follow(client, Pod::read, unread, stop.clone());
        tokio::spawn(following);
        PodWatch {
            pods,
            _ends_with_it: stop.drop_guard(),
        }
    }
}

/// Unknown counts as unused: then the driver is asked, and it knows.
fn is_used(pods: &Watched<Pod>, claim: &Claim) -> bool {
    let known = pods.synced().now_or_never().is_some();
    let all = pods.store().all();
    known
        && all
            .iter()
            .any(|pod| pod.uses(&claim.namespace, &claim.name))
}

fn name_of(claim: &Claim) -> (String, String) {
    (claim.namespace.clone(), claim.name.clone())
}
