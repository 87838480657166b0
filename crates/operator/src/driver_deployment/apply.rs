//! Makes the objects of an instance, and takes away what is no longer wanted.

use kube::ResourceExt;
use kube::api::DynamicObject;
use stowage_api::driver_deployment::{CSIDriverDeployment, Child};
use stowage_kubernetes::answer;

use super::Next;
use super::context::Context;
use super::observe::{self, Workload};
use super::problem::Problem;
use super::status::{Observation, child};
use crate::cluster::usage;
use crate::driver::valid::UpdatePolicy;
use crate::driver::{Kind, Object, ValidDriver};
use crate::writer::{Change, Key, Objects, Recorded, WriteError};

/// What a sync did.
#[derive(Default)]
pub(super) struct Applied {
    /// The objects of the instance as they are now.
    pub(super) objects: Objects,
    /// What was changed.
    pub(super) changes: Vec<(Key, Change)>,
    /// What was taken away.
    pub(super) removed: Vec<Key>,
    /// What went wrong.
    pub(super) problems: Vec<Problem>,
    /// Whether objects were written at all.
    pub(super) is_complete: bool,
}

impl Applied {
    /// What comes after this: a retry where time may heal a problem.
    pub(super) fn next(&self) -> Next {
        let is_over = self
            .problems
            .iter()
            .all(|problem| !problem.is_worth_a_retry());
        if is_over { Next::Rest } else { Next::Retry }
    }

    /// The entries of `status.children`: the DaemonSet first, then the Deployment, as in 2018, then the rest.
    pub(super) fn children(&self) -> Vec<Child> {
        let place = |key: &Key| match key.kind {
            Kind::DaemonSet => 0,
            Kind::Deployment => 1,
            _ => 2,
        };
        let mut keys: Vec<_> = self.objects.keys().collect();
        keys.sort_by_key(|key| (place(key), (*key).clone()));
        keys.into_iter()
            .map(|key| child(key, &self.objects[key]))
            .collect()
    }
}

/// Writes what differs. A failure of one object does not keep the others from being written, except that nothing is
/// written at all while the server would refuse the pods.
pub(super) async fn apply(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    wanted: &[Object],
    live: Objects,
    context: &Context,
) -> Applied {
    let mut applied = Applied {
        objects: live,
        ..Applied::default()
    };
    for object in wanted.iter().filter(|it| is_rehearsed(it.kind)) {
        let there = applied.objects.get(&Key::of_wanted(object));
        if let Err(error) = context.writer.rehearse(object, there).await {
            applied.problems.push(Problem::of_write(&error, instance));
        }
    }
    if !applied.problems.is_empty() {
        return applied;
    }
    applied.is_complete = true;
    let children = instance
        .status
        .as_ref()
        .and_then(|status| status.children.as_deref());
    let recorded = Recorded::of(children.unwrap_or_default());
    for object in wanted {
        let key = Key::of_wanted(object);
        match write(
            driver,
            object,
            applied.objects.get(&key),
            &recorded,
            context,
        )
        .await
        {
            Ok((stored, change)) => {
                if change != Change::None {
                    tracing::info!(object = %key, ?change, instance = super::status::title(instance), "An object was written.");
                    applied.changes.push((key.clone(), change));
                }
                applied.objects.insert(key, stored);
            }
            Err(Failure::Apply(error)) => {
                applied.problems.push(Problem::of_write(&error, instance));
            }
            Err(Failure::Immutable(error, remedy)) => {
                applied.problems.push(Problem::immutable(&error, &remedy));
            }
        }
    }
    prune(instance, wanted, &mut applied, context).await;
    applied
}

/// Kinds whose content people write, and whose refusal must be known before anything else is made.
fn is_rehearsed(kind: Kind) -> bool {
    matches!(kind, Kind::DaemonSet | Kind::Deployment)
}

enum Failure {
    Apply(WriteError),
    Immutable(WriteError, String),
}

