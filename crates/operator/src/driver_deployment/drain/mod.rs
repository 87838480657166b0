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
//! - [`told`]: what people read of it (pure).

mod act;
mod decide;
mod look;
mod told;
mod users;

use std::time::Duration;

use futures::future;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DrainStatus, DrainStop, DrainingNode};
use stowage_kubernetes::answer::Answer;

use self::act::TaintOf;
use self::decide::{DriverPod, Placed, Step, next_nodes, next_step};
use self::look::Subject;
use super::apply::Applied;
use super::context::Context;
use super::observe::Workload;
use super::problem::Problem;
use crate::driver::{Kind, ValidDriver};

/// How soon a pod is asked again to go whose budget did not admit it, and a node is looked at again that is not ready.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How soon a node under way is looked at again, whatever happens.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How soon a node is touched that the status names.
const AT_ONCE: Duration = Duration::from_millis(50);

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
            look_again: Some(LOOK_AGAIN),
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
    update.look(before.unwrap_or_default(), set).await
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
    let taint = TaintOf::new(driver, &instance.uid().unwrap_or_default());
    for entry in nodes {
        if let Some(node) = look::node(&context.client, &entry.name).await? {
            taint.remove(&context.client, &node).await?;
        }
    }
    Ok(())
}

/// One update, while it is looked at.
struct Update<'a> {
    subject: Subject<'a>,
    namespace: &'a str,
    generation: i64,
    total: usize,
}

/// What became of a node under way.
enum Became {
    /// It stays under way; whether somebody has to do something about it.
    Waits(DrainingNode, bool),
    /// It has its new driver pod, or is left with the old one.
    Done,
    /// It took too long.
    Failed(String),
}

