//! Attaches volumes to nodes and detaches them, as VolumeAttachments say.
//!
//! | file | holds |
//! |---|---|
//! | [`step`] | the decision: what to do for an attachment, from what is known |
//! | [`patch`] | what is written to objects |
//! | [`lanes`] | which change is work for which queue |
//! | [`turns`] | one worker per attachment, although two queues know it |
//! | [`worker`] | one attempt: calls the driver, writes objects |
//! | [`write`], [`failure`] | answers of the API server; errors as they are shown |
//! | [`compare`] | the look at what the driver has attached |
//!
//! Finalizers, the annotation and the order of writes are those of the Go attacher: either may take over from the
//! other at any point. An attachment exists, with a finalizer and the node's id on it, before the driver is asked to
//! attach; whatever becomes of us then, somebody will detach.

mod compare;
mod failure;
mod lanes;
mod patch;
mod step;
#[cfg(test)]
mod tests;
mod turns;
mod worker;
mod write;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::{lanes::Lane, worker::Worker};
use crate::{
    args::Settings,
    cluster::Kinds,
    driver::Capabilities,
    role::{Context, Role, sanitised},
};

/// What the Go attacher does.
pub(crate) const ROLE: Role = Role {
    name: "attach",
    lease: |driver| sanitised(&format!("external-attacher-leader-{driver}")),
    needs,
    run: |context, stop| Box::pin(run(context, stop)),
};

/// Drivers that attach nothing have attachments too, unless their CSIDriver object says otherwise: somebody must
/// answer them. Only those that attach need to know what nodes are called.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other roles may have nothing to do"
)]
fn needs(capabilities: Capabilities, _: &Settings) -> Option<Kinds> {
    Some(Kinds {
        attachments: true,
        driver_nodes: publishes(capabilities),
        ..Kinds::default()
    })
}

fn publishes(capabilities: Capabilities) -> bool {
    capabilities.controller_service() && capabilities.publish_unpublish()
}

async fn run(context: Context, stop: CancellationToken) {
    let kinds = needs(context.driver.capabilities(), &context.settings);
    let synced = async {
        if let Some(kinds) = kinds {
            context.cluster.synced(kinds).await;
        }
    };
    if stop.run_until_cancelled(synced).await.is_none() {
        return;
    }
    let settings = &context.settings.attach;
    let worker = Arc::new(Worker::new(&context));
    let lanes = &worker.lanes;
    lanes.listen(&context.cluster, &worker.rules.finalizer, &stop);
    let work = |lane| {
        let worker = Arc::clone(&worker);
        move |key| Arc::clone(&worker).work(lane, key)
    };
    let release = |key| Arc::clone(&worker).release_volume(key);
    let capabilities = context.driver.capabilities();
    let can_compare = publishes(capabilities)
        && capabilities.list_volumes()
        && capabilities.list_volumes_published_nodes();
    let compare = async {
        if let Some(every) = settings.compare_every.filter(|_| can_compare) {
            worker.compare(every, stop.clone()).await;
        }
    };
    let workers = settings.workers;
    tokio::join!(
        lanes.attach.run(workers, stop.clone(), work(Lane::Attach)),
        lanes.detach.run(workers, stop.clone(), work(Lane::Detach)),
        lanes.volumes.run(workers, stop.clone(), release),
        compare,
    );
}
