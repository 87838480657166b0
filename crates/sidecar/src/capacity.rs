//! Tells the scheduler how much space there is: one CSIStorageCapacity object per part of the cluster and class.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | which objects there should be, and what they say |
//! | [`owner`] | whom the objects belong to |
//! | [`teller`] | asks the driver, writes the objects |
//!
//! The driver is asked now and then, and after each volume that came or went; what has not changed is not written.
//! One worker does it all, so that no object is made twice.

mod owner;
mod plan;
mod teller;

use std::sync::Arc;
use std::time::Duration;

use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::{Cached, Change};
use stowage_kubernetes::watch::Watched;
use tokio_util::sync::CancellationToken;

use self::teller::{EVERYTHING, Places, Teller};
use crate::args::Settings;
use crate::cluster::Kinds;
use crate::cluster::volume::Volume;
use crate::driver::Capabilities;
use crate::provision::{Territory, Topologies};
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
        driver_nodes: topology,
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
            "--enable-capacity has no effect: the server has no CSIStorageCapacity objects."
        );
        return;
    };
    let Some(territory) = Territory::find(&context, &stop).await else {
        return;
    };
    let places = match territory {
        Territory::Node(segment) => Places::Fixed(segment.unwrap_or_default()),
        Territory::Cluster
            if context
                .driver
                .capabilities()
                .volume_accessibility_constraints() =>
        {
            Places::Cluster(Topologies::new(context.cluster.clone()))
        }
        Territory::Cluster => Places::Fixed(plan::EVERYWHERE),
    };
    let owner = owner::find(&context.client, &settings, context.backoff(), &stop);
    let Some(owner) = owner.await else {
        return;
    };
    let make = |registry: &mut _| Queue::new("csistoragecapacities", context.backoff(), registry);
    let queue = context.metrics.with_registry(make);
    let teller = Teller::new(&context, settings.clone(), version, places, owner, &queue);
    let teller = Arc::new(teller);
    listen(&context, &teller, &queue, &stop);
    queue.add(EVERYTHING);
    let polling = async {
        loop {
            let pause = tokio::time::sleep(settings.every);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            queue.add(EVERYTHING);
        }
    };
    let work = |key| Arc::clone(&teller).work(key);
    tokio::join!(queue.run(1, stop.clone(), work), polling);
}

fn listen(context: &Context, teller: &Arc<Teller>, queue: &Queue, stop: &CancellationToken) {
    let cluster = &context.cluster;
    retell_with(&cluster.classes, queue, stop);
    retell_with(&cluster.nodes, queue, stop);
    retell_with(&cluster.driver_nodes, queue, stop);
    let (teller, queue, stopped) = (Arc::clone(teller), queue.clone(), stop.clone());
    cluster.volumes.listen(move |change: &Change<Volume>| {
        let came_or_went = match change {
            Change::Set { old: None, .. } | Change::Gone(_) => true,
            Change::Set {
                old: Some(old),
                new,
            } => old.size != new.size,
        };
        if came_or_went && !stopped.is_cancelled() {
            for key in teller.keys_of(change.object()) {
                queue.add_after(key, SHORTLY);
            }
        }
    });
}

/// Other classes or nodes: other objects.
fn retell_with<T: Cached + PartialEq>(kind: &Watched<T>, queue: &Queue, stop: &CancellationToken) {
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
