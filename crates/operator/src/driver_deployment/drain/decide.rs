//! What is to be done next for one node. Nothing here does anything.

#[cfg(test)]
pub(super) mod tests;

use jiff::Timestamp;

use super::users::{Fate, User};
use crate::driver::valid::DrainRules;

/// What is known of a node under way.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// The node; `None`: it is gone.
    pub(super) node: Option<NodeSight>,
    /// Its driver pod.
    pub(super) driver: DriverPod,
    /// Whether the kubelet knows the driver.
    pub(super) is_registered: bool,
    /// Pods that use the driver there.
    pub(super) users: Vec<User>,
    /// Volumes of the driver that are attached there.
    pub(super) attachments: Vec<String>,
    /// When it was begun with.
    pub(super) since: Timestamp,
    /// Since when nothing is seen to use the driver there.
    pub(super) unused_since: Option<Timestamp>,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSight {
    pub(super) is_ready: bool,
    pub(super) taint: Taint,
}

/// The taint that keeps pods away which would use the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taint {
    Missing,
    Ours,
    /// Of the same key, and somebody else's.
    Foreign,
}

/// The driver pod of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DriverPod {
    /// There is none, or only one that goes.
    Missing,
    /// It is of an older template.
    Outdated { name: String, uid: String },
    /// It is of the current template.
    Current { is_ready: bool },
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing left to do for it.
    Forget,
    /// Take the taint away, then forget it.
    Release,
    /// Keep new pods away.
    Taint,
    /// Ask these pods to go, and wait.
    Evict(Vec<User>, String),
    /// Wait: what for.
    Wait(String),
    /// The same, while nothing is seen to use the driver.
    Settle(String),
    /// Delete the driver pod.
    Replace { name: String, uid: String },
    /// Take the taint away, and go on with no other node: why.
    Fail(String),
}

/// What is to be done next. `goes_on`: nothing keeps the update from going on.
pub(super) fn next_step(sight: &Sight, rules: &DrainRules, goes_on: bool, now: Timestamp) -> Step {
    let Some(node) = sight.node else {
        return Step::Forget;
    };
    match &sight.driver {
        DriverPod::Current { is_ready: true } if sight.is_registered => return Step::Release,
        // Its mounts are alive: it is as good as never begun with.
        DriverPod::Outdated { .. } if !goes_on => return Step::Release,
        _ => {}
    }
    let step = match (&sight.driver, node.taint) {
        (DriverPod::Outdated { .. }, Taint::Missing) => Step::Taint,
        (DriverPod::Outdated { .. }, Taint::Foreign) => {
            Step::Wait("a taint of the same key is somebody else's: remove it".to_owned())
        }
        (DriverPod::Outdated { name, uid }, Taint::Ours) => emptied(sight, rules, now)
            .unwrap_or_else(|| Step::Replace {
                name: name.clone(),
                uid: uid.clone(),
            }),
        (DriverPod::Missing, _) => Step::Wait("its new driver pod".to_owned()),
        (DriverPod::Current { is_ready: false }, _) => {
            Step::Wait("its new driver pod to be ready".to_owned())
        }
        (DriverPod::Current { is_ready: true }, _) => {
            Step::Wait("its kubelet to register the driver".to_owned())
        }
    };
    let is_late = has_passed(sight.since, rules.timeout, now);
    match step {
        Step::Wait(what) | Step::Evict(_, what) | Step::Settle(what) if is_late => {
            let dead = if node.is_ready {
                ""
            } else {
                "the node is not ready; "
            };
            Step::Fail(format!("{dead}waited in vain for {what}"))
        }
        step => step,
    }
}

/// What has to happen before nothing there needs the old driver pod any more.
fn emptied(sight: &Sight, rules: &DrainRules, now: Timestamp) -> Option<Step> {
    if !sight.users.is_empty() {
        let waits = what_for(&sight.users);
        let may_go = |user: &&User| user.fate == Fate::Evict;
        let evict: Vec<_> = sight.users.iter().filter(may_go).cloned().collect();
        return Some(if evict.is_empty() {
            Step::Wait(waits)
        } else {
            Step::Evict(evict, waits)
        });
    }
    if let Some(first) = sight.attachments.first() {
        let count = sight.attachments.len();
        let text = format!("{count} volumes to be detached, the first is {first}");
        return Some(Step::Wait(text));
    }
    let is_settled = |since| has_passed(since, rules.settle, now);
    if sight.unused_since.is_some_and(is_settled) {
        return None;
    }
    let text = "the last mounts to go, of which nobody there can tell".to_owned();
    Some(Step::Settle(text))
}

/// The pods that a node waits for: those that are held first, since somebody has to do something about them.
fn what_for(users: &[User]) -> String {
    let held = users.iter().find_map(|user| match user.fate {
        Fate::Held(why) => Some((user, why)),
        Fate::Evict | Fate::Leaves => None,
    });
    let more = match users.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match (held, users.first()) {
        (Some((user, why)), _) => format!("{}: {why}{more}", user.title()),
        (None, Some(user)) => format!("{} to leave{more}", user.title()),
        (None, None) => String::new(),
    }
}

fn has_passed(since: Timestamp, limit: std::time::Duration, now: Timestamp) -> bool {
    now.duration_since(since).unsigned_abs() >= limit && now >= since
}

/// A driver pod, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) node: String,
    pub(super) pod: DriverPod,
}

/// How many nodes may be begun with, and the nodes in order: `busy` are under way already.
pub(super) fn next_nodes<'a>(
    pods: &'a [Placed],
    busy: &[String],
    total: usize,
    rules: &DrainRules,
) -> (usize, Vec<&'a str>) {
    let is_free = |placed: &&Placed| !busy.contains(&placed.node);
    let others = || pods.iter().filter(is_free);
    // The driver is missing there, whatever the reason.
    let missing = others().filter(|it| it.pod == DriverPod::Current { is_ready: false });
    let room = rules
        .limit
        .of(total)
        .saturating_sub(busy.len() + missing.count());
    let outdated = others().filter(|it| matches!(it.pod, DriverPod::Outdated { .. }));
    let mut nodes: Vec<_> = outdated.map(|it| it.node.as_str()).collect();
    nodes.sort_unstable();
    (room, nodes)
}
