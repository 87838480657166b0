//! Start, lease, and the queues between the watches and the work.

use std::sync::Arc;
use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use kube::Client;
use parking_lot::Mutex;
use stowage_api::snapshot::names::{CONTROLLER_LEASE, GROUP_SNAPSHOT, SNAPSHOT};
use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::group_versions;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::{Backoff, Queue};
use stowage_kubernetes::store::Change;
use stowage_kubernetes::watch::Watcher;
use stowage_service::Process;
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, KubeArgs, LeaseArgs, duration};
use tokio_util::sync::CancellationToken;

use crate::operations::Operations;
use crate::request::{Kind, Request, by};
use crate::rival::{self, Rival};
use crate::worker::Worker;
use crate::world::{Scope, World};
use crate::write::Writer;
use crate::{claims, finish};

/// Between two questions whether the kinds of snapshots are installed.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(2),
};

/// Flags of `stowage snapshot-controller`. Names and defaults are upstream's.
#[derive(clap::Args, Clone, Debug)]
pub struct SnapshotControllerArgs {
    /// How many snapshots to work on at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub worker_threads: u16,

    /// Pause after the first failure of an object; it doubles
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    pub retry_interval_start: Duration,

    /// Longest pause between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    pub retry_interval_max: Duration,

    /// Tell the user of a snapshot that the driver's sidecar has not begun with for so long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1m")]
    pub begin_patience: Duration,

    /// Say on each content which node's sidecar is to deal with it, for drivers with a sidecar on every node
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_distributed_snapshotting: bool,

    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The API server.
    #[command(flatten)]
    pub kube: KubeArgs,

    #[command(flatten)]
    ignored: Ignored,
}

/// Flags that upstream's manifests carry and that have no meaning here.
#[derive(clap::Args, Clone, Debug)]
#[allow(
    clippy::option_option,
    reason = "flags that may come with a value or without"
)]
struct Ignored {
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_qps: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_burst: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    resync_period: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    retry_crd_interval_max: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    prevent_volume_mode_conversion: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, allow_hyphen_values = true)]
    feature_gates: Option<Option<String>>,
}

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
        client: client::connect(config)?,
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

/// Where work waits. Requests by uid, contents by name, claims by namespace and name.
#[derive(Clone)]
struct Queues {
    requests: [Queue; 2],
    contents: [Queue; 2],
    claims: Queue,
}

