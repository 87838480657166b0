//! An Event made, or its count raised. Core group, because upstream's roles grant no other.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::series::{Job, Outcome};
use super::{EventType, Note};
use crate::answer::Answer;

/// After this a request is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A rule is missing.
#[derive(Debug, thiserror::Error)]
#[error(
    "Events need `{verb}` on `events` of the core group in all namespaces: add the rule to the ClusterRole of this process ({said})"
)]
pub(super) struct Forbidden {
    verb: &'static str,
    said: String,
}

/// Sends a write. Called twice: the Event is there already, and that is success.
pub(super) async fn send(client: Client, job: &Job) -> Result<Outcome, Forbidden> {
    let api: Api<Event> = Api::namespaced(client, &job.namespace);
    let request = async {
        match &job.create {
            Some(note) => api.create(&PostParams::default(), &event(note, job)).await,
            None => {
                let raise = Patch::Merge(raise(job));
                api.patch(&job.name, &PatchParams::default(), &raise).await
            }
        }
    };
    let error = match timeout(PATIENCE, request).await {
        Ok(Ok(_)) => return Ok(Outcome::Written),
        Ok(Err(error)) => error,
        Err(_) => return Ok(Outcome::Failed),
    };
    tracing::debug!(event = %job.name, namespace = %job.namespace, %error, "An Event was not written.");
    judge(&error, job.create.is_some())
}

/// What an error means for the Event.
fn judge(error: &kube::Error, create: bool) -> Result<Outcome, Forbidden> {
    Ok(match Answer::of(error) {
        Answer::Forbidden(said) => {
            return Err(Forbidden {
                verb: if create { "create" } else { "patch" },
                said: said.to_owned(),
            });
        }
        Answer::Gone if !create => Outcome::Gone,
        Answer::Gone | Answer::Terminating | Answer::Refused(_) => Outcome::Refused,
        // The first answer got lost.
        Answer::Conflict if create => Outcome::Written,
        Answer::Conflict | Answer::NotServed | Answer::Unavailable => Outcome::Failed,
    })
}

fn event(note: &Note, job: &Job) -> Event {
    let event_type = match note.event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    Event {
        metadata: ObjectMeta {
            name: Some(job.name.clone()),
            namespace: Some(job.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: note.object.clone(),
        type_: Some(event_type.to_owned()),
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.clone()),
        source: Some(EventSource {
            component: Some(note.component.to_string()),
            host: None,
        }),
        first_timestamp: Some(Time(note.at)),
        last_timestamp: Some(Time(job.last)),
        count: Some(job.count),
        ..Event::default()
    }
}

fn raise(job: &Job) -> serde_json::Value {
    json!({"count": job.count, "lastTimestamp": Time(job.last)})
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn judged(code: u16, message: &str, create: bool) -> Result<Outcome, Forbidden> {
        let details = serde_json::from_value(json!({"name": "data"})).unwrap();
        let status = Status::failure(message, "").with_code(code);
        let error = kube::Error::Api(Box::new(status.with_details(details)));
        judge(&error, create)
    }

    #[test]
    fn errors_are_told_apart() {
        let outcome = |code, create| judged(code, "", create).unwrap();
        assert_eq!(outcome(409, true), Outcome::Written);
        assert_eq!(outcome(404, true), Outcome::Refused);
        assert_eq!(outcome(404, false), Outcome::Gone);
        assert_eq!(outcome(422, true), Outcome::Refused);
        assert_eq!(outcome(500, true), Outcome::Failed);
        let ending = "namespace shop is being terminated";
        assert_eq!(judged(403, ending, true).unwrap(), Outcome::Refused);
    }

    #[test]
    fn a_missing_rule_is_named() {
        let error = judged(403, "user sidecar cannot", false).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`patch` on `events`") && text.contains("user sidecar"),
            "{text}"
        );
    }
}
