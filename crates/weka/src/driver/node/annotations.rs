//! Mount options that a claim or a pod changes by annotation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt};

use crate::driver::Driver;
use crate::error::Error;
use crate::overrides::{self, Changes};

pub(super) const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";
pub(super) const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";
const POD_NAME: &str = "csi.storage.k8s.io/pod.name";
const POD_NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";

/// The changes of the claim, and after them those of the pod. Volumes whose context does not name them have none.
pub(super) async fn changes(
    driver: &Driver,
    context: &BTreeMap<String, String>,
) -> Result<Vec<Changes>, Error> {
    let Some(client) = &driver.kube else {
        return Ok(Vec::new());
    };
    let mut changes = Vec::new();
    let claim = context.get(CLAIM_NAME);
    if let (Some(name), Some(namespace)) = (claim, context.get(CLAIM_NAMESPACE)) {
        let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
        let found = api
            .get_opt(name)
            .await
            .map_err(unreadable("claim", namespace, name))?;
        let text = found.and_then(|claim| claim.annotations().get(overrides::OF_CLAIM).cloned());
        changes.extend(text.map(|text| Changes::of_claim(&text)));
    }
    if let (Some(name), Some(namespace), Some(claim)) =
        (context.get(POD_NAME), context.get(POD_NAMESPACE), claim)
    {
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        let found = api
            .get_opt(name)
            .await
            .map_err(unreadable("pod", namespace, name))?;
        let text = found.and_then(|pod| pod.annotations().get(overrides::OF_POD).cloned());
        changes.extend(text.map(|text| Changes::of_pod(&text, claim)));
    }
    Ok(changes)
}

fn unreadable(kind: &str, namespace: &str, name: &str) -> impl FnOnce(kube::Error) -> Error {
    let what = format!("{kind} {namespace}/{name}");
    move |error| Error::Annotations {
        what,
        reason: error.to_string(),
    }
}
