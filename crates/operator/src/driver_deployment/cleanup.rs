//! The finalizer: what was made for an instance goes with it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, FINALIZER, UNINSTALLING_ANNOTATION};
use stowage_kubernetes::answer;
use stowage_kubernetes::finalizer::{self, Seen};

use super::context::Context;
use super::fetch::{children, driver_of, has_finalizer};
use super::outcome::Outcome;
use super::problem::{self, Problem, title};
use super::used::used;
use super::validate::{
    ManagementState, UninstallPolicy, management_state, owner, uninstall_policy,
};
use super::{drain, pods, restart, startup};
use crate::driver::Kind;
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
    if !has_finalizer(instance) {
        return Outcome::Released;
    }
    context.rollouts.end(&instance.uid().unwrap_or_default());
    if let Err(error) = drain::release(instance, context).await {
        return Outcome::Held(vec![Problem::may_not_drain(&error)]);
    }
    match management_state(&instance.spec) {
        ManagementState::Unmanaged => {
            let message = "The instance is unmanaged: its objects are kept, and no longer managed.";
            let object = instance.object_ref(&());
            context.events.normal(object, "ObjectsKept", message);
            let (client, driver) = (&context.client, driver_of(instance));
            context.cluster.follow_taint(client, driver, None);
        }
        ManagementState::Managed => {
            if let Err(problems) = remove(instance, context).await {
                return Outcome::Held(problems);
            }
        }
    }
    let api = context.stored_instances(instance.namespace());
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    if let Err(error) = finalizer::remove(&api, seen(instance, &name, &uid), FINALIZER).await {
        return Outcome::Failed(error);
    }
    restart::follow_nothing(driver_of(instance), context);
    tracing::info!(instance = title(instance), "An instance was released.");
    Outcome::Released
}

/// When an object goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What invites people to use the driver.
    Classes,
    /// What makes it run.
    Workloads,
    /// What its pods need to the last: a `CreateVolume` that is under way is finished, or recorded.
    Rights,
}

fn stage(kind: Kind) -> Stage {
    match kind {
        Kind::StorageClass
        | Kind::VolumeSnapshotClass
        | Kind::VolumeGroupSnapshotClass
        | Kind::VolumeAttributesClass => Stage::Classes,
        Kind::PodDisruptionBudget
        | Kind::Service
        | Kind::ServiceMonitor
        | Kind::DaemonSet
        | Kind::Deployment
        | Kind::Pod
        | Kind::WekaContainer => Stage::Workloads,
        Kind::ServiceAccount
        | Kind::ClusterRole
        | Kind::ClusterRoleBinding
        | Kind::Role
        | Kind::RoleBinding
        | Kind::CsiDriver => Stage::Rights,
    }
}

/// Takes everything away in an order in which nobody loses what they still need, or says what it waits for.
async fn remove(instance: &CSIDriverDeployment, context: &Context) -> Result<(), Vec<Problem>> {
    let objects = everything(instance, context).await?;
    delete(Stage::Classes, &objects, instance, context).await?;
    mark(&objects, instance, context).await?;
    let admitted = startup::keep_admitting(instance, context).await;
    admitted.map_err(|error| vec![Problem::may_not_untaint(&error)])?;
    if runs(&objects) {
        until_unused(instance, context).await?;
    }
    delete(Stage::Workloads, &objects, instance, context).await?;
    until_no_pods(instance, context).await?;
    let admitted = startup::release(instance, context).await;
    admitted.map_err(|error| vec![Problem::may_not_untaint(&error)])?;
    delete(Stage::Rights, &objects, instance, context).await?;
    let left = everything(instance, context).await?;
    nothing_or(left.keys().map(problem::lingering).collect())?;
    tell_what_is_left(instance, context).await;
    Ok(())
}

/// Whether the driver still has workloads that could unmount, detach and delete anything.
fn runs(objects: &Objects) -> bool {
    let is_one = |kind| matches!(kind, Kind::DaemonSet | Kind::Deployment);
    let mut workloads = objects.iter().filter(|(key, _)| is_one(key.kind));
    workloads.any(|(_, object)| object.metadata.deletion_timestamp.is_none())
}

