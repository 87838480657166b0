//! What every reconcile needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::queue::{Backoff, Queue, Verdict};
use stowage_service::Metrics;
use tokio::sync::watch;

use super::attachments::Attachments;
use super::children::Children;
use super::cluster::Cluster;
use super::driver::Outcome;
use super::plan::Plan;
use super::problem::Problem;
use super::secrets::Secrets;
use crate::cluster;
use crate::config::OperatorConfig;
use crate::mounts::Mounts;
use crate::writer::Writer;

const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(300),
};
/// When somebody else wrote at the same time, or our own write is still on its way to us.
const SOON: Duration = Duration::from_millis(200);

/// Where work waits: clients and containers by title, drivers by name.
#[derive(Clone)]
pub struct Queues {
    /// WekaClients.
    pub clients: Queue,
    /// WekaContainers.
    pub containers: Queue,
    /// Drivers.
    pub drivers: Queue,
}

impl Queues {
    /// Empty ones.
    pub fn new(metrics: &Metrics) -> Self {
        let queue = |name| {
            metrics.with_registry(|registry: &mut Registry| Queue::new(name, PAUSES, registry))
        };
        Self {
            clients: queue("weka-client"),
            containers: queue("weka-container"),
            drivers: queue("weka-driver"),
        }
    }
}

/// What every reconcile needs.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// The only writer of children.
    pub writer: Writer,
    /// What an administrator sets.
    pub config: watch::Receiver<OperatorConfig>,
    /// Secrets that classes and volumes name, and namespaces.
    pub facts: cluster::Cluster,
    /// What is watched.
    pub cluster: Arc<Cluster>,
    /// VolumeAttachments, where what is watched is not enough.
    pub attachments: Attachments,
    /// Asks node pods what is mounted.
    pub mounts: Mounts,
    /// The objects of drivers.
    pub children: Children,
    /// The secrets of drivers.
    pub secrets: Secrets,
    /// What came of the last look at each driver.
    pub outcomes: Mutex<BTreeMap<String, Outcome>>,
    /// Where work waits.
    pub queues: Queues,
    /// What people read about clients and containers.
    pub events: Events,
}

impl Context {
    /// What is wanted of all clients now.
    pub fn plan(&self) -> Plan {
        let csi = self.config.borrow().csi.clone();
        let claimants = self.cluster.claimants();
        let mut plan = Plan::of(&claimants, &csi);
        plan.held.extend(self.cluster.held_drivers());
        plan
    }

    /// Looks at every client and every driver again.
    pub fn look_at_everything(&self) {
        self.look_at_clients();
        self.look_at_drivers();
        for container in self.cluster.containers.store().all() {
            self.queues
                .containers
                .add(super::plan::title(&container.raw));
        }
    }

    /// Looks at every client again.
    pub fn look_at_clients(&self) {
        for client in self.cluster.clients.store().all() {
            self.queues.clients.add(super::plan::title(&client.raw));
        }
    }

    /// Looks at every driver again: those that are wanted, and those that have objects.
    pub fn look_at_drivers(&self) {
        let plan = self.plan();
        let secrets = plan.drivers.values().map(|driver| driver.secret.clone());
        self.secrets.watch_only(&secrets.collect());
        let mut drivers = self.children.drivers();
        drivers.extend(plan.drivers.into_keys());
        for driver in drivers {
            self.queues.drivers.add(driver);
        }
    }
}

/// When to look again after these problems.
pub fn verdict(problems: &[Problem]) -> Verdict {
    if let Some(problem) = problems
        .iter()
        .find(|it| it.is_worth_a_retry() && !it.is_conflict)
    {
        tracing::warn!(
            reason = problem.message,
            "Something is not as it should be; trying again."
        );
        return Verdict::Retry(problem.message.clone());
    }
    if problems.iter().any(|it| it.is_conflict) {
        return Verdict::After(SOON, None);
    }
    Verdict::Done
}
