//! One look: sees, decides and acts for each node under way.

use std::time::Duration;

use futures::future;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::{Api, Error};
use stowage_api::driver_deployment::{DrainStatus, DrainStop, DrainingNode};
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::deletion;

use super::choice::Placed;
use super::decide::{DriverPod, Mounts, Sight, Step, in_vain, is_late, next_step};
use super::look::Subject;
use super::users::{Fate, User};
use super::{Drained, act, told};
use crate::driver_deployment::problem::Problem;

/// How soon it is tried again where somebody changed a node at the same time.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How soon it is looked again at what nobody watches, such as budgets.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How soon it is looked again at nodes that are not ready: that takes long, and when they are their driver pods tell.
pub(super) const ASK_SELDOM: Duration = Duration::from_secs(60);
/// How soon a node is asked again what is mounted: the kubelet is about to unmount it.
const ASK_FOR_MOUNTS: Duration = Duration::from_secs(1);
/// How soon a node under way is looked at again, whatever happens: it may have taken too long.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How soon a node is touched that the status names.
pub(super) const AT_ONCE: Duration = Duration::from_millis(50);

/// One update, while it is looked at.
pub(super) struct Update<'a> {
    pub(super) subject: Subject<'a>,
    /// Of the driver pods.
    pub(super) namespace: &'a str,
    /// Of the instance.
    pub(super) generation: i64,
    /// How many nodes there are.
    pub(super) total: usize,
}

/// What became of a node under way.
enum Became {
    /// It stays under way.
    Waits {
        entry: DrainingNode,
        /// Whether somebody has to do something about it.
        is_stuck: bool,
        /// When it is looked at again, if nothing happens before.
        pause: Duration,
    },
    /// It has its new driver pod, or is left with the old one.
    Done,
    /// It took too long.
    Failed(String),
}

