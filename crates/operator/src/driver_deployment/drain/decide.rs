//! What is to be done next for one node. Nothing here does anything.

#[cfg(test)]
pub(super) mod tests;

use std::net::SocketAddr;

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
    /// What is mounted there of the driver's volumes.
    pub(super) mounts: Mounts,
    /// Since when it is emptied, or waits for its new driver pod.
    pub(super) since: Timestamp,
    /// What it was last told to wait for.
    pub(super) told: Option<String>,
    /// Since when nothing is seen to use the driver there.
    pub(super) unused_since: Option<Timestamp>,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSight {
    pub(super) is_ready: bool,
    pub(super) taint: Taint,
}

/// What a node's sidecar tells about mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mounts {
    /// Nothing. Why.
    Unknown(String),
    /// Where volumes are mounted, below the kubelet's directory.
    Known(Vec<String>),
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
    Outdated {
        name: String,
        uid: String,
        is_ready: bool,
        /// Where its sidecar tells what is mounted, if it does.
        tells_at: Option<SocketAddr>,
    },
    /// It is of the current template.
    Current { is_ready: bool },
}

impl DriverPod {
    /// Whether volumes can be mounted by it.
    pub(super) fn serves(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Outdated { is_ready, .. } | Self::Current { is_ready } => *is_ready,
        }
    }
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
        (DriverPod::Outdated { name, uid, .. }, Taint::Ours) => emptied(sight, rules, now)
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
    if !is_late(sight, rules, now) {
        return step;
    }
    match step {
        // Why a pod may not be evicted, or what uses the driver out of sight, is known only to who has tried.
        Step::Evict(_, what) | Step::Settle(what) => {
            Step::Fail(in_vain(node, sight.told.as_ref().unwrap_or(&what)))
        }
        Step::Wait(what) => Step::Fail(in_vain(node, &what)),
        step => step,
    }
}

/// Whether a node has taken too long to be emptied, or for its new driver pod.
pub(super) fn is_late(sight: &Sight, rules: &DrainRules, now: Timestamp) -> bool {
    has_passed(sight.since, rules.timeout, now)
}

/// Why a node is given up.
pub(super) fn in_vain(node: NodeSight, what: &str) -> String {
    let dead = if node.is_ready {
        ""
    } else {
        "the node is not ready; "
    };
    format!("{dead}waited in vain for {what}")
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
    match &sight.mounts {
        Mounts::Known(mounts) => mounts.first().map(|first| {
            let count = mounts.len();
            Step::Wait(format!("{count} mounts to go, the first is {first}"))
        }),
        Mounts::Unknown(_) => {
            let is_settled = |since| has_passed(since, rules.settle, now);
            let is_over = sight.unused_since.is_some_and(is_settled);
            let text = "the last mounts to go, of which nobody there can tell";
            (!is_over).then(|| Step::Settle(text.to_owned()))
        }
    }
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