fn nothing_or(problems: Vec<Problem>) -> Result<(), Vec<Problem>> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

async fn delete(
    at: Stage,
    objects: &Objects,
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    for (key, object) in objects.iter().rev() {
        if stage(key.kind) == at
            && let Err(error) = context.writer.delete(key, object).await
        {
            problems.push(Problem::of_write(&error, instance, &context.namespace));
        }
    }
    nothing_or(problems)
}

/// Classes of others may still name the driver: its sidecars refuse their claims. Called twice: it is marked once.
async fn mark(
    objects: &Objects,
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Vec<Problem>> {
    for (key, object) in objects
        .iter()
        .filter(|(key, _)| key.kind == Kind::CsiDriver)
    {
        let marked = context
            .writer
            .annotate(key, object, UNINSTALLING_ANNOTATION);
        let failed = |error| vec![Problem::of_write(&error, instance, &context.namespace)];
        marked.await.map_err(failed)?;
    }
    Ok(())
}

/// Volumes must be unmounted, detached and deleted by the driver: it stays while there are any.
async fn until_unused(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Vec<Problem>> {
    let driver = driver_of(instance);
    if uninstall_policy(&instance.spec) == UninstallPolicy::Force {
        return Ok(());
    }
    let unknown = |error| vec![Problem::unknown_use(driver, &error)];
    let usage = used(instance, driver, context).await.map_err(unknown)?;
    if usage.is_none() {
        context.cluster.forget(driver);
        return Ok(());
    }
    let namespace = instance.namespace().unwrap_or_default();
    if context.cluster.has_namespace(&namespace) {
        context.cluster.await_unused(driver);
        return Err(vec![Problem::in_use(driver, &usage)]);
    }
    // Its pods go with the namespace whatever we do, and the namespace would wait for us for ever.
    let message = format!(
        "CSI driver {driver} goes with its namespace although it is in use: {usage}; deploy it again to use them"
    );
    tracing::warn!(instance = title(instance), "{message}");
    context.events.warning(
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some(namespace),
            ..ObjectReference::default()
        },
        "DriverInUse",
        &message,
    );
    Ok(())
}

/// What was made by a call that was under way when the workloads went. Nobody is left to wait for: it only has to be known.
async fn tell_what_is_left(instance: &CSIDriverDeployment, context: &Context) {
    let driver = driver_of(instance);
    context.cluster.forget(driver);
    let namespace = instance.namespace().unwrap_or_default();
    let is_forced = uninstall_policy(&instance.spec) == UninstallPolicy::Force;
    if is_forced || !context.cluster.has_namespace(&namespace) {
        return;
    }
    match used(instance, driver, context).await {
        Ok(usage) if !usage.is_none() => {
            let message = format!(
                "CSI driver {driver} is removed, and this is left of it: {usage}; deploy it again to use or delete them"
            );
            tracing::warn!(instance = title(instance), "{message}");
            let object = instance.object_ref(&());
            context.events.warning(object, "DriverInUse", &message);
        }
        Ok(_) => {}
        Err(error) => {
            let error = answer::chain(&error);
            tracing::warn!(
                instance = title(instance),
                error,
                "It is not known what is left of a driver."
            );
        }
    }
}

async fn until_no_pods(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Vec<Problem>> {
    let (namespace, name) = (
        instance.namespace().unwrap_or_default(),
        instance.name_any(),
    );
    let pods = pods::of_instance(&context.client, &namespace, &name).await;
    let pods = pods.map_err(|error| vec![Problem::unseen(&error)])?;
    nothing_or(pods.iter().map(problem::pod_left).collect())
}

/// What carries the instance's uid, and what its status lists and somebody took our labels from.
async fn everything(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<Objects, Vec<Problem>> {
    let failed = |error| vec![Problem::of_write(&error, instance, &context.namespace)];
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
