//! Events: what changed and why, for people who look at an instance.

use kube::Resource;
use stowage_api::driver_deployment::CSIDriverDeployment;

use super::apply::Applied;
use super::condition::SYNC_SUCCESSFUL;
use super::context::Context;
use super::outcome::Outcome;
use crate::writer::{Change, Key};

/// Who publishes events.
pub const COMPONENT: &str = "csi-operator";

/// Publishes what a reconcile changed, and which problems are new.
pub(super) fn publish(instance: &CSIDriverDeployment, outcome: &Outcome, context: &Context) {
    let object = || instance.object_ref(&());
    if let Outcome::Synced(synced) = outcome {
        for (reason, message) in changes(&synced.applied) {
            context.events.normal(object(), reason, message);
        }
        for news in &synced.drained.news {
            let events = &context.events;
            if news.is_trouble {
                events.warning(object(), news.reason, &news.message);
            } else {
                events.normal(object(), news.reason, &news.message);
            }
        }
    }
    let status = instance.status.as_ref();
    let mut conditions = status.iter().flat_map(|it| &it.conditions).flatten();
    let known = conditions.find(|it| it.type_ == SYNC_SUCCESSFUL);
    let known = known.and_then(|it| it.message.as_deref());
    for problem in outcome.problems().iter().filter(|it| !it.is_conflict) {
        if !known.is_some_and(|known| known.contains(&problem.message)) {
            context
                .events
                .warning(object(), "SyncError", &problem.message);
        }
    }
}

/// Reasons and texts of what was changed.
fn changes(applied: &Applied) -> Vec<(&'static str, String)> {
    let keys_of = |change: Change| {
        let keys = applied.changes.iter().filter(move |(_, it)| *it == change);
        list(keys.map(|(key, _)| key))
    };
    let changes = [
        ("ObjectsCreated", "Created", keys_of(Change::Created)),
        ("ObjectsUpdated", "Updated", keys_of(Change::Updated)),
        (
            "DriftReverted",
            "Restored after a change by somebody else:",
            keys_of(Change::Reverted),
        ),
        (
            "ObjectsAdopted",
            "Taken over, because somebody handed it over:",
            keys_of(Change::Adopted),
        ),
        (
            "ObjectsRecreated",
            "Deleted and created again, because an immutable field changed:",
            keys_of(Change::Recreated),
        ),
        (
            "ObjectsDeleted",
            "Deleted, because the instance no longer describes it:",
            list(applied.removed.iter()),
        ),
    ];
    let told = changes
        .into_iter()
        .filter_map(|(reason, verb, list)| Some((reason, format!("{verb} {}", list?))));
    told.collect()
}

fn list<'a>(keys: impl Iterator<Item = &'a Key>) -> Option<String> {
    let keys: Vec<_> = keys.map(ToString::to_string).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}
