//! What every reconcile needs.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kube::Client;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::apply::Applied;
use super::{GuardedInstance, pause};
use crate::apply::{Applier, Key};
use crate::cluster::Cluster;
use crate::config::OperatorConfig;
use crate::metrics::OperatorMetrics;
use crate::rights::Rights;

/// An instance that may not be readable.
pub type Guarded = GuardedInstance;

/// What every reconcile needs.
pub struct Context {
    pub(super) client: Client,
    pub(super) applier: Applier,
    pub(super) cluster: Cluster,
    pub(super) config: watch::Receiver<OperatorConfig>,
    /// All instances, for what they claim.
    pub(super) instances: Store<Guarded>,
    pub(super) metrics: OperatorMetrics,
    /// What the operator may see.
    pub(super) rights: Rights,
    /// Ports given to instances whose status does not say so yet, by uid.
    pub(super) ports: Mutex<HashMap<String, u16>>,
    /// The objects of each instance after its last sync, by uid. Missing: unknown, so that they are looked for.
    pub(super) known: Mutex<HashMap<String, BTreeSet<Key>>>,
    failures: Mutex<HashMap<String, u32>>,
}

impl Context {
    /// Puts it together.
    pub fn new(
        client: Client,
        applier: Applier,
        cluster: Cluster,
        config: watch::Receiver<OperatorConfig>,
        instances: Store<Guarded>,
        metrics: OperatorMetrics,
        rights: Rights,
    ) -> Self {
        Self {
            client,
            applier,
            cluster,
            config,
            instances,
            metrics,
            rights,
            ports: Mutex::default(),
            known: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Counts a failure of an instance: how long to wait now.
    pub(super) fn count_failure(&self, uid: &str) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(uid.to_owned()).or_default();
        let random = RandomState::new().hash_one(uid) % 1000;
        let wait = pause(
            *count,
            f64::from(u16::try_from(random).unwrap_or_default()) / 1000.0,
        );
        *count = count.saturating_add(1);
        wait
    }

    pub(super) fn forget_failures(&self, uid: &str) {
        self.failures.lock().remove(uid);
    }

    /// Remembers which objects an instance has. After a problem nobody knows for sure.
    pub(super) fn remember_objects(&self, uid: &str, applied: &Applied) {
        let mut known = self.known.lock();
        if applied.problems.is_empty() {
            known.insert(uid.to_owned(), applied.objects.keys().cloned().collect());
        } else {
            known.remove(uid);
        }
    }

    /// Forgets an instance that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.forget_failures(uid);
        self.ports.lock().remove(uid);
        self.known.lock().remove(uid);
    }
}
