//! Start and lease, and the workers of the process that leads.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use stowage_api::snapshot::names::{CONTROLLER_LEASE, GROUP_SNAPSHOT, SNAPSHOT_V1};
use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::{first_of, group_versions};
use stowage_kubernetes::events::Events;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use stowage_kubernetes::store::Change;
use stowage_kubernetes::watch::Watcher;
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, Process};
use tokio_util::sync::CancellationToken;

use crate::args::SnapshotControllerArgs;
use crate::births::Births;
use crate::claims;
use crate::cluster::{Cluster, Scope};
use crate::operations::Operations;
use crate::queues::Queues;
use crate::request::{Kind, Request};
use crate::rival::{self, Rival};
use crate::worker::Worker;
use crate::write::Writer;

/// Between two questions whether the kinds of snapshots are installed.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(2),
};

/// Why the controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Work that fails would be tried without a pause.
    #[error("--retry-interval-start must be more than 0 and at most --retry-interval-max")]
    Retry,
    /// No client for the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The lease was lost.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Another controller is at work.
    #[error(transparent)]
    Rival(#[from] Rival),
}

/// Runs until shutdown.
pub async fn run(
    mut args: SnapshotControllerArgs,
    process: Process,
) -> Result<(), ControllerError> {
    if args.retry_interval_start.is_zero() || args.retry_interval_start > args.retry_interval_max {
        return Err(ControllerError::Retry);
    }
    let config = args.kube.config().await?;
    let (key, value) = rival::LABEL;
    let label = (key.to_owned(), value.to_owned());
    args.lease.leader_election_labels.push(label);
    let elections = Elections::new(config.clone(), &args.lease, &process.metrics)?;
    let controller = Controller {
        namespace: elections.namespace().to_owned(),
        operations: Operations::register(&process.metrics),
        client: client::connect_for_work(config)?,
        args,
        process,
    };
    let shutdown = controller.process.shutdown.clone();
    controller.refuse_rival().await?;
    // On the heap: all of the work is in it.
    let work = |lost| Box::pin(controller.work(lost));
    let worked = elections.lead(CONTROLLER_LEASE, &shutdown, work).await?;
    worked.unwrap_or(Ok(()))
}

struct Controller {
    namespace: String,
    operations: Operations,
    client: Client,
    args: SnapshotControllerArgs,
    process: Process,
}

impl Controller {
    /// Does the work of a leader. Everything ends with this future.
    async fn work(&self, lost: CancellationToken) -> Result<(), ControllerError> {
        let work = async {
            // One may have come while we waited for the lease.
            self.refuse_rival().await?;
            let stop = self.process.shutdown.child_token();
            // Events are written for longer than the work goes on, which adds some to the last.
            let client = self.client.clone();
            let (events, _events_end) = Events::start(client, "snapshot-controller", &self.process);
            let _work_ends = stop.clone().drop_guard();
            self.run(events, &stop).await;
            Ok(())
        };
        // Once it is lost somebody else may be at work already: whatever is under way is dropped at once.
        lost.run_until_cancelled(work).await.unwrap_or(Ok(()))
    }

    /// Ends the process where another controller is at work.
    async fn refuse_rival(&self) -> Result<(), ControllerError> {
        let shutdown = &self.process.shutdown;
        let alone = rival::refuse_once_known(&self.client, &self.namespace, shutdown).await;
        Ok(alone.unwrap_or(Ok(()))?)
    }

    async fn run(&self, events: Events, stop: &CancellationToken) {
        let Some(scope) = self.discover(stop).await else {
            return;
        };
        let cluster = Arc::new(Cluster::default());
        let watcher = Watcher {
            client: self.client.clone(),
            tasks: self.process.tasks.clone(),
            health: self.process.health.clone(),
        };
        let following = cluster.follow(&watcher, scope, stop);
        if stop.run_until_cancelled(following).await.is_none() {
            return;
        }
        let snapshots = cluster.requests.of(Kind::Single).store().len();
        let contents = cluster.contents.of(Kind::Single).store().len();
        tracing::info!(snapshots, contents, "The cluster is known.");
        let backoff = Backoff {
            first: self.args.retry_interval_start,
            longest: self.args.retry_interval_max,
        };
        let queues = Queues::new(backoff, &self.process.metrics);
        time_operations(&cluster, &self.operations, scope);
        let births = Births::default();
        births.listen(&cluster, scope);
        queues.listen(&cluster, scope);
        let writer = Writer {
            client: self.client.clone(),
            scope,
        };
        let worker = |kind| {
            Arc::new(Worker {
                kind,
                cluster: Arc::clone(&cluster),
                writer: writer.clone(),
                events: events.clone(),
                scope,
                patience: self.args.begin_patience,
                births: births.clone(),
            })
        };
        let workers = self.args.worker_threads.into();
        let claims = queues.claims.run(workers, stop.clone(), |key| {
            claims::release(Arc::clone(&cluster), writer.clone(), key)
        });
        let single = self.run_kind(worker(Kind::Single), &queues, stop);
        let groups = async {
            if scope.groups.is_some() {
                let worker = worker(Kind::Group);
                self.run_kind(worker, &queues, stop).await;
            }
        };
        tokio::join!(single, groups, claims);
    }

    async fn run_kind(&self, worker: Arc<Worker>, queues: &Queues, stop: &CancellationToken) {
        let workers = self.args.worker_threads.into();
        let requests = queues.requests(worker.kind);
        let contents = queues.contents(worker.kind);
        tokio::join!(
            requests.run(workers, stop.clone(), |uid| Arc::clone(&worker).work(uid)),
            contents.run(workers, stop.clone(), |name| {
                Arc::clone(&worker).finish(name)
            }),
        );
    }

    /// Waits until the server has the kinds of snapshots. `None`: asked to stop.
    async fn discover(&self, stop: &CancellationToken) -> Option<Scope> {
        let ask = || async {
            let found = group_versions(&self.client).await;
            let found = found.map_err(|error| answer::chain(&error))?;
            if !found.contains(SNAPSHOT_V1) {
                return Err(format!(
                    "the kinds of {SNAPSHOT_V1} are not installed: `stowage crds | kubectl apply -f -`"
                ));
            }
            Ok(Scope {
                groups: first_of(&found, GROUP_SNAPSHOT.versions),
                nodes: self.args.enable_distributed_snapshotting,
            })
        };
        let tell = |reason: &str| {
            tracing::warn!(reason, "Snapshots have to wait; asking again.");
        };
        patiently(stop, PAUSES, ask, tell).await
    }
}

fn time_operations(cluster: &Arc<Cluster>, operations: &Operations, scope: Scope) {
    for kind in scope.kinds() {
        let (all, operations) = (Arc::clone(cluster), operations.clone());
        let driver = move |request: &Request| {
            let contents = all.contents.of(request.kind).store();
            let content = contents.get(request.status.bound.as_ref()?)?;
            Some(content.driver.clone())
        };
        cluster
            .requests
            .of(*kind)
            .listen(move |change| match change {
                Change::Set { new, .. } => operations.saw(new, driver(new).as_deref()),
                Change::Gone(last) => operations.saw_end(last, driver(last).as_deref()),
            });
    }
}
