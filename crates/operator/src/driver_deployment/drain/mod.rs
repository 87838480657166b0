//! `nodeUpdateStrategy: Draining`, for drivers whose mounts die with their pod: a node is emptied of the pods that use
//! the driver before its driver pod is replaced, and filled again afterwards.
//!
//! The DaemonSet is `OnDelete`; the operator goes node by node. A node is written into the status BEFORE it is touched,
//! so that whoever continues after a crash knows where taints of ours may be; everything else is read from the cluster
//! each time. One look does at most one step for each node under way.
//!
//! - [`look`]: what is so.
//! - [`users`]: which pods use the driver, and what becomes of each (pure).
//! - [`decide`]: what is to be done next (pure).
//! - [`act`]: does it.
//! - [`update`]: one look: sees, decides and acts for each node under way, and begins with others.
//! - [`told`]: what people read of it (pure).

mod act;
mod decide;
mod look;
mod told;
mod update;
mod users;

use std::time::Duration;

use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DrainStatus};
use stowage_kubernetes::answer::Answer;

use self::act::TaintOf;
use self::look::Subject;
use self::update::Update;
use super::apply::Applied;
use super::context::Context;
use super::observe::Workload;
use super::problem::Problem;
use crate::driver::{Kind, ValidDriver};

/// How soon it is tried again where somebody changed a node at the same time.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How far an update is after a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Drained {
    /// For the status; `None`: there is nothing to do.
    pub(super) status: Option<DrainStatus>,
    /// Whether somebody asked not to go on.
    is_paused: bool,
    /// Nodes that cannot be begun with, because they are not ready.
    unready: Vec<String>,
    /// What is new.
    pub(super) news: Vec<told::News>,
    /// When to look again.
    pub(super) look_again: Option<Duration>,
}

impl Drained {
    fn look_again_in(&mut self, pause: Duration) {
        let sooner = self.look_again.map_or(pause, |it| it.min(pause));
        self.look_again = Some(sooner);
    }

    /// What was so stays so.
    pub(super) fn unchanged(status: Option<DrainStatus>) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// Goes one step further. Called twice: what is done is found done.
pub(super) async fn advance(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    applied: &mut Applied,
    context: &Context,
) -> Result<Drained, Error> {
    match try_advance(instance, driver, applied, context).await {
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            applied.problems.push(Problem::may_not_drain(&error));
            Ok(Drained::unchanged(context.drain_of(instance)))
        }
        // Somebody changed a node at the same time.
        Err(error) if Answer::of(&error).is_stale() => Ok(Drained {
            look_again: Some(TRY_AGAIN),
            ..Drained::unchanged(context.drain_of(instance))
        }),
        advanced => advanced,
    }
}

async fn try_advance(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    applied: &Applied,
    context: &Context,
) -> Result<Drained, Error> {
    let before = context.drain_of(instance);
    let Some(rules) = driver.drain else {
        release(instance, context).await?;
        return Ok(Drained::default());
    };
    let Some(set) = applied.of_kind(Kind::DaemonSet).next() else {
        return Ok(Drained::unchanged(before));
    };
    let workload = Workload::of_daemon_set(set);
    let under_way = before.as_ref().is_some_and(|it| !it.nodes.is_empty());
    if !workload.is_current || (workload.is_rolled_out() && !under_way) {
        let kept = before.filter(|_| !workload.is_current);
        return Ok(Drained::unchanged(kept));
    }
    let uid = instance.uid().unwrap_or_default();
    let update = Update {
        subject: Subject {
            client: &context.client,
            evictions: &context.evictions,
            cluster: &context.cluster,
            driver: &driver.driver_name,
            taint: &TaintOf::new(&driver.driver_name, &uid),
            rules: &rules,
        },
        namespace: &driver.owner.namespace,
        generation: instance.metadata.generation.unwrap_or_default(),
        total: usize::try_from(workload.desired).unwrap_or_default(),
    };
    let drained = update.look(before.unwrap_or_default(), set).await?;
    let nodes = drained.status.iter().flat_map(|it| &it.nodes);
    let nodes: Vec<_> = nodes.map(|it| it.name.as_str()).collect();
    let (cluster, client) = (&context.cluster, &context.client);
    cluster.follow_pods(client, &driver.driver_name, &nodes);
    Ok(drained)
}

/// Lets pods back to every node that is under way. Called twice: the second time finds no taint.
pub(super) async fn release(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let nodes = context.drain_of(instance).unwrap_or_default().nodes;
    let status = instance.status.as_ref();
    let Some(driver) = status.and_then(|it| it.driver_name.as_ref()) else {
        return Ok(());
    };
    context.cluster.follow_pods(&context.client, driver, &[]);
    let taint = TaintOf::new(driver, &instance.uid().unwrap_or_default());
    for entry in nodes {
        if let Some(node) = look::node(&context.client, &entry.name).await? {
            taint.remove(&context.client, &node).await?;
        }
    }
    Ok(())
}