impl Update<'_> {
    async fn look(&self, before: DrainStatus, set: &DynamicObject) -> Result<Drained, Error> {
        let rules = self.subject.rules;
        let pods = look::driver_pods(self.subject.client, set).await?;
        let stopped = before.stopped.filter(|it| it.generation == self.generation);
        let goes_on = stopped.is_none() && !rules.is_paused;
        let steps = before.nodes.iter();
        let steps = steps.map(|entry| self.step(entry, &pods, goes_on));
        let became = future::try_join_all(steps).await?;

        let mut drained = Drained::unchanged(Some(DrainStatus {
            stopped,
            ..DrainStatus::default()
        }));
        drained.is_paused = rules.is_paused;
        for (entry, became) in before.nodes.iter().zip(became) {
            self.take_in(&mut drained, entry, became, &pods);
        }
        self.begin(&mut drained, &pods).await?;
        self.conclude(&mut drained, &pods);
        Ok(drained)
    }

    /// Does what is to be done for a node under way.
    async fn step(
        &self,
        entry: &DrainingNode,
        pods: &[Placed],
        goes_on: bool,
    ) -> Result<Became, Error> {
        let (client, rules) = (self.subject.client, self.subject.rules);
        let (sight, node) = self.subject.sight(entry, pods).await?;
        let step = next_step(&sight, rules, goes_on, look::now());
        let (Some(node), false) = (node, step == Step::Forget) else {
            return Ok(Became::Done);
        };
        let mut entry = entry.clone();
        let is_stuck = match step {
            Step::Forget => return Ok(Became::Done),
            Step::Release => {
                self.subject.taint.remove(client, &node).await?;
                return Ok(Became::Done);
            }
            Step::Fail(why) => {
                self.subject.taint.remove(client, &node).await?;
                return Ok(Became::Failed(why));
            }
            Step::Taint => {
                self.subject.taint.add(client, &node).await?;
                false
            }
            Step::Evict(users, what) => {
                let blocked = self.evict(&users).await?;
                let is_stuck = blocked.is_some();
                entry.unused_since = None;
                entry.waiting_for = Some(blocked.unwrap_or(what));
                is_stuck
            }
            Step::Wait(what) => {
                entry.unused_since = None;
                let is_stuck = !sight.users.is_empty();
                entry.waiting_for = Some(what);
                is_stuck
            }
            Step::Settle(what) => {
                entry.unused_since.get_or_insert_with(|| Time(look::now()));
                entry.mounts = Some("unverified".to_owned());
                entry.waiting_for = Some(what);
                false
            }
            Step::Replace { name, uid } => {
                if self.subject.users_now(&entry.name).await?.is_empty() {
                    act::replace_pod(client, self.namespace, &name, &uid).await?;
                    entry.waiting_for = Some("its new driver pod".to_owned());
                }
                false
            }
        };
        Ok(Became::Waits(entry, is_stuck))
    }

    /// Asks pods to go; the first that may not, and why.
    async fn evict(&self, users: &[users::User]) -> Result<Option<String>, Error> {
        let mut blocked = None;
        for user in users {
            let why = act::evict(self.subject.evictions, user).await?;
            blocked = blocked.or(why.map(|why| format!("{}: {why}", user.title())));
        }
        Ok(blocked)
    }

    fn take_in(
        &self,
        drained: &mut Drained,
        before: &DrainingNode,
        became: Became,
        pods: &[Placed],
    ) {
        let status = drained.status.get_or_insert_default();
        match became {
            Became::Waits(entry, is_stuck) => {
                if is_stuck && entry.waiting_for != before.waiting_for {
                    drained.news.extend(told::waits(&entry));
                }
                status.nodes.push(entry);
                drained.look_again_in(if is_stuck { ASK_AGAIN } else { LOOK_AGAIN });
            }
            Became::Done => {
                let is_new = |it: &&Placed| it.pod == DriverPod::Current { is_ready: true };
                let mut there = pods.iter().filter(|it| it.node == before.name);
                if there.any(|it| is_new(&it)) {
                    drained.news.push(told::done(&before.name));
                }
            }
            Became::Failed(reason) => {
                drained.news.push(told::stopped(&before.name, &reason));
                status.stopped = Some(DrainStop {
                    node: before.name.clone(),
                    reason,
                    generation: self.generation,
                });
            }
        }
    }

    /// Adds nodes to the status, as far as the limit admits. They are touched when that is written.
    async fn begin(&self, drained: &mut Drained, pods: &[Placed]) -> Result<(), Error> {
        let status = drained.status.clone().unwrap_or_default();
        if drained.is_paused || status.stopped.is_some() {
            return Ok(());
        }
        let busy: Vec<_> = status.nodes.into_iter().map(|it| it.name).collect();
        let (mut room, nodes) = next_nodes(pods, &busy, self.total, self.subject.rules);
        for name in nodes {
            if room == 0 {
                break;
            }
            let node = look::node(self.subject.client, name).await?;
            if !node.as_ref().is_some_and(look::is_ready_node) {
                drained.unready.push(name.to_owned());
                drained.look_again_in(ASK_AGAIN);
                continue;
            }
            room -= 1;
            let status = drained.status.get_or_insert_default();
            status.nodes.push(begun(name));
            drained.news.push(told::begun(name));
            drained.look_again_in(AT_ONCE);
        }
        Ok(())
    }

    fn conclude(&self, drained: &mut Drained, pods: &[Placed]) {
        let is_current = |it: &&Placed| matches!(it.pod, DriverPod::Current { .. });
        let current = pods.iter().filter(is_current).count();
        let is_outdated = |it: &Placed| matches!(it.pod, DriverPod::Outdated { .. });
        let is_over = !pods.iter().any(is_outdated);
        drained.status = drained
            .status
            .take()
            .filter(|it| !(it.nodes.is_empty() && is_over));
        if let Some(status) = &mut drained.status {
            status.progress = format!("{current}/{}", self.total);
        }
    }
}

/// A node that is begun with.
fn begun(name: &str) -> DrainingNode {
    DrainingNode {
        name: name.to_owned(),
        since: Time(look::now()),
        waiting_for: None,
        unused_since: None,
        mounts: None,
    }
}
