//! Attaches volumes to nodes and detaches them, as VolumeAttachments say.
//!
//! | file | holds |
//! |---|---|
//! | [`step`] | the decision: what to do for an attachment, from what is known |
//! | [`patch`] | what is written to objects |
//! | [`queues`] | which change is work for which queue |
//! | [`turns`] | one worker per attachment, although two queues know it |
//! | [`unsure`] | what the driver may have attached without anybody knowing |
//! | [`worker`] | one attempt: calls the driver, writes objects |
//! | [`write`], [`failure`] | answers of the API server; errors as they are shown |
//! | [`compare`], [`strays`] | the look at what the driver has attached, and at what it has attached for nobody |
//!
//! Finalizers, the annotation and the order of writes are those of the Go attacher: either may take over from the
//! other at any point. An attachment exists, with a finalizer and the node's id on it, before the driver is asked to
//! attach; whatever becomes of us then, somebody will detach.

mod compare;
mod failure;
mod patch;
mod queues;
mod step;
mod strays;
#[cfg(test)]
mod tests;
mod turns;
mod unsure;
mod worker;
mod write;

use std::sync::Arc;

use kube::Client;
use stowage_service::Metrics;
use tokio_util::sync::CancellationToken;

use self::queues::Operation;
use self::worker::Worker;
use crate::args::{Attach, Settings};
use crate::cluster::{Cluster, Kinds};
use crate::driver::{Capabilities, Driver};
use crate::role::{Context, Role, sanitised};

/// What the Go attacher does.
pub(crate) const ROLE: Role = Role {
    name: "attach",
    lease: |driver| sanitised(&format!("external-attacher-leader-{driver}")),
    needs,
    run: |context, stop| Box::pin(run(context.into(), stop)),
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
        csi_nodes: publishes(capabilities),
        ..Kinds::default()
    })
}

fn publishes(capabilities: Capabilities) -> bool {
    capabilities.controller_service() && capabilities.publish_unpublish()
}

/// What the role takes of its context.
struct Setup {
    driver: Driver,
    cluster: Cluster,
    client: Client,
    metrics: Metrics,
    settings: Attach,
    default_fs_type: String,
    /// With a controller on every node: the node whose attachments are ours.
    own_node: Option<String>,
    /// The server has a field for the codes of errors.
    error_codes: bool,
}

impl From<Context> for Setup {
    fn from(context: Context) -> Self {
        let own_node = context.settings.own_node.as_ref();
        Self {
            settings: context.settings.attach.clone(),
            default_fs_type: context.settings.default_fs_type.clone(),
            own_node: own_node.map(|node| node.name.clone()),
            error_codes: context.server.has_attach_error_codes(),
            driver: context.driver,
            cluster: context.cluster,
            client: context.client,
            metrics: context.metrics,
        }
    }
}

/// Works until `stop`; the kinds that the role needs are known by then.
async fn run(setup: Setup, stop: CancellationToken) {
    let worker = Arc::new(Worker::new(&setup));
    let queues = &worker.queues;
    queues.listen(&setup.cluster, &worker.rules.finalizer, &stop);
    let work = |operation| {
        let worker = Arc::clone(&worker);
        move |key| Arc::clone(&worker).work(operation, key)
    };
    let release = |key| Arc::clone(&worker).release_volume(key);
    let can = setup.driver.capabilities();
    let comparable =
        worker.rules.publishes && can.list_volumes() && can.list_volumes_published_nodes();
    let Attach {
        workers,
        compare_every,
        ..
    } = setup.settings;
    let compare = async {
        if let Some(every) = compare_every.filter(|_| comparable) {
            worker.compare(every, stop.clone()).await;
        }
    };
    tokio::join!(
        queues
            .attach
            .run(workers, stop.clone(), work(Operation::Attach)),
        queues
            .detach
            .run(workers, stop.clone(), work(Operation::Detach)),
        queues.volumes.run(workers, stop.clone(), release),
        compare,
    );
}
