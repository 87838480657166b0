//! Events: what changed and why, for people who look at an instance.

use kube::core::Resource;
use kube::runtime::events::{Event, EventType};
use stowage_api::driver_deployment::{CSIDriverDeployment, DriverCondition};

use super::apply::Applied;
use super::context::Context;
use super::status::SYNC_SUCCESSFUL;
use crate::apply::{Change, Key};

/// Longest text of an event.
const LONGEST: usize = 1000;

/// Tells what a sync changed, and which problems are new.
pub(super) async fn tell(
    context: &Context,
    instance: &CSIDriverDeployment,
    applied: &Applied,
    before: &[DriverCondition],
) {
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
            publish(
                context,
                instance,
                EventType::Normal,
                reason,
                &format!("{verb} {list}"),
            )
            .await;
        }
    }
    if let Some(list) = list(applied.removed.iter()) {
        let note = format!("Deleted, because the instance no longer asks for it: {list}");
        publish(
            context,
            instance,
            EventType::Normal,
            "ObjectsDeleted",
            &note,
        )
        .await;
    }
    let known = before.iter().find(|it| it.type_ == SYNC_SUCCESSFUL);
    let known = known
        .and_then(|it| it.message.as_deref())
        .unwrap_or_default();
    for problem in applied.problems.iter().filter(|it| !it.is_conflict) {
        if !known.contains(&problem.message) {
            publish(
                context,
                instance,
                EventType::Warning,
                "SyncError",
                &problem.message,
            )
            .await;
        }
    }
}

fn list<'a>(keys: impl Iterator<Item = &'a Key>) -> Option<String> {
    let keys: Vec<_> = keys.map(ToString::to_string).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// Publishes one event. An event that gets lost is no reason to fail.
pub(super) async fn publish(
    context: &Context,
    instance: &CSIDriverDeployment,
    type_: EventType,
    reason: &str,
    note: &str,
) {
    let note: String = note.chars().take(LONGEST).collect();
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Sync".to_owned(),
        secondary: None,
    };
    let reference = instance.object_ref(&());
    if let Err(error) = context.recorder.publish(&event, &reference).await {
        tracing::debug!(reason, %error, "An event was not published.");
    }
}
