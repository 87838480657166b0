//! The last stage: from what a reconcile came to, everything that is seen of it. Conditions, children and message of
//! the instance, events, metrics, and when to look again.

#[cfg(test)]
mod tests;

use std::time::Instant;

use kube::api::PatchParams;
use kube::runtime::controller::Action;
use kube::{Error, Resource, ResourceExt};
use serde_json::json;
use stowage_api::driver_deployment::{
    CSIDriverDeployment, CSIDriverDeploymentStatus, ConditionStatus,
};
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use super::condition::{AVAILABLE, Finding, PROGRESSING, SYNC_SUCCESSFUL, conditions};
use super::context::Context;
use super::event;
use super::observe::Observation;
use super::outcome::{Outcome, Synced};
use super::problem::{Problem, sync_finding, title};
use crate::writer::FIELD_MANAGER;

/// Makes an outcome known, and says when to look again.
pub(super) async fn conclude(
    instance: &CSIDriverDeployment,
    outcome: Outcome,
    started: Instant,
    context: &Context,
) -> Action {
    let outcome = match make_known(instance, &outcome, context).await {
        Ok(()) => {
            context.remember(instance, &outcome);
            outcome
        }
        Err(error) => Outcome::Failed(error),
    };
    let is_ok = !matches!(outcome, Outcome::Failed(_));
    context.metrics.reconciled(started.elapsed(), is_ok);
    let uid = instance.uid().unwrap_or_default();
    if let Outcome::Released = outcome {
        context.forget(&uid);
        context.metrics.forget(&uid);
    }
    if outcome.is_final() {
        context.forget_failures(&uid);
        return match outcome.look_again() {
            Some(pause) => Action::requeue(pause),
            None => Action::await_change(),
        };
    }
    let pause = outcome.pause(context.count_failure(&uid));
    // A conflict is no news: somebody else wrote at the same time, or our own write is still on its way to us.
    if let Outcome::Failed(error) = &outcome
        && Answer::of(error) != Answer::Conflict
    {
        let error = answer::chain(error);
        tracing::warn!(instance = title(instance), error, retry_in = ?pause, "An instance could not be synced.");
    }
    Action::requeue(pause)
}

/// Writes events, status and metrics. Called twice: the second time sends nothing.
pub(super) async fn make_known(
    instance: &CSIDriverDeployment,
    outcome: &Outcome,
    context: &Context,
) -> Result<(), Error> {
    event::publish(instance, outcome, context);
    let Some(status) = status_after(instance, outcome) else {
        return Ok(());
    };
    write(instance, &status, context).await?;
    let observation = match outcome {
        Outcome::Synced(synced) => synced.observation.as_ref(),
        _ => None,
    };
    let nodes = observation.map(Observation::nodes);
    context.metrics.observed(instance, &status, nodes);
    Ok(())
}

/// The status that an outcome leads to; `None`: the one that is there stays.
fn status_after(
    instance: &CSIDriverDeployment,
    outcome: &Outcome,
) -> Option<CSIDriverDeploymentStatus> {
    let before = instance.status.clone().unwrap_or_default();
    let generation = instance.meta().generation;
    let in_state = |state: &str, status| CSIDriverDeploymentStatus {
        state: Some(state.to_owned()),
        ..status
    };
    match outcome {
        Outcome::Unmanaged => Some(in_state("Unmanaged", without_drain(before))),
        Outcome::Unseen(problems) => Some(with_problems(before, problems, generation)),
        Outcome::Stopped(problems) => {
            Some(with_problems(without_drain(before), problems, generation))
        }
        Outcome::Held(problems) => {
            let status = with_problems(without_drain(before), problems, generation);
            Some(in_state("Removed", status))
        }
        // Somebody else wrote at the same time: the next attempt sees what they wrote.
        Outcome::Synced(synced) if synced.applied.is_outpaced() => None,
        Outcome::Synced(synced) => {
            let status = with_objects(before, synced, instance);
            Some(in_state("Managed", status))
        }
        Outcome::Released | Outcome::Failed(_) => None,
    }
}

