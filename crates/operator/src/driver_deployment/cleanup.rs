//! The finalizer: what was made for an instance goes with it.

use kube::{Resource, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, FINALIZER};
use stowage_kubernetes::finalizer::{self, Seen};

use super::context::Context;
use super::fetch::children;
use super::outcome::Outcome;
use super::problem::{self, Problem, title};
use super::validate::{ManagementState, management_state, owner};
use crate::writer::{Key, Objects, Recorded};

/// Adds the finalizer. Before anything is made: cluster-scoped objects would otherwise stay. Nothing may be made for an
/// instance that went meanwhile. Called twice: it is there once.
pub(super) async fn ensure_finalizer(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Outcome> {
    let api = context.stored_instances(instance.namespace());
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    let is_there = finalizer::add(&api, seen(instance, &name, &uid), FINALIZER).await?;
    is_there.then_some(()).ok_or(Outcome::Released)
}

fn seen<'a>(instance: &'a CSIDriverDeployment, name: &'a str, uid: &'a str) -> Seen<'a> {
    Seen {
        name,
        uid,
        finalizers: instance.finalizers(),
    }
}

/// Removes everything that belongs to the instance, then lets it go. Called twice: what is gone stays gone.
pub(super) async fn cleanup(instance: &CSIDriverDeployment, context: &Context) -> Outcome {
    if !instance.finalizers().iter().any(|it| it == FINALIZER) {
        return Outcome::Released;
    }
    match management_state(&instance.spec) {
        ManagementState::Unmanaged => {
            let message = "The instance is unmanaged: its objects are kept, and no longer managed.";
            let object = instance.object_ref(&());
            context.events.normal(object, "ObjectsKept", message);
        }
        ManagementState::Managed => {
            let problems = remove_all(instance, context).await;
            if !problems.is_empty() {
                return Outcome::Held(problems);
            }
        }
    }
    let api = context.stored_instances(instance.namespace());
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    if let Err(error) = finalizer::remove(&api, seen(instance, &name, &uid), FINALIZER).await {
        return Outcome::Failed(error);
    }
    tracing::info!(instance = title(instance), "An instance was released.");
    Outcome::Released
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
    let children = children(instance);
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
