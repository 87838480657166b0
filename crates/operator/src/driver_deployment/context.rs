//! What every reconcile needs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use stowage_api::backoff::Backoff;
use stowage_api::driver_deployment::{CSIDriverDeployment, DrainStatus};
use stowage_kubernetes::events::Events;
use tokio::sync::watch;

use super::apply::Applied;
use super::outcome::Outcome;
use super::rollouts::Rollouts;
use crate::cluster::Cluster;
use crate::config::OperatorConfig;
use crate::driver::Object;
use crate::metrics::OperatorMetrics;
use crate::mounts::Mounts;
use crate::rights::Rights;
use crate::writer::{Key, Writer};

/// The pauses of instances whose problems time may heal.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(300),
};

/// An instance that may not be readable: one of them must not stop the watch of all.
pub type Guarded = DeserializeGuard<CSIDriverDeployment>;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a process gives the operator to work with.
#[derive(Clone)]
pub struct Operator {
    /// The API server.
    pub client: Client,
    /// The same for evictions. It must report at once that a budget admits none: by default a client asks again for minutes.
    pub evictions: Client,
    /// What an administrator sets for all drivers.
    pub config: watch::Receiver<OperatorConfig>,
    /// What is counted.
    pub metrics: OperatorMetrics,
    /// What people read about instances; published as [`EVENT_COMPONENT`](super::EVENT_COMPONENT).
    pub events: Events,
    /// What the operator may see.
    pub rights: Rights,
    /// What is known about the cluster; both front doors look at it.
    pub cluster: Cluster,
    /// What nodes tell about mounts.
    pub mounts: Mounts,
    /// Its own namespace, where its account is.
    pub namespace: String,
    /// How many drivers have their pods replaced at a time, when that is not an instance's own wish.
    pub max_concurrent_rollouts: usize,
}

/// What every reconcile needs.
pub struct Context {
    pub(super) client: Client,
    pub(super) evictions: Client,
    pub(super) writer: Writer,
    pub(super) cluster: Cluster,
    pub(super) config: watch::Receiver<OperatorConfig>,
    /// All instances, for what they claim.
    pub(super) instances: Store<Guarded>,
    pub(super) metrics: OperatorMetrics,
    pub(super) events: Events,
    /// What the operator may see.
    pub(super) rights: Rights,
    pub(super) mounts: Mounts,
    /// The operator's own, where its account is.
    pub(super) namespace: String,
    pub(super) rollouts: Rollouts,
    /// Ports given to instances whose status does not say so yet, by uid.
    pub(super) ports: Mutex<HashMap<String, u16>>,
    /// The objects of each instance after its last sync, by uid. Missing: unknown, so that they are looked for.
    pub(super) known: Mutex<HashMap<String, BTreeSet<Key>>>,
    /// How far updates of nodes were when that was last written, by uid: what is watched may be behind.
    drains: Mutex<HashMap<String, Option<DrainStatus>>>,
    /// Tells when a node has taken too long.
    pub(super) clock: Clock,
    failures: Mutex<HashMap<String, u32>>,
}

impl Context {
    /// Puts it together.
    pub fn new(operator: Operator, writer: Writer, instances: Store<Guarded>) -> Self {
        Self {
            client: operator.client,
            evictions: operator.evictions,
            writer,
            cluster: operator.cluster,
            config: operator.config,
            instances,
            metrics: operator.metrics,
            events: operator.events,
            rights: operator.rights,
            mounts: operator.mounts,
            namespace: operator.namespace,
            rollouts: Rollouts::new(operator.max_concurrent_rollouts),
            ports: Mutex::default(),
            known: Mutex::default(),
            drains: Mutex::default(),
            clock: Arc::new(Timestamp::now),
            failures: Mutex::default(),
        }
    }

    /// The same by another clock: a test does not wait until a node has taken too long.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Instances as they are stored: also those that another version wrote.
    pub(super) fn stored_instances(&self, namespace: Option<String>) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<CSIDriverDeployment>(&());
        let namespace = namespace.unwrap_or_default();
        Api::namespaced_with(self.client.clone(), &namespace, &resource)
    }

    /// Counts a failure of an instance: how long to wait now.
    pub(super) fn count_failure(&self, uid: &str) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(uid.to_owned()).or_default();
        *count = count.saturating_add(1);
        PAUSES.after_with_jitter(*count)
    }

    pub(super) fn forget_failures(&self, uid: &str) {
        self.failures.lock().remove(uid);
    }

    /// Remembers which objects an instance has, or may have: a write that failed may have been done.
    pub(super) fn remember_objects(&self, uid: &str, wanted: &[Object], applied: &Applied) {
        let mut known = self.known.lock();
        if applied.has_adopted() {
            known.remove(uid);
            return;
        }
        let there = applied.objects.keys().cloned();
        let keys = there.chain(wanted.iter().map(Key::of_wanted));
        known.insert(uid.to_owned(), keys.collect());
    }

    /// How far the update of an instance's nodes is.
    pub(super) fn drain_of(&self, instance: &CSIDriverDeployment) -> Option<DrainStatus> {
        let uid = instance.uid().unwrap_or_default();
        let written = self.drains.lock().get(&uid).cloned();
        written.unwrap_or_else(|| instance.status.as_ref()?.drain.clone())
    }

    /// No node is under way any more.
    pub(super) fn forget_drain(&self, uid: &str) {
        self.drains.lock().insert(uid.to_owned(), None);
    }

    /// What was written of an outcome.
    pub(super) fn remember(&self, instance: &CSIDriverDeployment, outcome: &Outcome) {
        if let Outcome::Synced(synced) = outcome
            && !synced.applied.is_outpaced()
        {
            let (uid, drain) = (instance.uid().unwrap_or_default(), &synced.drained.status);
            self.drains.lock().insert(uid, drain.clone());
        }
    }

    /// Forgets an instance that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.forget_failures(uid);
        self.ports.lock().remove(uid);
        self.known.lock().remove(uid);
        self.drains.lock().remove(uid);
        self.rollouts.end(uid);
    }
}
