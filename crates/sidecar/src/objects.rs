//! Reads and patches of single claims and volumes, and what the API server's answers mean.
//!
//! Upstream's resizer may `get` both, `patch` volumes and `patch` the status of claims: nothing else is used.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::events;

use crate::cluster::wire::{WireClaim, WireVolume};

const CLAIMS: &str = "persistentvolumeclaims";
const CLAIM_STATUS: &str = "persistentvolumeclaims/status";
const VOLUMES: &str = "persistentvolumes";

/// Why something was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    /// It is gone, or there is another one under its name.
    #[error("it is gone")]
    Gone,
    #[error("somebody else changed it at the same time")]
    Conflict,
    #[error("the API server refuses a change of {0}: {1}")]
    Refused(&'static str, String),
    #[error(
        "the service account may not {verb} {kind}: add `{verb}` on `{kind}` to its ClusterRole"
    )]
    Forbidden {
        verb: &'static str,
        kind: &'static str,
    },
    #[error("the API server: {0}")]
    Failed(#[source] Box<kube::Error>),
}

/// Reads and writes claims and volumes.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Client,
}

impl Objects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The claim as it is now.
    pub(crate) async fn claim(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<WireClaim, ObjectError> {
        let found = self.claims(namespace).get(name).await;
        let claim = found.map_err(|error| explain("get", CLAIMS, error))?;
        if claim.metadata.uid.as_deref() == Some(uid) {
            Ok(claim)
        } else {
            Err(ObjectError::Gone)
        }
    }

    /// Patches the status of a claim, its conditions by their types; returns what became of it.
    pub(crate) async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<WireClaim, ObjectError> {
        let claims = self.claims(namespace);
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let done = claims.patch_status(name, &params, &patch).await;
        done.map_err(|error| explain("patch", CLAIM_STATUS, error))
    }

    /// Patches a volume's object.
    pub(crate) async fn patch_volume(&self, name: &str, patch: &Value) -> Result<(), ObjectError> {
        let volumes = Api::<WireVolume>::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let done = volumes.patch(name, &params, &patch).await;
        done.map_err(|error| explain("patch", VOLUMES, error))?;
        Ok(())
    }

    fn claims(&self, namespace: &str) -> Api<WireClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// A condition of a claim that is true from now on, for a strategic patch.
pub(crate) fn condition(kind: &str, reason: Option<&str>, message: Option<&str>) -> Value {
    let mut condition = json!({
        "type": kind,
        "status": "True",
        "lastTransitionTime": Time(Timestamp::now()),
    });
    if let Some(reason) = reason {
        condition["reason"] = json!(reason);
    }
    if let Some(message) = message {
        let mut message = message.to_owned();
        events::cut(&mut message, events::LONGEST_MESSAGE);
        condition["message"] = json!(message);
    }
    condition
}

/// The end of a condition, for a strategic patch.
pub(crate) fn no_condition(kind: &str) -> Value {
    json!({ "$patch": "delete", "type": kind })
}

fn explain(verb: &'static str, kind: &'static str, error: kube::Error) -> ObjectError {
    match Answer::of(&error) {
        Answer::Gone => ObjectError::Gone,
        Answer::Conflict => ObjectError::Conflict,
        Answer::Forbidden(_) => ObjectError::Forbidden { verb, kind },
        Answer::Refused(said) => ObjectError::Refused(kind, said.to_owned()),
        _ => ObjectError::Failed(Box::new(error)),
    }
}
