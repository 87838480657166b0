//! What is told about a container.

use kube::Resource as _;
use stowage_api::weka::{
    ContainerPrinter, ContainerState, ContainerStats, WekaContainer, WekaContainerStatus,
};

use super::decide::Decision;
use crate::weka::conditions::{Finding, set};
use crate::weka::context::Context;
use crate::weka::object::write_status;
use crate::weka::problem::{Problem, Reason};

/// Whether its pods could be written.
const PODS: &str = "PodsSynced";
/// Whether the pod runs the image that it should.
const IMAGE_UPDATED: &str = "ContainerImageUpdated";
/// Whether everything is unmounted, while a container goes.
const DRAINED: &str = "Drained";

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
    let mounts = i64::try_from(decision.mounts).unwrap_or(i64::MAX);
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
        stats: Some(ContainerStats {
            active_mounts: mounts,
            ..before.stats.clone().unwrap_or_default()
        }),
        printer: Some(ContainerPrinter {
            management_ips: shown,
            node_affinity: node.clone(),
            active_mounts: mounts.to_string(),
            ..before.printer.clone().unwrap_or_default()
        }),
        node_affinity: node,
        csi_driver_name: decision.driver.clone(),
        ..before
    };
    let generation = container.meta().generation;
    let pods = problem.map(|it| Finding::of_problem(PODS, it));
    set(&mut status.conditions, pods, PODS, generation);
    let why = |what: &str| {
        let message = format!("{mounts} volumes are attached to the node: {what}");
        Problem::new(Reason::ActiveMounts, message)
    };
    let image = decision.waits_for_mounts.then(|| {
        let problem = why("the new image is used when they are detached");
        Finding::of_problem(IMAGE_UPDATED, &problem)
    });
    set(&mut status.conditions, image, IMAGE_UPDATED, generation);
    let drained = (decision.state == ContainerState::Draining).then(|| {
        let problem = why(
            "the client stays until the pods that use them are gone; `overrides.skipActiveMountsCheck` does not wait",
        );
        Finding::of_problem(DRAINED, &problem)
    });
    set(&mut status.conditions, drained, DRAINED, generation);
    status
}
