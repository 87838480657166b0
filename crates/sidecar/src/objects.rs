//! Reads and patches of single claims and volumes.
//!
//! Upstream's resizer may `get` both, `patch` volumes and `patch` the status of claims: nothing else is used.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_kubernetes::events;
use stowage_kubernetes::object_error::{ObjectError, explain};

use crate::cluster::wire::{WireClaim, WireVolume};

const CLAIMS: &str = "persistentvolumeclaims";
const CLAIM_STATUS: &str = "persistentvolumeclaims/status";
const VOLUMES: &str = "persistentvolumes";

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
        let claim = found.map_err(explain("get", CLAIMS))?;
        if claim.metadata.uid.as_deref() == Some(uid) {
            Ok(claim)
        } else {
            Err(ObjectError::Gone(CLAIMS.into()))
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
        done.map_err(explain("patch", CLAIM_STATUS))
    }

    /// Patches a volume's object.
    pub(crate) async fn patch_volume(&self, name: &str, patch: &Value) -> Result<(), ObjectError> {
        let volumes = Api::<WireVolume>::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let done = volumes.patch(name, &params, &patch).await;
        done.map_err(explain("patch", VOLUMES))?;
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
