//! Makes the objects of an instance, and takes away what is no longer wanted.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::DynamicObject;
use stowage_api::driver_deployment::{CSIDriverDeployment, Child};

use super::condition::Reason;
use super::context::Context;
use super::fetch::children;
use super::problem::{Problem, title};
use super::recreate::{Blocked, may_recreate};
use crate::driver::{Kind, Object, ValidDriver};
use crate::writer::{Change, Key, Objects, Recorded, Skipped, WriteError};

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
    /// Whether all workloads are as described.
    pub(super) has_workloads: bool,
}

impl Applied {
    /// Nothing was written, because of these problems.
    pub(super) fn nothing(objects: Objects, problems: Vec<Problem>) -> Self {
        Self {
            objects,
            problems,
            ..Self::default()
        }
    }

    /// The objects of one kind.
    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &DynamicObject> {
        let of_kind = self.objects.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.map(|(_, object)| object)
    }

    /// Whether all that went wrong is that somebody else wrote at the same time.
    pub(super) fn is_outpaced(&self) -> bool {
        !self.problems.is_empty() && self.problems.iter().all(|it| it.is_conflict)
    }

    /// Whether pods of other drivers are replaced first.
    pub(super) fn waits_for_turn(&self) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|it| it.reason == Reason::WaitingForTurn)
    }

    /// Whether something was handed over: more may be, that nobody knew of.
    pub(super) fn has_adopted(&self) -> bool {
        self.changes.iter().any(|(_, it)| *it == Change::Adopted)
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

/// The entry of an object in `status.children`.
fn child(key: &Key, object: &DynamicObject) -> Child {
    Child {
        group: key.kind.group().to_owned(),
        resource: key.kind.name().to_owned(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        last_generation: object.metadata.generation.unwrap_or_default(),
        uid: object.metadata.uid.clone(),
    }
}

/// Writes what differs, and remembers what there is. Called twice: the second time sends nothing.
pub(super) async fn apply(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    wanted: &[Object],
    live: Objects,
    context: &Context,
) -> Applied {
    let mut applied = Applied::nothing(live, Vec::new());
    write_all(instance, driver, wanted, &mut applied, context).await;
    // What could be done is done, but what others change is no longer seen.
    let unseen = Problem::missing_rights(&context.rights);
    applied.problems.extend(unseen);
    context.remember_objects(&instance.uid().unwrap_or_default(), wanted, &applied);
    applied
}

/// A failure of one object does not keep the others from being written, except that nothing is written at all while
/// the server would refuse the pods.
async fn write_all(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    wanted: &[Object],
    applied: &mut Applied,
    context: &Context,
) {
    let replaces_pods = dry_run(instance, driver, wanted, applied, context).await;
    if !applied.problems.is_empty() {
        return;
    }
    applied.is_complete = true;
    applied.has_workloads = true;
    let waits = replaces_pods && must_wait(instance, applied, context);
    let mut skipped = Skipped::default();
    let recorded = Recorded::of(children(instance));
    for object in wanted {
        // Its pods wait for those of other drivers.
        if skipped.has(object) || (waits && needs_dry_run(object.kind)) {
            applied.has_workloads &= !needs_dry_run(object.kind);
            continue;
        }
        let key = Key::of_wanted(object);
        let live = applied.objects.get(&key);
        let written = write_or_recreate(driver, object, live, &recorded, context);
        match written.await {
            Ok((stored, change)) => {
                if change != Change::None {
                    tracing::info!(object = %key, ?change, instance = title(instance), "An object was written.");
                    applied.changes.push((key.clone(), change));
                }
                applied.objects.insert(key, stored);
            }
            Err(failure) => {
                skipped.after(object, &failure.error);
                applied.has_workloads &= !needs_dry_run(object.kind);
                applied
                    .problems
                    .push(failure.told(instance, &context.namespace));
            }
        }
    }
    let kept = wanted.iter().filter(|it| skipped.keeps(it));
    let kept = kept.map(Key::of_wanted).collect();
    prune(instance, kept, applied, context).await;
}

/// Asks the server whether it would take the workloads: whether that would replace pods that run.
async fn dry_run(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    wanted: &[Object],
    applied: &mut Applied,
    context: &Context,
) -> bool {
    let mut replaces_pods = false;
    for object in wanted.iter().filter(|it| needs_dry_run(it.kind)) {
        let there = applied.objects.get(&Key::of_wanted(object));
        match context.writer.dry_run(object, there).await {
            Ok(is_new) => {
                let strategy = &object.body["spec"]["updateStrategy"]["type"];
                let waits_for_people = strategy == "OnDelete" && driver.drain.is_none();
                replaces_pods |= is_new && !waits_for_people;
            }
            Err(error) => {
                applied
                    .problems
                    .push(Problem::of_write(&error, instance, &context.namespace));
            }
        }
    }
    replaces_pods
}

/// Whether the pods of other drivers are to be replaced first: only for what nobody has changed in the instance.
fn must_wait(instance: &CSIDriverDeployment, applied: &mut Applied, context: &Context) -> bool {
    let status = instance.status.as_ref();
    // Also where something else is wrong all the time.
    let written = status.and_then(|it| it.observed_generation.max(it.workloads_generation));
    if written.is_none() || written != instance.metadata.generation {
        return false;
    }
    let others = context.instances.state();
    let others = others.iter().filter_map(|it| it.0.as_ref().ok());
    match context.rollouts.begin(instance, others) {
        Ok(()) => false,
        Err(busy) => {
            applied.problems.push(Problem::not_its_turn(&busy));
            true
        }
    }
}

/// Kinds whose content people write, and whose refusal must be known before anything else is made.
fn needs_dry_run(kind: Kind) -> bool {
    matches!(kind, Kind::DaemonSet | Kind::Deployment)
}

/// Why an object could not be written.
struct Failure {
    error: WriteError,
    /// What has to happen before it can be created again.
    blocked: Option<Blocked>,
}

impl Failure {
    /// `operator`: its own namespace.
    fn told(&self, instance: &CSIDriverDeployment, operator: &str) -> Problem {
        match &self.blocked {
            Some(blocked) => Problem::immutable(&self.error, blocked),
            None => Problem::of_write(&self.error, instance, operator),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let blocked = None;
        Self { error, blocked }
    }
}

async fn write_or_recreate(
    driver: &ValidDriver,
    wanted: &Object,
    live: Option<&DynamicObject>,
    recorded: &Recorded,
    context: &Context,
) -> Result<(DynamicObject, Change), Failure> {
    let written = context.writer.write(wanted, live, recorded).await;
    match (written, live) {
        (Err(error @ WriteError::Immutable { .. }), Some(live)) => {
            if let Err(blocked) = may_recreate(driver, wanted, live, context).await {
                let blocked = Some(blocked);
                return Err(Failure { error, blocked });
            }
            Ok(context.writer.recreate(wanted, live).await?)
        }
        (written, _) => Ok(written?),
    }
}

/// Deletes what carries our labels and is no longer wanted.
async fn prune(
    instance: &CSIDriverDeployment,
    wanted: BTreeSet<Key>,
    applied: &mut Applied,
    context: &Context,
) {
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
                tracing::info!(object = %key, instance = title(instance), "An object was deleted.");
                applied.objects.remove(&key);
                applied.removed.push(key);
            }
            Err(error) => {
                applied
                    .problems
                    .push(Problem::of_write(&error, instance, &context.namespace));
            }
        }
    }
}
