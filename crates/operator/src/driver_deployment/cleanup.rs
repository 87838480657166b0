//! The finalizer: what was made for an instance goes with it.

use kube::core::Resource;
use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, CSIDriverDeploymentStatus, FINALIZER};
use stowage_kubernetes::finalizer::{self, Seen};

use super::context::Context;
use super::problem::{self, Problem};
use super::validate::{ManagementState, owner};
use super::{Next, status};
use crate::writer::{Key, Objects, Recorded};

/// Adds the finalizer. Before anything is made: cluster-scoped objects would otherwise stay for ever. False: the
/// instance is gone or being deleted, and nothing may be made for it.
pub(super) async fn ensure_finalizer(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<bool, Error> {
    let api = context.stored_instances(instance.namespace());
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    finalizer::add(&api, seen(instance, &name, &uid), FINALIZER).await
}

fn seen<'a>(instance: &'a CSIDriverDeployment, name: &'a str, uid: &'a str) -> Seen<'a> {
    Seen {
        name,
        uid,
        finalizers: instance.finalizers(),
    }
}

/// Removes everything that belongs to the instance, then lets it go. Called twice: what is gone stays gone.
pub(super) async fn cleanup(
    instance: &CSIDriverDeployment,
    state: ManagementState,
    context: &Context,
) -> Result<Next, Error> {
    let uid = instance.uid().unwrap_or_default();
    let ours = instance.finalizers().iter().any(|it| it == FINALIZER);
    if !ours {
        context.forget(&uid);
        context.metrics.forget(&uid);
        return Ok(Next::Rest);
    }
    match state {
        ManagementState::Unmanaged => {
            let note = "The instance is unmanaged: its objects stay, and nobody looks after them any more.";
            context
                .events
                .normal(instance.object_ref(&()), "ObjectsKept", note);
        }
        ManagementState::Managed => {
            let problems = remove_all(instance, context).await;
            if !problems.is_empty() {
                return tell(instance, context, &problems).await;
            }
        }
    }
    let (api, name) = (
        context.stored_instances(instance.namespace()),
        instance.name_any(),
    );
    finalizer::remove(&api, seen(instance, &name, &uid), FINALIZER).await?;
    tracing::info!(
        instance = status::title(instance),
        "An instance was let go."
    );
    context.forget(&uid);
    context.metrics.forget(&uid);
    Ok(Next::Rest)
}

/// Deletes everything; what is left, and why.
async fn remove_all(instance: &CSIDriverDeployment, context: &Context) -> Vec<Problem> {
    let mut objects = match everything(instance, context).await {
        Ok(objects) => objects,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    // Pods first: they should not lose their rights while they still work.
    for (key, object) in objects.iter().rev() {
        if let Err(error) = context.writer.delete(key, object).await {
            problems.push(Problem::of_write(&error, instance));
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    objects = match everything(instance, context).await {
        Ok(objects) => objects,
        Err(problem) => return vec![problem],
    };
    objects.keys().map(problem::lingering).collect()
}

/// What carries the instance's uid, and what its status lists and somebody took our labels from.
async fn everything(instance: &CSIDriverDeployment, context: &Context) -> Result<Objects, Problem> {
    let failed = |error| Problem::of_write(&error, instance);
    let owned = context.writer.owned(&owner(instance)).await;
    let mut objects = owned.map_err(failed)?;
    let children = instance
        .status
        .as_ref()
        .and_then(|status| status.children.as_deref());
    let children = children.unwrap_or_default();
    let recorded = Recorded::of(children);
    let unlabelled = children
        .iter()
        .filter_map(Key::of_child)
        .filter(|key| !objects.contains_key(key));
    let unlabelled: Vec<_> = unlabelled.collect();
    let mut listed = context.writer.read(unlabelled).await.map_err(failed)?;
    listed.retain(|_, object| recorded.contains(object.metadata.uid.as_deref()));
    objects.append(&mut listed);
    Ok(objects)
}

/// Says what keeps the instance from going.
async fn tell(
    instance: &CSIDriverDeployment,
    context: &Context,
    problems: &[Problem],
) -> Result<Next, Error> {
    let before = instance.status.clone().unwrap_or_default();
    let finding = problem::sync_finding(problems, &[]);
    let generation = instance.meta().generation;
    let after = CSIDriverDeploymentStatus {
        state: Some("Removed".to_owned()),
        ..status::with_finding(&before, finding, generation)
    };
    status::write(instance, context, &after).await?;
    Ok(Next::Retry)
}
