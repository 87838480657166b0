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
//! - [`choice`]: which nodes are begun with (pure).
//! - [`act`]: does it.
//! - [`update`]: one look: sees, decides and acts for each node under way.
//! - [`begin`]: begins with further nodes.
//! - [`told`]: what people read of it (pure).

mod act;
mod begin;
mod choice;
mod decide;
mod look;
mod told;
mod update;
mod users;

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Client, Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DrainStatus};
use stowage_kubernetes::answer::Answer;

use self::act::TaintOf;
use self::look::Subject;
use self::update::Update;
use super::apply::Applied;
use super::context::Context;
use super::observe::Workload;
use super::problem::Problem;
use crate::cluster::{self, Updating};
use crate::driver::{Kind, ValidDriver};

/// How far an update is after a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Drained {
    /// For the status; `None`: there is nothing to do.
    pub(super) status: Option<DrainStatus>,
    /// Whether somebody asked not to go on.
    is_paused: bool,
    /// Nodes that cannot be begun with, because they are not ready.
    unready: Vec<String>,
    /// How many nodes are without the driver, so that no further one is begun with.
    without: usize,
    /// What the server refuses.
    problems: Vec<Problem>,
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
        Ok(mut drained) => {
            applied.problems.append(&mut drained.problems);
            Ok(drained)
        }
        Err(error) => Err(error),
    }
}

async fn try_advance(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    applied: &Applied,
    context: &Context,
) -> Result<Drained, Error> {
    let Some(rules) = driver.drain else {
        release(instance, context).await?;
        return Ok(Drained::default());
    };
    if has_another_name(instance, driver) {
        // Pods of the new name do not tolerate the taint of the old one.
        release(instance, context).await?;
    }
    let sets: Vec<_> = applied.of_kind(Kind::DaemonSet).collect();
    let workloads: Vec<_> = sets.iter().copied().map(Workload::of_daemon_set).collect();
    if sets.is_empty() {
        // Its pods are gone, or nobody looks after them: there is nothing to keep pods from a node for.
        release(instance, context).await?;
        return Ok(Drained::default());
    }
    let before = context.drain_of(instance);
    let under_way = before.as_ref().is_some_and(|it| !it.nodes.is_empty());
    let uid = instance.uid().unwrap_or_default();
    let is_current = workloads.iter().all(|it| it.is_current);
    let is_rolled_out = workloads.iter().all(Workload::is_rolled_out);
    if !is_current || (is_rolled_out && !under_way) {
        let kept = before.filter(|_| !is_current);
        if kept.is_none() {
            context.cluster.end_update(&uid);
        }
        return Ok(Drained::unchanged(kept));
    }
    let taint = TaintOf::new(&driver.driver_name, &uid);
    // Without it nodes are emptied all the same.
    let key = context.mounts.key_of(&uid).await.ok().flatten();
    let names: Vec<_> = sets.iter().map(|set| set.name_any()).collect();
    let followed = followed(driver, &names, context);
    let update = Update {
        subject: Subject {
            client: &context.client,
            evictions: &context.evictions,
            cluster: &context.cluster,
            followed: &followed,
            driver: &driver.driver_name,
            taint: &taint,
            rules: &rules,
            mounts_key: key.as_ref(),
            clock: &context.clock,
        },
        namespace: &driver.owner.namespace,
        generation: instance.metadata.generation.unwrap_or_default(),
        total: total(&workloads),
    };
    let drained = update.look(before.unwrap_or_default(), &sets).await?;
    let nodes = drained.status.iter().flat_map(|it| &it.nodes);
    let nodes: Vec<_> = nodes.map(|it| it.name.as_str()).collect();
    followed.follow_nodes(&nodes);
    Ok(drained)
}

/// How many nodes there are.
fn total(workloads: &[Workload]) -> usize {
    let desired: i64 = workloads.iter().map(|it| it.desired).sum();
    usize::try_from(desired).unwrap_or_default()
}

/// Whether the driver that runs is called otherwise than the one that is wanted.
fn has_another_name(instance: &CSIDriverDeployment, driver: &ValidDriver) -> bool {
    let status = instance.status.as_ref();
    let runs = status.and_then(|it| it.driver_name.as_ref());
    runs.is_some_and(|runs| *runs != driver.driver_name)
}

/// What is followed of a driver whose nodes are emptied.
fn followed(driver: &ValidDriver, sets: &[String], context: &Context) -> Arc<cluster::Update> {
    let updating = Updating {
        uid: &driver.owner.uid,
        namespace: &driver.owner.namespace,
        name: &driver.owner.name,
        driver: &driver.driver_name,
        sets,
    };
    context.cluster.follow_update(&context.client, updating)
}

/// Lets pods back to every node that is under way. Called twice: the second time finds no taint.
pub(super) async fn release(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let uid = instance.uid().unwrap_or_default();
    context.cluster.end_update(&uid);
    let nodes = context.drain_of(instance).unwrap_or_default().nodes;
    let nodes: Vec<_> = nodes.into_iter().map(|it| it.name).collect();
    act::release(&context.client, &uid, &nodes).await?;
    context.forget_drain(&uid);
    Ok(())
}

/// The same for an operator that is gone for good.
pub(crate) async fn release_nodes(client: &Client, instance: &DynamicObject) -> Result<(), Error> {
    let nodes = instance.data["status"]["drain"]["nodes"].as_array();
    let names = nodes.into_iter().flatten().map(|it| &it["name"]);
    let names: Vec<_> = names
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    act::release(client, &instance.uid().unwrap_or_default(), &names).await
}
