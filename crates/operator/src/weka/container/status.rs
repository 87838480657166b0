//! What is told about a container.

use kube::Resource as _;
use stowage_api::weka::{
    ContainerPrinter, ContainerState, ContainerStats, WekaContainer, WekaContainerStatus,
};

use super::decide::{Decision, Settings};
use super::mounts::{Mounts, OnNode};
use crate::weka::conditions::{Finding, set};
use crate::weka::context::Context;
use crate::weka::object::write_status;
use crate::weka::problem::{Problem, Reason};

/// Whether its pods could be written.
const PODS: &str = "PodsSynced";
/// Whether the pod runs the image that it should.
const IMAGE_UPDATED: &str = "ContainerImageUpdated";
/// Whether the pod runs with the settings that it should.
const SETTINGS_APPLIED: &str = "ContainerSettingsApplied";
/// Whether everything is unmounted, while a container goes.
const DRAINED: &str = "Drained";

const OLD_SETTINGS: &str = "the pod keeps the settings that it was started with, such as cores, network and resources, until it is replaced: \
     delete the pod of this name when nothing is mounted through it, or wait for the next image";

/// Writes the status, unless it is already there. Called twice: the second time sends nothing.
pub(super) async fn write(
    container: &WekaContainer,
    decision: &Decision,
    problem: Option<&Problem>,
    context: &Context,
) -> Result<(), Problem> {
    // Somebody else wrote at the same time: the next attempt sees what they wrote.
    let problem = problem.filter(|it| !it.is_conflict);
    let status = status(container, decision, problem);
    write_status(container, container.status.as_ref(), &status, context).await
}

fn status(
    container: &WekaContainer,
    decision: &Decision,
    problem: Option<&Problem>,
) -> WekaContainerStatus {
    let before = container.status.clone().unwrap_or_default();
    let node = container.node().unwrap_or_default().to_owned();
    let mounted = stats(&decision.mounts, before.stats.clone().unwrap_or_default());
    let addresses = &decision.addresses;
    let shown = match addresses.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} (+{})", more.len()),
    };
    // An image is applied when it serves: until then a rolling upgrade waits.
    let image = match decision.state {
        ContainerState::Running => decision.image.clone(),
        _ => before.last_applied_image.clone(),
    };
    let mut status = WekaContainerStatus {
        status: decision.state.clone(),
        last_applied_image: image,
        management_ips: addresses.clone(),
        printer: Some(ContainerPrinter {
            management_ips: shown,
            node_affinity: node.clone(),
            active_mounts: mounted.active_mounts.to_string(),
            ..before.printer.clone().unwrap_or_default()
        }),
        stats: Some(mounted),
        node_affinity: node,
        csi_driver_names: decision.drivers.clone(),
        ..before
    };
    let generation = container.meta().generation;
    for (about, finding) in findings(decision, problem) {
        set(&mut status.conditions, finding, about, generation);
    }
    status
}

/// What is told only while it is so.
fn findings(
    decision: &Decision,
    problem: Option<&Problem>,
) -> [(&'static str, Option<Finding>); 4] {
    let mounted = |what: &str| {
        let message = format!("{}: {what}", decision.mounts.shown());
        Problem::new(Reason::ActiveMounts, message)
    };
    let image = decision
        .waits_for_mounts
        .then(|| mounted("the new image is used when the pods that use them are gone"));
    let settings = (decision.settings == Settings::Outdated)
        .then(|| Problem::new(Reason::PodOutdated, OLD_SETTINGS));
    let drained = (decision.state == ContainerState::Draining).then(|| {
        mounted("the client stays until the pods that use them are gone; `overrides.skipActiveMountsCheck` does not wait")
    });
    [
        (PODS, problem.cloned()),
        (IMAGE_UPDATED, image),
        (SETTINGS_APPLIED, settings),
        (DRAINED, drained),
    ]
    .map(|(about, problem)| (about, problem.map(|it| Finding::of_problem(about, &it))))
}

/// What is counted. Whether the node could tell is told until it is asked again.
fn stats(mounts: &Mounts, before: ContainerStats) -> ContainerStats {
    ContainerStats {
        active_mounts: i64::try_from(mounts.count()).unwrap_or(i64::MAX),
        unverified: match &mounts.on_node {
            OnNode::NotAsked => before.unverified,
            OnNode::Unknown(why) => Some(why.clone()),
            OnNode::Known(_) => None,
        },
        unknown: before.unknown,
    }
}
