//! What people read of an update by `Draining`.

use stowage_api::driver_deployment::{ConditionStatus, DrainStatus, DrainingNode};

use super::Drained;
use super::decide::{DriverPod, Mounts, Sight};
use crate::driver_deployment::condition::{Finding, PROGRESSING, Reason};

/// Something that happened, for an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct News {
    pub(in super::super) reason: &'static str,
    pub(in super::super) message: String,
    pub(in super::super) is_trouble: bool,
}

fn news(reason: &'static str, message: String) -> News {
    News {
        reason,
        message,
        is_trouble: false,
    }
}

pub(super) fn begun(node: &str) -> News {
    let message = format!("Node {node}: pods that use the driver are moved away.");
    news("NodeDraining", message)
}

pub(super) fn done(node: &str) -> News {
    news(
        "NodeUpdated",
        format!("Node {node} has its new driver pod."),
    )
}

pub(super) fn waits(node: &DrainingNode) -> Option<News> {
    let what = node.waiting_for.as_ref()?;
    let message = format!("Node {}: waiting for {what}.", node.name);
    Some(news("NodeWaiting", message))
}

/// What is known about mounts, once nothing else uses the driver.
pub(super) fn mounts(sight: &Sight) -> Option<String> {
    let is_asked = matches!(sight.driver, DriverPod::Outdated { .. }) && sight.users.is_empty();
    is_asked.then(|| match &sight.mounts {
        Mounts::Unknown(why) => format!("unverified: {why}"),
        Mounts::Known(mounts) => mounts.len().to_string(),
    })
}

pub(super) fn stopped(node: &str, reason: &str) -> News {
    News {
        is_trouble: true,
        ..news("UpdateStopped", stop_message(node, reason))
    }
}

fn stop_message(node: &str, reason: &str) -> String {
    format!(
        "The update stopped at node {node}: {reason}. It goes on when the instance changes, such as by `nodeDrain.paused` set and unset."
    )
}

impl Drained {
    /// The condition `Progressing`; `None`: no update of this kind is under way.
    pub(in super::super) fn progressing(&self) -> Option<Finding> {
        let status = self.status.as_ref()?;
        let (reason, message) = self.reason(status);
        Some(Finding {
            about: PROGRESSING,
            status: ConditionStatus::True,
            reason,
            message: format!("{} nodes updated. {message}", status.progress),
        })
    }

    fn reason(&self, status: &DrainStatus) -> (Reason, String) {
        if let Some(stop) = &status.stopped {
            return (Reason::DrainStopped, stop_message(&stop.node, &stop.reason));
        }
        if self.is_paused {
            let message = "Paused: no further node is begun with.".to_owned();
            return (Reason::DrainPaused, message);
        }
        let nodes = status.nodes.iter().map(|node| match &node.waiting_for {
            Some(what) => format!("Node {}: waiting for {what}.", node.name),
            None => format!("Node {}: begun.", node.name),
        });
        let unready = self.unready.iter();
        let unready =
            unready.map(|node| format!("Node {node} is not ready: it is begun with when it is."));
        let without = (self.without > 0).then(|| {
            let count = self.without;
            format!("No further node is begun with: the driver is missing or not ready on {count} nodes that are not under way, and `maxUnavailableNodes` admits no more.")
        });
        let all = nodes.chain(unready).chain(without);
        (Reason::Draining, all.collect::<Vec<_>>().join("\n"))
    }
}