async fn write(
    driver: &ValidDriver,
    wanted: &Object,
    live: Option<&DynamicObject>,
    recorded: &Recorded,
    context: &Context,
) -> Result<(DynamicObject, Change), Failure> {
    let written = context.writer.write(wanted, live, recorded).await;
    let error = match (written, live) {
        (Err(error @ WriteError::Immutable { .. }), Some(live)) => {
            match may_recreate(driver, wanted, context).await {
                Ok(()) => {
                    return context
                        .writer
                        .recreate(wanted, live)
                        .await
                        .map_err(Failure::Apply);
                }
                Err(remedy) => return Err(Failure::Immutable(error, remedy)),
            }
        }
        (Err(error), _) => error,
        (Ok(written), _) => return Ok(written),
    };
    Err(Failure::Apply(error))
}

/// Whether an object may be deleted and made again, or what has to happen first.
async fn may_recreate(
    driver: &ValidDriver,
    wanted: &Object,
    context: &Context,
) -> Result<(), String> {
    let policy = match wanted.kind {
        Kind::StorageClass | Kind::VolumeSnapshotClass | Kind::CsiDriver => {
            driver.update_policy(wanted.kind, &wanted.name)
        }
        // Nobody refers to a binding.
        _ => UpdatePolicy::Recreate,
    };
    if policy != UpdatePolicy::Recreate {
        return Err(
            "Set its `updatePolicy: Recreate` to have it deleted and made again, or take the change back".to_owned(),
        );
    }
    if wanted.kind != Kind::CsiDriver {
        return Ok(());
    }
    match usage::holders(&context.client, &driver.driver_name).await {
        Ok(holders) if holders.is_empty() => Ok(()),
        Ok(holders) => Err(format!(
            "It is made again as soon as nothing uses the driver any more: {}",
            holders.join(", ")
        )),
        Err(error) => Err(format!(
            "Whether somebody uses the driver could not be found out: {}",
            answer::chain(&error)
        )),
    }
}

/// Deletes what carries our labels and is no longer wanted.
async fn prune(
    instance: &CSIDriverDeployment,
    wanted: &[Object],
    applied: &mut Applied,
    context: &Context,
) {
    let wanted: Vec<_> = wanted.iter().map(Key::of_wanted).collect();
    let orphans: Vec<_> = applied
        .objects
        .keys()
        .filter(|key| !wanted.contains(key))
        .cloned()
        .collect();
    for key in orphans.into_iter().rev() {
        let Some(object) = applied.objects.get(&key) else {
            continue;
        };
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match context.writer.delete(&key, object).await {
            Ok(()) => {
                tracing::info!(object = %key, instance = super::status::title(instance), "An object was deleted.");
                applied.objects.remove(&key);
                applied.removed.push(key);
            }
            Err(error) => applied.problems.push(Problem::of_write(&error, instance)),
        }
    }
}

/// Looks at the workloads, and where they are not well at their pods.
pub(super) async fn observe(
    instance: &CSIDriverDeployment,
    applied: &Applied,
    context: &Context,
) -> Result<Observation, kube::Error> {
    let of_kind = |kind| {
        applied
            .objects
            .iter()
            .filter(move |(key, _)| key.kind == kind)
            .map(|(_, it)| it)
    };
    let mut observation = Observation {
        daemon_sets: of_kind(Kind::DaemonSet)
            .map(Workload::of_daemon_set)
            .collect(),
        deployment: of_kind(Kind::Deployment)
            .map(Workload::of_deployment)
            .next(),
        registered: i64::try_from(context.cluster.registrations_of(&instance.spec.driver_name))
            .unwrap_or(i64::MAX),
        trouble: None,
        waits_for_deletion: of_kind(Kind::DaemonSet)
            .any(|it| it.data["spec"]["updateStrategy"]["type"] == "OnDelete"),
    };
    if observation.has_gaps() {
        let namespace = instance.namespace().unwrap_or_default();
        let deployment = observation.deployment.as_ref();
        let found = observe::trouble(
            &context.client,
            &namespace,
            &observation.daemon_sets,
            deployment,
        )
        .await?;
        observation.trouble = found;
        for (workload, object) in observation
            .daemon_sets
            .iter_mut()
            .zip(of_kind(Kind::DaemonSet))
        {
            // One that may not make any pod never gets as far as counting them.
            let is_short = workload.missing() > 0 || workload.is_without_pods();
            if is_short && observation.trouble.is_none() {
                workload.failure = observe::refused_pods(&context.client, object).await?;
            }
        }
    }
    Ok(observation)
}
