//! The finalizer: what was made for an instance goes with it.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::Resource;
use kube::{Api, Error, ResourceExt};
use serde_json::json;
use stowage_api::driver_deployment::{CSIDriverDeployment, CSIDriverDeploymentStatus, FINALIZER};

use super::context::Context;
use super::problem::{self, Problem};
use super::validate::{ManagementState, owner};
use super::{Next, event, status};
use crate::apply::{FIELD_MANAGER, Key, Objects, Recorded};

/// Adds the finalizer. Before anything is made: cluster-scoped objects would otherwise stay for ever.
pub(super) async fn ensure_finalizer(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let finalizers = instance.finalizers();
    if finalizers.iter().any(|it| it == FINALIZER) {
        return Ok(());
    }
    let with_ours: Vec<_> = finalizers
        .iter()
        .map(String::as_str)
        .chain([FINALIZER])
        .collect();
    set_finalizers(instance, &with_ours, context).await
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
            event::publish(context, instance, event::Kind::Normal, "ObjectsKept", note).await;
        }
        ManagementState::Managed => {
            let problems = remove_all(instance, context).await;
            if !problems.is_empty() {
                return tell(instance, context, &problems).await;
            }
        }
    }
    let rest: Vec<_> = instance
        .finalizers()
        .iter()
        .map(String::as_str)
        .filter(|it| *it != FINALIZER)
        .collect();
    set_finalizers(instance, &rest, context).await?;
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
        if let Err(error) = context.applier.delete(key, object).await {
            problems.push(Problem::of_apply(&error, instance));
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
    let failed = |error| Problem::of_apply(&error, instance);
    let owned = context.applier.owned(&owner(instance)).await;
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
    let mut listed = context.applier.read(unlabelled).await.map_err(failed)?;
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
    let (namespace, name) = (
        instance.namespace().unwrap_or_default(),
        instance.name_any(),
    );
    status::write(&context.client, &namespace, &name, &before, &after).await?;
    Ok(Next::Retry)
}

async fn set_finalizers(
    instance: &CSIDriverDeployment,
    finalizers: &[&str],
    context: &Context,
) -> Result<(), Error> {
    let resource = ApiResource::erase::<CSIDriverDeployment>(&());
    let namespace = instance.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(context.client.clone(), &namespace, &resource);
    // With the version that was looked at: another controller's finalizer must not be lost.
    let patch = Patch::Merge(json!({"metadata": {
        "finalizers": finalizers,
        "resourceVersion": instance.resource_version(),
    }}));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch(&instance.name_any(), &parameters, &patch).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
