//! Makes the objects of an instance, and takes away what is no longer wanted.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::DynamicObject;
use stowage_api::driver_deployment::{CSIDriverDeployment, Child};
use stowage_kubernetes::answer;

use super::condition::Reason;
use super::context::Context;
use super::fetch::children;
use super::problem::{Problem, title};
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
    context.remember_objects(&instance.uid().unwrap_or_default(), &applied);
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
    for object in wanted.iter().filter(|it| needs_dry_run(it.kind)) {
        let there = applied.objects.get(&Key::of_wanted(object));
        if let Err(error) = context.writer.dry_run(object, there).await {
            applied.problems.push(Problem::of_write(&error, instance));
        }
    }
    if !applied.problems.is_empty() {
        return;
    }
    applied.is_complete = true;
    let recorded = Recorded::of(children(instance));
    let mut foreign = BTreeSet::new();
    for object in wanted {
        let key = Key::of_wanted(object);
        // Somebody else's account gets no rights through us, and runs no pods of ours.
        if !foreign.is_disjoint(&object.accounts()) {
            continue;
        }
        let live = applied.objects.get(&key);
        let written = write_or_recreate(instance, driver, object, live, &recorded, context);
        match written.await {
            Ok((stored, change)) => {
                if change != Change::None {
                    tracing::info!(object = %key, ?change, instance = title(instance), "An object was written.");
                    applied.changes.push((key.clone(), change));
                }
                applied.objects.insert(key, stored);
            }
            Err(problem) => {
                if object.kind == Kind::ServiceAccount && problem.reason == Reason::Collision {
                    foreign.insert(object.name.as_str());
                }
                applied.problems.push(problem);
            }
        }
    }
    let kept = wanted.iter().filter(|it| {
        // Pods that run go on, with what an account that was ours once has left them.
        !it.kind.is_binding() || foreign.is_disjoint(&it.accounts())
    });
    prune(
        instance,
        kept.map(Key::of_wanted).collect(),
        applied,
        context,
    )
    .await;
}

/// Kinds whose content people write, and whose refusal must be known before anything else is made.
fn needs_dry_run(kind: Kind) -> bool {
    matches!(kind, Kind::DaemonSet | Kind::Deployment)
}

async fn write_or_recreate(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    wanted: &Object,
    live: Option<&DynamicObject>,
    recorded: &Recorded,
    context: &Context,
) -> Result<(DynamicObject, Change), Problem> {
    let failed = |error: WriteError| Problem::of_write(&error, instance);
    let written = context.writer.write(wanted, live, recorded).await;
    let (Err(error @ WriteError::Immutable { .. }), Some(live)) = (&written, live) else {
        return written.map_err(failed);
    };
    if let Err(blocked) = may_recreate(driver, wanted, context).await {
        return Err(Problem::immutable(error, &blocked));
    }
    let recreated = context.writer.recreate(wanted, live).await;
    recreated.map_err(failed)
}

/// Why an object may not be deleted and created again.
pub(super) struct Blocked {
    /// What has to happen first.
    pub(super) remedy: String,
    /// Whether that may happen without a change of the instance.
    pub(super) may_pass: bool,
}

/// Whether an object may be deleted and created again, or what has to happen first.
async fn may_recreate(
    driver: &ValidDriver,
    wanted: &Object,
    context: &Context,
) -> Result<(), Blocked> {
    let blocked = |remedy: String, may_pass| Err(Blocked { remedy, may_pass });
    let policy = match wanted.kind {
        Kind::StorageClass | Kind::VolumeSnapshotClass | Kind::CsiDriver => {
            driver.update_policy(wanted.kind, &wanted.name)
        }
        // Nobody refers to a binding.
        _ => UpdatePolicy::Recreate,
    };
    if policy != UpdatePolicy::Recreate {
        let remedy = "Set its `updatePolicy: Recreate` to have it deleted and created again, or revert the change";
        return blocked(remedy.to_owned(), false);
    }
    if wanted.kind != Kind::CsiDriver {
        return Ok(());
    }
    match usage::of(&context.client, &driver.driver_name).await {
        Ok(usage) if !usage.is_at_work() => Ok(()),
        Ok(usage) => {
            let when = "It is deleted and created again as soon as nothing uses the driver";
            blocked(format!("{when}; in use by {usage}"), true)
        }
        Err(error) => {
            let told = answer::chain(&error);
            let unknown = "It cannot be determined whether the driver is in use";
            blocked(format!("{unknown}: {told}"), true)
        }
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
            Err(error) => applied.problems.push(Problem::of_write(&error, instance)),
        }
    }
}