impl Controller {
    /// Does the work of a leader. Everything ends with this future.
    async fn work(&self, lost: CancellationToken) -> Result<(), ControllerError> {
        let work = async {
            // One may have come while we waited for the lease.
            self.refuse_rival().await?;
            let stop = self.process.shutdown.child_token();
            // Events outlive the work, which speaks to the last.
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
        let world = Arc::new(World::default());
        let watcher = Watcher {
            client: self.client.clone(),
            tasks: self.process.tasks.clone(),
            health: self.process.health.clone(),
        };
        let following = world.follow(&watcher, scope, stop);
        if stop.run_until_cancelled(following).await.is_none() {
            return;
        }
        let snapshots = world.requests.of(Kind::Single).store().len();
        let contents = world.contents.of(Kind::Single).store().len();
        tracing::info!(snapshots, contents, "The cluster is known.");
        let queues = self.queues();
        time_operations(&world, &self.operations, scope);
        listen(&world, &queues, scope);
        let workers = self.args.worker_threads.into();
        let writer = Writer {
            client: self.client.clone(),
        };
        let kind = |kind: Kind| {
            let worker = Arc::new(Worker {
                kind,
                world: Arc::clone(&world),
                writer: writer.clone(),
                events: events.clone(),
                scope,
                patience: self.args.begin_patience,
                known: Mutex::default(),
            });
            let [requests, contents] =
                [&queues.requests, &queues.contents].map(|queues| queues[kind as usize].clone());
            let (world, writer, events) = (Arc::clone(&world), writer.clone(), events.clone());
            let stop = stop.clone();
            async move {
                let requests = requests.run(workers, stop.clone(), |uid| {
                    let worker = Arc::clone(&worker);
                    worker.work(uid)
                });
                let contents = contents.run(workers, stop.clone(), |name| {
                    let (world, writer, events) =
                        (Arc::clone(&world), writer.clone(), events.clone());
                    finish::finish(kind, world, writer, events, name)
                });
                tokio::join!(requests, contents);
            }
        };
        let claims = queues.claims.run(workers, stop.clone(), |key| {
            claims::release(Arc::clone(&world), writer.clone(), key)
        });
        if scope.groups {
            tokio::join!(kind(Kind::Single), kind(Kind::Group), claims);
        } else {
            tokio::join!(kind(Kind::Single), claims);
        }
    }

    /// Waits until the server has the kinds of snapshots. `None`: asked to stop.
    async fn discover(&self, stop: &CancellationToken) -> Option<Scope> {
        let ask = || async {
            let found = group_versions(&self.client).await;
            let found = found.map_err(|error| answer::chain(&error))?;
            if !found.contains(SNAPSHOT.api_version) {
                return Err(format!(
                    "the kinds of {} are not installed: `stowage crds | kubectl apply -f -`",
                    SNAPSHOT.api_version
                ));
            }
            Ok(Scope {
                groups: found.contains(GROUP_SNAPSHOT.api_version),
                nodes: self.args.enable_distributed_snapshotting,
            })
        };
        let tell = |reason: &str| {
            tracing::warn!(reason, "Snapshots must wait; asking again.");
        };
        patiently(stop, PAUSES, ask, tell).await
    }

    fn queues(&self) -> Queues {
        let backoff = Backoff {
            first: self.args.retry_interval_start,
            longest: self.args.retry_interval_max,
        };
        let queue = |name| {
            let make = |registry: &mut _| Queue::new(name, backoff, registry);
            self.process.metrics.with_registry(make)
        };
        Queues {
            requests: [
                queue("snapshot-controller-snapshot"),
                queue("snapshot-controller-groupsnapshot"),
            ],
            contents: [
                queue("snapshot-controller-content"),
                queue("snapshot-controller-groupsnapshotcontent"),
            ],
            claims: queue("snapshot-controller-claims"),
        }
    }
}

fn time_operations(world: &Arc<World>, operations: &Operations, scope: Scope) {
    for kind in scope.kinds() {
        let (all, operations) = (Arc::clone(world), operations.clone());
        let driver = move |request: &Request| {
            let contents = all.contents.of(request.kind).store();
            let content = contents.get(request.status.bound.as_ref()?)?;
            Some(content.driver.clone())
        };
        world.requests.of(*kind).listen(move |change| match change {
            Change::Set { new, .. } => operations.saw(new, driver(new).as_deref()),
            Change::Gone(last) => operations.saw_end(last, driver(last).as_deref()),
        });
    }
}

/// Which change is work for whom.
fn listen(world: &Arc<World>, queues: &Queues, scope: Scope) {
    for kind in scope.kinds() {
        listen_to_requests(world, queues, *kind);
        listen_to_contents(world, queues, *kind);
        listen_to_classes(world, queues, *kind);
    }
    listen_to_claims(world, queues);
}

fn listen_to_requests(world: &Arc<World>, queues: &Queues, kind: Kind) {
    let (all, queues) = (Arc::clone(world), queues.clone());
    world.requests.of(kind).listen(move |change| {
        let own = &queues.requests[kind as usize];
        match change {
            Change::Set { old, new } => {
                if old.as_ref().is_none_or(|old| new.is_news(old)) {
                    own.add(new.uid.as_str());
                }
                if new.is_ready() && !old.as_ref().is_some_and(|old| old.is_ready()) {
                    new.claim()
                        .inspect(|claim| queues.claims.add(claim.as_str()));
                }
            }
            Change::Gone(last) => {
                own.add(last.uid.as_str());
                last.claim()
                    .inspect(|claim| queues.claims.add(claim.as_str()));
                // Its members may go now.
                let singles = all.requests.of(Kind::Single).store();
                for member in singles.in_group(&by::group(&last.uid)) {
                    queues.requests[Kind::Single as usize].add(member.uid.as_str());
                }
            }
        }
    });
}

fn listen_to_contents(world: &Arc<World>, queues: &Queues, kind: Kind) {
    let (all, queues) = (Arc::clone(world), queues.clone());
    world.contents.of(kind).listen(move |change| {
        if let Change::Set {
            old: Some(old),
            new,
        } = change
            && old == new
        {
            return;
        }
        let content = change.object();
        if let Change::Set { new, .. } = change
            && finish::is_unfinished(new)
        {
            queues.contents[kind as usize].add(new.name.as_str());
        }
        let requests = all.requests.of(kind).store();
        for request in requests.in_group(&by::name(&content.owner)) {
            queues.requests[kind as usize].add(request.uid.as_str());
        }
    });
}

/// A class that came or changed may help requests that wait.
fn listen_to_classes(world: &Arc<World>, queues: &Queues, kind: Kind) {
    let (all, queue) = (Arc::clone(world), queues.requests[kind as usize].clone());
    world.classes.of(kind).listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        if old.as_ref() == Some(new) {
            return;
        }
        for request in all.requests.of(kind).store().all() {
            let named = request.class.as_ref().is_none_or(|name| *name == new.name);
            if named && request.status.bound.is_none() {
                queue.add(request.uid.as_str());
            }
        }
    });
}

/// A claim that is bound may be what a snapshot waits for; one that is filled no longer needs its snapshot.
fn listen_to_claims(world: &Arc<World>, queues: &Queues) {
    let (all, queues) = (Arc::clone(world), queues.clone());
    world.claims.listen(move |change| {
        let requests = all.requests.of(Kind::Single).store();
        let add = |group: String| {
            for request in requests.in_group(&group) {
                queues.requests[Kind::Single as usize].add(request.uid.as_str());
                // It may be the last member that a group waited for.
                if let Some(group) = &request.group {
                    queues.requests[Kind::Group as usize].add(group.as_str());
                }
            }
        };
        let (old, new) = match change {
            Change::Set { old, new } => (old.as_ref(), Some(new)),
            Change::Gone(last) => (Some(last), None),
        };
        let bound = |claim: Option<&Arc<crate::others::Claim>>| claim.map(|claim| claim.bound);
        if bound(old) != bound(new) {
            add(by::claim(&change.object().full_name));
        }
        if let Some(new) = new.filter(|new| new.protected) {
            queues.claims.add(new.full_name.as_str());
        }
        let before = old.and_then(|claim| claim.restores.as_ref());
        if before != new.and_then(|claim| claim.restores.as_ref())
            && let Some(snapshot) = before
        {
            add(by::name(snapshot));
        }
    });
}