impl Update<'_> {
    /// Goes one step further for every node.
    pub(super) async fn look(
        &self,
        before: DrainStatus,
        sets: &[&DynamicObject],
    ) -> Result<Drained, Error> {
        let rules = self.subject.rules;
        let of_sets = sets.iter().map(|set| self.subject.driver_pods(set));
        let pods = future::try_join_all(of_sets).await?.concat();
        let stopped = before.stopped.filter(|it| it.generation == self.generation);
        let goes_on = stopped.is_none() && !rules.is_paused;
        let steps = before.nodes.iter();
        let steps = steps.map(|entry| self.step(entry, &pods, goes_on));
        let became = future::join_all(steps).await;

        let mut status = DrainStatus {
            stopped,
            ..DrainStatus::default()
        };
        let mut drained = Drained {
            is_paused: rules.is_paused,
            ..Drained::default()
        };
        for (entry, became) in before.nodes.iter().zip(became) {
            let became = match became {
                // What the server says about one node holds up no other.
                Err(error @ Error::Api(_)) => refused(&mut drained, entry.clone(), &error),
                became => became?,
            };
            self.take_in(&mut drained, &mut status, entry, became, &pods);
        }
        if !rules.is_paused && status.stopped.is_none() {
            self.begin(&mut drained, &mut status, &pods).await?;
        }
        drained.status = self.concluded(status, &pods);
        Ok(drained)
    }

    /// Does what is to be done for a node under way.
    async fn step(
        &self,
        entry: &DrainingNode,
        pods: &[Placed],
        goes_on: bool,
    ) -> Result<Became, Error> {
        let (sight, node) = self.subject.sight(entry, pods).await?;
        let Some(node) = node else {
            return Ok(Became::Done);
        };
        let (rules, now) = (self.subject.rules, self.subject.now());
        let step = next_step(&sight, rules, goes_on, now);
        let may_fail = is_late(&sight, rules, now) && !matches!(step, Step::Release);
        match self.act(entry, step, &sight, &node).await {
            // Whatever the server refuses takes no longer than anything else.
            Err(error @ Error::Api(_)) if may_fail => {
                self.subject
                    .taint
                    .remove(self.subject.client, &node)
                    .await?;
                Ok(Became::Failed(answer::chain(&error)))
            }
            became => became,
        }
    }

    async fn act(
        &self,
        entry: &DrainingNode,
        step: Step,
        sight: &Sight,
        node: &Node,
    ) -> Result<Became, Error> {
        let (client, taint) = (self.subject.client, self.subject.taint);
        match step {
            Step::Forget => Ok(Became::Done),
            Step::Release => {
                taint.remove(client, node).await?;
                Ok(Became::Done)
            }
            Step::Fail(why) => {
                taint.remove(client, node).await?;
                Ok(Became::Failed(why))
            }
            Step::Taint => {
                taint.add(client, node).await?;
                Ok(Became::Waits {
                    entry: entry.clone(),
                    is_stuck: false,
                    pause: AT_ONCE,
                })
            }
            Step::Replace { name, uid } => {
                let entry = DrainingNode {
                    mounts: told::mounts(sight),
                    ..entry.clone()
                };
                match self.subject.used_now(&entry.name).await? {
                    None => self.replace(entry, &name, &uid).await,
                    // Nothing of it is in sight yet: that takes no longer than anything else.
                    Some(what) if is_late(sight, self.subject.rules, self.subject.now()) => {
                        taint.remove(client, node).await?;
                        let node = sight.node.map(|it| in_vain(it, &what));
                        Ok(Became::Failed(node.unwrap_or(what)))
                    }
                    Some(what) => Ok(still_used(entry, what)),
                }
            }
            empties => self.empty(entry.clone(), empties, sight).await,
        }
    }

    /// Deletes a driver pod that nobody needs: its DaemonSet makes a new one. Called twice: it goes once.
    async fn replace(
        &self,
        mut entry: DrainingNode,
        name: &str,
        uid: &str,
    ) -> Result<Became, Error> {
        let pods = Api::<Pod>::namespaced(self.subject.client.clone(), self.namespace);
        deletion::delete(&pods, name, uid).await?;
        entry.waiting_for = Some("its new driver pod".to_owned());
        entry.replaced_since = Some(Time(self.subject.now()));
        Ok(Became::Waits {
            entry,
            is_stuck: false,
            pause: LOOK_AGAIN,
        })
    }

    /// Does what is to be done for a node that is tainted.
    async fn empty(
        &self,
        mut entry: DrainingNode,
        step: Step,
        sight: &Sight,
    ) -> Result<Became, Error> {
        let mut pause = LOOK_AGAIN;
        let mut is_stuck = false;
        entry.mounts = told::mounts(sight);
        if !matches!(sight.driver, DriverPod::Outdated { .. }) {
            entry.replaced_since = Some(Time(sight.since));
        }
        match step {
            Step::Evict(users, what) => {
                let blocked = self.evict(&users).await?;
                is_stuck = blocked.is_some();
                pause = if is_stuck { ASK_AGAIN } else { LOOK_AGAIN };
                entry.unused_since = None;
                entry.waiting_for = Some(blocked.unwrap_or(what));
            }
            Step::Settle(what) => {
                pause = self.subject.rules.settle.clamp(AT_ONCE, ASK_AGAIN);
                entry
                    .unused_since
                    .get_or_insert_with(|| Time(self.subject.now()));
                entry.waiting_for = Some(what);
            }
            Step::Wait(what) => {
                let is_held = |user: &User| matches!(user.fate, Fate::Held(_));
                is_stuck = sight.users.iter().any(is_held);
                if sight.attachments.is_empty() && matches!(sight.mounts, Mounts::Known(_)) {
                    pause = ASK_FOR_MOUNTS;
                }
                entry.unused_since = None;
                entry.waiting_for = Some(what);
            }
            Step::Forget | Step::Release | Step::Taint | Step::Replace { .. } | Step::Fail(_) => {}
        }
        Ok(Became::Waits {
            entry,
            is_stuck,
            pause,
        })
    }

    /// Asks pods to go; the first that may not, and why.
    async fn evict(&self, users: &[User]) -> Result<Option<String>, Error> {
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
        status: &mut DrainStatus,
        before: &DrainingNode,
        became: Became,
        pods: &[Placed],
    ) {
        match became {
            Became::Waits {
                entry,
                is_stuck,
                pause,
            } => {
                if is_stuck && entry.waiting_for != before.waiting_for {
                    drained.news.extend(told::waits(&entry));
                }
                status.nodes.push(entry);
                drained.look_again_in(pause);
            }
            Became::Done => {
                let mut there = pods.iter().filter(|it| it.node == before.name);
                if there.any(|it| it.pod == DriverPod::Current { is_ready: true }) {
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

    /// The status with its counts; none where nothing is left to do.
    fn concluded(&self, status: DrainStatus, pods: &[Placed]) -> Option<DrainStatus> {
        let is_outdated = |it: &Placed| matches!(it.pod, DriverPod::Outdated { .. });
        if status.nodes.is_empty() && !pods.iter().any(is_outdated) {
            return None;
        }
        let is_current = |it: &&Placed| matches!(it.pod, DriverPod::Current { .. });
        let current = pods.iter().filter(is_current).count();
        Some(DrainStatus {
            progress: format!("{current}/{}", self.total),
            ..status
        })
    }
}

/// A node that something uses of which nothing was in sight.
fn still_used(entry: DrainingNode, what: String) -> Became {
    Became::Waits {
        entry: DrainingNode {
            unused_since: None,
            waiting_for: Some(what),
            ..entry
        },
        is_stuck: false,
        pause: ASK_AGAIN,
    }
}

/// A node that stays as it is, because of what the server says.
fn refused(drained: &mut Drained, entry: DrainingNode, error: &Error) -> Became {
    let (answer, told) = (Answer::of(error), answer::chain(error));
    // Somebody changed the node at the same time.
    if answer.is_stale() {
        return Became::Waits {
            entry,
            is_stuck: false,
            pause: TRY_AGAIN,
        };
    }
    if matches!(answer, Answer::Forbidden(_)) {
        drained.problems.push(Problem::may_not_drain(error));
    }
    Became::Waits {
        entry: DrainingNode {
            waiting_for: Some(told),
            ..entry
        },
        is_stuck: true,
        pause: ASK_AGAIN,
    }
}
