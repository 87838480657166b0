//! Changes volumes to the VolumeAttributesClass of their claims: the other half of upstream's external-resizer.
//!
//! | file | holds |
//! |---|---|
//! | [`step`] | the decision: what to do for a claim, from its status |
//! | [`patch`] | what is written to claims and volumes |
//! | [`worker`] | one attempt: calls the driver, writes objects |

mod patch;
mod step;
mod worker;

use std::sync::Arc;

use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::Change;
use tokio_util::sync::CancellationToken;

use self::worker::Worker;
use crate::attributes_class::wake_waiting;
use crate::cluster::claim::Claim;
use crate::cluster::volume::Volume;
use crate::provision::Scope;
use crate::role::Context;

/// Modifies until `stop`. Returns at once where server or driver cannot.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let can = context.driver.capabilities();
    let driver_can = can.controller_service() && can.modify_volume();
    if !driver_can || context.server.attributes_classes.is_none() {
        return;
    }
    let Some(scope) = Scope::find(&context, &stop).await else {
        return;
    };
    let make =
        |registry: &mut _| Queue::new("modifier-pvc", context.settings.resize.retry, registry);
    let claims = context.metrics.with_registry(make);
    let worker = Arc::new(Worker::new(context.clone(), scope));
    let (hearing, queue, stopped) = (Arc::clone(&worker), claims.clone(), stop.clone());
    context.cluster.claims.listen(move |change| match change {
        _ if stopped.is_cancelled() => {}
        Change::Set { old, new } => {
            if is_news(old.as_deref(), new) && hearing.wants(new) {
                queue.add(new.uid.as_str());
            }
        }
        Change::Gone(last) => hearing.forget(&last.uid),
    });
    let (hearing, queue, stopped) = (Arc::clone(&worker), claims.clone(), stop.clone());
    let all = Arc::clone(&context.cluster.claims);
    context.cluster.volumes.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        let claim = Volume::new_claim(old.as_deref(), new);
        let claim = claim.and_then(|key| all.store().get(&key.uid));
        if let Some(claim) = claim.filter(|it| !stopped.is_cancelled() && hearing.wants(it)) {
            queue.add(claim.uid.as_str());
        }
    });
    let waiting = Arc::clone(&worker);
    let waits = move |claim: &Claim| waiting.wants(claim);
    wake_waiting(&context.cluster, &claims, waits, &stop);
    let workers = context.settings.resize.workers;
    let work = |key| Arc::clone(&worker).work(key);
    claims.run(workers, stop, work).await;
}

/// Whether a change is more than an echo of what we wrote ourselves: taken for news, that would end the pause after a
/// failure.
fn is_news(old: Option<&Claim>, new: &Claim) -> bool {
    let facts = |claim: &Claim| {
        (
            claim.attributes_class.clone(),
            claim.bound,
            claim.volume.clone(),
        )
    };
    old.is_none_or(|old| facts(old) != facts(new))
}
