//! Makes volumes larger when their claims ask for more: what upstream's external-resizer does.
//!
//! | file | holds |
//! |---|---|
//! | [`progress`] | how far the expansion of a claim has come, as its status says |
//! | [`step`] | the decision: what to do for a claim, to which size |
//! | [`patch`] | what is written to claims and volumes |
//! | [`worker`] | one attempt: calls the driver, writes objects |
//! | [`in_use`] | claims that wait until no pod uses them |
//! | [`failure`] | errors, and what they mean |
//!
//! Conditions, fields, annotations and the order of writes are those of the Go resizer: either may take over from the
//! other at any point.

mod failure;
mod in_use;
mod patch;
mod progress;
mod step;
mod worker;

use std::sync::Arc;

use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::Change;
use tokio_util::sync::CancellationToken;

use self::worker::Worker;
use crate::args::Settings;
use crate::cluster::Kinds;
use crate::cluster::claim::Claim;
use crate::cluster::volume::Volume;
use crate::driver::Capabilities;
use crate::modify;
use crate::provision::Scope;
use crate::role::{Context, Role, sanitised};

/// What the Go resizer does. It modifies volumes, too, under the same lease.
pub(crate) const ROLE: Role = Role {
    name: "resize and modify",
    lease: |driver| sanitised(&format!("external-resizer-{driver}")),
    needs,
    run: |context, stop| {
        let modify = modify::run(context.clone(), stop.clone());
        Box::pin(async {
            tokio::join!(run(context, stop), modify);
        })
    },
};

/// Claims and volumes are always watched. It runs for every driver: who asks for more of one that cannot expand
/// volumes is told so.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other roles may have nothing to do"
)]
fn needs(driver: Capabilities, _: &Settings) -> Option<Kinds> {
    Some(Kinds {
        attributes_classes: driver.modify_volume(),
        ..Kinds::default()
    })
}

async fn run(context: Context, stop: CancellationToken) {
    let Some(scope) = Scope::find(&context, &stop).await else {
        return;
    };
    let make =
        |registry: &mut _| Queue::new("resizer-pvc", context.settings.resize.retry, registry);
    let claims = context.metrics.with_registry(make);
    let worker = Arc::new(Worker::new(&context, &claims, scope));
    listen(&context, &worker, &claims, &stop);
    let work = |key| Arc::clone(&worker).work(key);
    let workers = context.settings.resize.workers;
    claims.run(workers, stop.clone(), work).await;
}

fn listen(context: &Context, worker: &Arc<Worker>, claims: &Queue, stop: &CancellationToken) {
    let (hearing, queue, stopped) = (Arc::clone(worker), claims.clone(), stop.clone());
    context.cluster.claims.listen(move |change| {
        if !stopped.is_cancelled() {
            hear(change, &hearing, &queue);
        }
    });
    let (worker, queue, stopped) = (Arc::clone(worker), claims.clone(), stop.clone());
    let all = Arc::clone(&context.cluster.claims);
    context.cluster.volumes.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        let is_new = Volume::new_claim(old.as_deref(), new).is_some();
        let grew = new.grew && old.as_ref().is_some_and(|old| !old.grew);
        let claim = new.claim.as_ref().filter(|_| is_new || grew);
        let Some(claim) = claim.and_then(|key| all.store().get(&key.uid)) else {
            return;
        };
        // A volume that grows under our hands is no news, unless its claim has the new size already.
        let news = is_new || claim.capacity >= new.size;
        if !stopped.is_cancelled() && news && worker.wants(&claim) {
            queue.add(claim.uid.as_str());
        }
    });
}

fn hear(change: &Change<Claim>, worker: &Worker, queue: &Queue) {
    match change {
        Change::Set { old, new } => {
            let Some(news) = news(old.as_deref(), new).filter(|_| worker.wants(new)) else {
                return;
            };
            match news {
                News::Now => queue.add(new.uid.as_str()),
                News::Later => queue.add_after(new.uid.as_str(), worker.slow),
            }
        }
        Change::Gone(last) => worker.forget(last),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Now,
    Later,
}

/// Whether a change is more than an echo of what we wrote ourselves: taken for news, that would end the pause after a
/// failure. A node that cannot follow is asked again, but not at once: it would say the same.
fn news(old: Option<&Claim>, new: &Claim) -> Option<News> {
    let Some(old) = old else {
        return Some(if new.node_resize_infeasible {
            News::Later
        } else {
            News::Now
        });
    };
    let facts = |claim: &Claim| {
        (
            claim.requested.clone(),
            claim.capacity,
            claim.bound,
            claim.volume.clone(),
        )
    };
    if facts(old) != facts(new) {
        Some(News::Now)
    } else if new.node_resize_infeasible && !old.node_resize_infeasible {
        Some(News::Later)
    } else {
        None
    }
}
