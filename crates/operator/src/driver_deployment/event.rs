//! Events: what changed and why, for people who look at an instance.

use kube::Resource;
use stowage_api::driver_deployment::{CSIDriverDeployment, DriverCondition};

use super::apply::Applied;
use super::context::Context;
use super::status::SYNC_SUCCESSFUL;
use crate::writer::{Change, Key};

/// Who publishes events.
pub const COMPONENT: &str = "csi-operator";

/// Tells what a sync changed, and which problems are new.
pub(super) fn tell(
    context: &Context,
    instance: &CSIDriverDeployment,
    applied: &Applied,
    before: &[DriverCondition],
) {
    let normal = |reason, message: String| {
        context
            .events
            .normal(instance.object_ref(&()), reason, message);
    };
    for (change, reason, verb) in [
        (Change::Created, "ObjectsCreated", "Created"),
        (Change::Updated, "ObjectsUpdated", "Updated"),
        (
            Change::Reverted,
            "DriftReverted",
            "Somebody had changed, and it is as described again:",
        ),
        (
            Change::Recreated,
            "ObjectsRecreated",
            "Deleted and made again, because a field cannot change in place:",
        ),
    ] {
        let keys = applied
            .changes
            .iter()
            .filter(|(_, it)| *it == change)
            .map(|(key, _)| key);
        if let Some(list) = list(keys) {
            normal(reason, format!("{verb} {list}"));
        }
    }
    if let Some(list) = list(applied.removed.iter()) {
        let note = format!("Deleted, because the instance no longer asks for it: {list}");
        normal("ObjectsDeleted", note);
    }
    let known = before.iter().find(|it| it.type_ == SYNC_SUCCESSFUL);
    let known = known
        .and_then(|it| it.message.as_deref())
        .unwrap_or_default();
    for problem in applied.problems.iter().filter(|it| !it.is_conflict) {
        if !known.contains(&problem.message) {
            let object = instance.object_ref(&());
            context
                .events
                .warning(object, "SyncError", &problem.message);
        }
    }
}

fn list<'a>(keys: impl Iterator<Item = &'a Key>) -> Option<String> {
    let keys: Vec<_> = keys.map(ToString::to_string).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}
