//! Watches everything that matters to a client, and reconciles it when something changes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use stowage_api::weka::{CONTAINER_UID_LABEL, WekaClient};
use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use stowage_kubernetes::raw::Raw;
use stowage_kubernetes::store::{Cached, Change};
use stowage_kubernetes::watch::{Watched, Watcher};
use stowage_service::Process;
use tokio_util::sync::CancellationToken;

use super::attachments::Attachments;
use super::children::Children;
use super::cluster::{Cluster, Kept, client_of};
use super::context::{Context, Queues};
use super::plan::title;
use super::secrets::Secrets;
use super::{client, container, driver};
use crate::changes::changes;
use crate::driver_deployment::Operator;
use crate::writer::Writer;

/// Objects of one kind that are worked on at a time.
const WORKERS: usize = 16;
/// How often to look whether somebody installed `deploy/weka`.
const INSTALLED: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(30),
};

/// Keeps all clients as described until `stop`. Does nothing before the kinds are installed and this account may see them:
/// where Weka's own operator takes care of clients, two would make everything twice.
pub async fn run(
    operator: Operator,
    process: &Process,
    stop: CancellationToken,
) -> Result<(), ServerError> {
    let client = operator.client.clone();
    let clients = Api::<Raw<WekaClient>>::all(client.clone());
    let one = ListParams::default().limit(1);
    let look = || async {
        clients
            .list(&one)
            .await
            .map_err(|error| answer::chain(&error))
    };
    let tell = |reason: &str| tracing::debug!(reason, "WekaClients are not taken care of yet.");
    if patiently(&stop, INSTALLED, look, tell).await.is_none() {
        return Ok(());
    }
    let writer = Writer::connect(client.clone(), operator.cluster.served()).await?;
    let context = context(operator, writer, process);
    let watcher = Watcher {
        client,
        tasks: process.tasks.clone(),
        health: process.health.clone(),
    };
    // They end with the work, also when the lease is lost.
    let until = stop.child_token();
    let _end = until.clone().drop_guard();
    let (versions, drivers) = (context.writer.versions(), &context.queues.drivers);
    let children = context
        .children
        .follow(&context.client, versions, |driver| drivers.add(driver));
    let work = async {
        context.cluster.follow(&watcher, &until).await;
        tokio::join!(context.children.synced(), context.facts.until_read());
        work(&context, &stop).await;
    };
    tokio::select! {
        () = children => {}
        () = work => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

fn context(operator: Operator, writer: Writer, process: &Process) -> Arc<Context> {
    let queues = Queues::new(&process.metrics);
    Arc::new_cyclic(|context: &std::sync::Weak<Context>| {
        let context = context.clone();
        let tell = move || {
            if let Some(context) = context.upgrade() {
                context.look_at_clients();
            }
        };
        Context {
            secrets: Secrets::new(operator.client.clone(), tell),
            client: operator.client,
            writer,
            config: operator.config,
            facts: operator.cluster,
            cluster: Arc::new(Cluster::default()),
            attachments: Attachments::default(),
            mounts: operator.mounts,
            children: Children::default(),
            outcomes: Mutex::default(),
            queues,
            events: operator.events,
        }
    })
}

async fn work(context: &Arc<Context>, stop: &CancellationToken) {
    listen(context);
    context.look_at_everything();
    let queues = &context.queues;
    let clients = queues.clients.run(WORKERS, stop.clone(), |name| {
        let context = Arc::clone(context);
        async move { client::reconcile(&name, &context).await }
    });
    let containers = queues.containers.run(WORKERS, stop.clone(), |name| {
        let context = Arc::clone(context);
        async move { container::reconcile(&name, &context).await }
    });
    let drivers = queues.drivers.run(WORKERS, stop.clone(), |name| {
        let context = Arc::clone(context);
        async move { driver::reconcile(&name, &context).await }
    });
    let configured = async {
        let mut changes = pin!(changes(context.config.clone()));
        while changes.next().await.is_some() {
            context.look_at_everything();
        }
    };
    // Secrets that classes and volumes name, and namespaces.
    let facts = async {
        let mut changes = pin!(context.facts.changes());
        while changes.next().await.is_some() {
            context.look_at_drivers();
        }
    };
    let queues = async { tokio::join!(clients, containers, drivers) };
    tokio::select! {
        _ = queues => {}
        _ = async { tokio::join!(configured, facts) } => {}
    }
}

/// Which change is work for whom.
fn listen(context: &Arc<Context>) {
    on(context, &context.cluster.clients, |context, change| {
        context.queues.clients.add(title(&change.object().raw));
        if is_more_than_status(change) {
            context.look_at_drivers();
            // Two may come to the same name for their drivers.
            context.look_at_clients();
            for container in context.cluster.containers_of(change.object().key()) {
                context.queues.containers.add(title(&container.raw));
            }
        }
    });
    on(context, &context.cluster.clusters, |context, change| {
        if is_more_than_status(change) {
            context.look_at_drivers();
            context.look_at_clients();
        }
    });
    on(context, &context.cluster.containers, |context, change| {
        let container = &change.object().raw;
        context.queues.containers.add(title(container));
        match client_of(&container.metadata) {
            Some(client) => look_at_client_of(context, Some(client)),
            // One of a cluster: clients join at it.
            None => context.look_at_clients(),
        }
        if matches!(change, Change::Gone(_)) {
            context.look_at_drivers();
        }
    });
    on(context, &context.cluster.nodes, |context, change| {
        if matches!(change, Change::Set { old: Some(old), new } if old == new) {
            return;
        }
        context.look_at_clients();
        look_at_containers_on(context, &change.object().0.name);
    });
    on(context, &context.cluster.attachments, |context, change| {
        look_at_containers_on(context, &change.object().node);
    });
    on(context, &context.cluster.pods, |context, change| {
        let pod = &change.object().pod;
        let beside = pod.labels().get(CONTAINER_UID_LABEL);
        let beside = beside.and_then(|uid| context.cluster.containers.store().get(uid));
        let name = beside
            .as_ref()
            .map_or_else(|| title(pod), |it| title(&it.raw));
        context.queues.containers.add(name);
        look_at_client_of(
            context,
            beside.as_ref().and_then(|it| client_of(&it.raw.metadata)),
        );
    });
}

/// Calls `tell` with each change, as long as somebody works.
fn on<T: Cached>(
    context: &Arc<Context>,
    watched: &Watched<T>,
    tell: impl Fn(&Context, &Change<T>) + Send + Sync + 'static,
) {
    let context = Arc::downgrade(context);
    watched.listen(move |change| {
        if let Some(context) = context.upgrade() {
            tell(&context, change);
        }
    });
}

fn look_at_client_of(context: &Context, uid: Option<&str>) {
    let client = uid.and_then(|uid| context.cluster.clients.store().get(uid));
    if let Some(client) = client {
        context.queues.clients.add(title(&client.raw));
    }
}

fn look_at_containers_on(context: &Context, node: &str) {
    for container in context.cluster.containers_on(node) {
        context.queues.containers.add(title(&container.raw));
    }
}

/// Whether a change is more than a status, which we wrote ourselves.
fn is_more_than_status<K: Send + Sync + 'static>(change: &Change<Kept<K>>) -> bool {
    let Change::Set {
        old: Some(old),
        new,
    } = change
    else {
        return true;
    };
    let (old, new) = (&old.raw.metadata, &new.raw.metadata);
    old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old.labels != new.labels
}
