//! Parameters of a class that mean nothing here. They do no harm, but one that is misspelled would never be noticed, so
//! the claim gets a warning.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Resource};
use stowage_csi::proto::csi::CreateVolumeRequest;

use crate::driver::Driver;
use crate::driver::node::annotations::{CLAIM_NAME, CLAIM_NAMESPACE};
use crate::parameters::unknown;

const REASON: &str = "UnknownParameter";

/// Warns of parameters that nobody knows: in the log and, where the claim is named, as an Event of it.
///
/// Called twice: the Event counts two.
pub(super) fn warn(driver: &Arc<Driver>, request: &CreateVolumeRequest) {
    let names = unknown(&request.parameters);
    if names.is_empty() {
        return;
    }
    let names = names.join("`, `");
    let message = format!(
        "the class has parameters that the driver does not know: `{names}`; they have no effect, correct or remove them"
    );
    tracing::warn!(volume = request.name, "{message}");
    let place = |key| request.parameters.get(key).cloned();
    let (Some(name), Some(namespace)) = (place(CLAIM_NAME), place(CLAIM_NAMESPACE)) else {
        return;
    };
    let (Some(events), Some(client)) = (driver.events.clone(), driver.kube.clone()) else {
        return;
    };
    let stop = driver.stop.clone();
    driver.tasks.spawn(async move {
        let claims = Api::<PersistentVolumeClaim>::namespaced(client, &namespace);
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = claims.get_opt(&name) => found,
        };
        match found {
            Ok(Some(claim)) => events.warning(claim.object_ref(&()), REASON, message),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "Cannot read a claim to warn about its class."),
        }
    });
}