/// Of an instance whose nodes have been let go: it waits for none of them.
fn without_drain(mut before: CSIDriverDeploymentStatus) -> CSIDriverDeploymentStatus {
    if before.drain.take().is_some()
        && let Some(conditions) = &mut before.conditions
    {
        conditions.retain(|it| it.type_ != PROGRESSING);
    }
    before
}

/// What was done and what is seen. Where nothing could be seen, what was seen last stays.
fn with_objects(
    before: CSIDriverDeploymentStatus,
    synced: &Synced,
    instance: &CSIDriverDeployment,
) -> CSIDriverDeploymentStatus {
    let (applied, driver) = (&synced.applied, &instance.spec.driver_name);
    let generation = instance.meta().generation;
    let mut after = match &synced.observation {
        None => with_problems(before, &applied.problems, generation),
        Some(observation) => {
            let sync = sync_finding(&applied.problems, &synced.warnings);
            let mut findings = vec![observation.available(driver), sync];
            let drained = synced.drained.progressing();
            findings.extend(drained.or_else(|| observation.progressing()));
            let (ready, desired) = observation.nodes();
            let nodes = observation
                .is_deployed()
                .then(|| format!("{ready}/{desired}"));
            CSIDriverDeploymentStatus {
                nodes,
                ..with_findings(before, findings, generation)
            }
        }
    };
    if applied.problems.is_empty() {
        after.observed_generation = generation;
        after.workloads_generation = None;
    } else if applied.has_workloads {
        after.workloads_generation = generation;
    }
    if applied.is_complete {
        after.driver_name = Some(driver.clone());
    }
    after.children = Some(applied.children()).filter(|children| !children.is_empty());
    after.drain.clone_from(&synced.drained.status);
    after.first_port = synced.first_port.map(i32::from);
    after
}

/// The condition `SyncSuccessful` with these problems; everything else stays.
fn with_problems(
    before: CSIDriverDeploymentStatus,
    problems: &[Problem],
    generation: Option<i64>,
) -> CSIDriverDeploymentStatus {
    let mut others = before.conditions.clone().unwrap_or_default();
    others.retain(|it| it.type_ != SYNC_SUCCESSFUL);
    let mut after = with_findings(before, vec![sync_finding(problems, &[])], generation);
    after.conditions.get_or_insert_default().extend(others);
    after
}

/// These conditions and no others, and the most important of them as message.
fn with_findings(
    before: CSIDriverDeploymentStatus,
    findings: Vec<Finding>,
    generation: Option<i64>,
) -> CSIDriverDeploymentStatus {
    let known = before.conditions.as_deref().unwrap_or_default();
    CSIDriverDeploymentStatus {
        message: Some(summary(&findings)),
        conditions: Some(conditions(known, findings, generation)),
        ..before
    }
}

/// The line for `kubectl get`: what is wrong, or how many nodes are ready.
fn summary(findings: &[Finding]) -> String {
    let sync = findings
        .iter()
        .find(|it| it.about == SYNC_SUCCESSFUL && it.status != ConditionStatus::True);
    let available = findings.iter().find(|it| it.about == AVAILABLE);
    let message = sync
        .or(available)
        .map(|it| it.message.as_str())
        .unwrap_or_default();
    message.lines().next().unwrap_or_default().to_owned()
}

/// Writes the status, unless it is already there. Called twice: the second time sends nothing.
async fn write(
    instance: &CSIDriverDeployment,
    status: &CSIDriverDeploymentStatus,
    context: &Context,
) -> Result<(), Error> {
    if instance.status.as_ref() == Some(status) {
        return Ok(());
    }
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    let patch = ObjectPatch::of(&uid).set(["status"], json!(status));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PARAMS
    };
    let api = context.stored_instances(instance.namespace());
    let written = api
        .patch_status(&name, &parameters, &patch.into_patch())
        .await;
    match written {
        // The instance is gone: nobody is left to be told.
        Err(error) if answer::is_gone(&error) => Ok(()),
        written => written.map(|_| ()),
    }
}
