//! Events: what changed and why, for people who look at an instance.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DriverCondition};

use super::apply::Applied;
use super::context::Context;
use super::status::SYNC_SUCCESSFUL;
use crate::apply::{Change, Key};

/// Longest text of an event.
const LONGEST: usize = 1000;

/// How bad it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Normal,
    Warning,
}

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
                Kind::Normal,
                reason,
                &format!("{verb} {list}"),
            )
            .await;
        }
    }
    if let Some(list) = list(applied.removed.iter()) {
        let note = format!("Deleted, because the instance no longer asks for it: {list}");
        publish(context, instance, Kind::Normal, "ObjectsDeleted", &note).await;
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
                Kind::Warning,
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
///
/// Not with the client library's recorder, which counts an event with another text as a repetition of the first.
/// Repetitions need no counting here: only news is published.
pub(super) async fn publish(
    context: &Context,
    instance: &CSIDriverDeployment,
    kind: Kind,
    reason: &str,
    note: &str,
) {
    let now = Timestamp::now();
    let namespace = instance.namespace().unwrap_or_default();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", instance.name_any(), now.as_nanosecond())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: instance.object_ref(&()),
        type_: Some(format!("{kind:?}")),
        reason: Some(reason.to_owned()),
        message: Some(note.chars().take(LONGEST).collect()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource {
            component: Some("csi-operator".to_owned()),
            host: None,
        }),
        ..Event::default()
    };
    let api = Api::<Event>::namespaced(context.client.clone(), &namespace);
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        tracing::debug!(reason, %error, "An event was not published.");
    }
}
