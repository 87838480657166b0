//! Publishes free capacity for the scheduler: one CSIStorageCapacity object for each segment of the cluster and class.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | which objects there should be, and what they say |
//! | [`owner`] | whom the objects belong to |
//! | [`publisher`] | asks the driver, writes the objects |
//!
//! The driver is asked now and then, and after each volume that came or went; what has not changed is not written.
//! One worker does it all, so that no object is made twice.

mod owner;
mod plan;
mod publisher;

use std::sync::Arc;
use std::time::Duration;

use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::{Cached, Change};
use stowage_kubernetes::watch::Watched;
use tokio_util::sync::CancellationToken;

use self::publisher::{CapacityPublisher, EVERYTHING};
use crate::args::Settings;
use crate::cluster::Kinds;
use crate::cluster::volume::Volume;
use crate::driver::Capabilities;
use crate::provision::{Accessibility, Scope};
use crate::role::{Context, Role, sanitised};

/// What upstream's provisioner does with `--enable-capacity`, under the same lease.
pub(crate) const ROLE: Role = Role {
    name: "capacity",
    lease: |driver| sanitised(driver),
    needs,
    run: |context, stop| Box::pin(run(context, stop)),
};

/// Volumes come in bunches, and so do nodes at the start of a cluster.
const SHORTLY: Duration = Duration::from_secs(1);

fn needs(driver: Capabilities, settings: &Settings) -> Option<Kinds> {
    let can = driver.controller_service() && driver.get_capacity();
    let topology = driver.volume_accessibility_constraints() && settings.own_node.is_none();
    (can && settings.capacity.is_some()).then_some(Kinds {
        csi_nodes: topology,
        nodes: topology,
        ..Kinds::default()
    })
}

async fn run(context: Context, stop: CancellationToken) {
    let Some(settings) = context.settings.capacity.clone() else {
        return;
    };
    let Some(version) = context.server.storage_capacities else {
        tracing::warn!(
            "--enable-capacity has no effect: the API server does not have CSIStorageCapacity objects."
        );
        return;
    };
    let Some(scope) = Scope::find(&context, &stop).await else {
        return;
    };
    let accessibility = Accessibility::of(&context, &scope);
    let owner = owner::find(
        &context.client,
        &settings,
        context.settings.provision.retry,
        &stop,
    );
    let Some(owner) = owner.await else {
        return;
    };
    let make = |registry: &mut _| {
        Queue::new(
            "csistoragecapacities",
            context.settings.provision.retry,
            registry,
        )
    };
    let queue = context.metrics.with_registry(make);
    let every = settings.every;
    let publisher =
        CapacityPublisher::new(&context, settings, version, accessibility, owner, &queue);
    let publisher = Arc::new(publisher);
    listen(&context, &publisher, &queue, &stop);
    queue.add(EVERYTHING);
    let polling = async {
        loop {
            let pause = tokio::time::sleep(every);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            queue.add(EVERYTHING);
        }
    };
    let work = |key| Arc::clone(&publisher).work(key);
    tokio::join!(queue.run(1, stop.clone(), work), polling);
}

fn listen(
    context: &Context,
    publisher: &Arc<CapacityPublisher>,
    queue: &Queue,
    stop: &CancellationToken,
) {
    let cluster = &context.cluster;
    republish_with(&cluster.classes, queue, stop);
    republish_with(&cluster.nodes, queue, stop);
    republish_with(&cluster.csi_nodes, queue, stop);
    let (publisher, queue, stopped) = (Arc::clone(publisher), queue.clone(), stop.clone());
    cluster.volumes.listen(move |change: &Change<Volume>| {
        let came_or_went = match change {
            Change::Set { old: None, .. } | Change::Gone(_) => true,
            Change::Set {
                old: Some(old),
                new,
            } => old.size != new.size,
        };
        if came_or_went && !stopped.is_cancelled() {
            for key in publisher.keys_of(change.object()) {
                queue.add_after(key, SHORTLY);
            }
        }
    });
}

/// Other classes or nodes: other objects.
fn republish_with<T: Cached + PartialEq>(
    kind: &Watched<T>,
    queue: &Queue,
    stop: &CancellationToken,
) {
    let (queue, stopped) = (queue.clone(), stop.clone());
    kind.listen(move |change| match change {
        _ if stopped.is_cancelled() => {}
        Change::Set {
            old: Some(old),
            new,
        } if old == new => {}
        _ => queue.add_after(EVERYTHING, SHORTLY),
    });
}
