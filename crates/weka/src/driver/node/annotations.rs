//! Mount options that a claim or a pod changes by annotation.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;

use crate::driver::Driver;
use crate::error::Error;
use crate::overrides::{self, Changes};

pub(crate) const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";
pub(crate) const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";
/// What the API server answers to those who lack a right.
const FORBIDDEN: u16 = 403;

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
        let found = found(&api, "claim", namespace, name).await?;
        let text = found.and_then(|claim| claim.annotations().get(overrides::OF_CLAIM).cloned());
        changes.extend(text.map(|text| Changes::of_claim(&text)));
    }
    if let (Some(name), Some(namespace), Some(claim)) =
        (context.get(POD_NAME), context.get(POD_NAMESPACE), claim)
    {
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        let found = found(&api, "pod", namespace, name).await?;
        let text = found.and_then(|pod| pod.annotations().get(overrides::OF_POD).cloned());
        changes.extend(text.map(|text| Changes::of_pod(&text, claim)));
    }
    Ok(changes)
}

/// An object, if it is there and the driver may read it. A right that is missing keeps nobody from a volume: options are
/// a matter of speed.
async fn found<K>(api: &Api<K>, kind: &str, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.get_opt(name).await {
        Err(kube::Error::Api(refused)) if refused.code == FORBIDDEN => {
            tracing::warn!(
                kind,
                namespace,
                name,
                reason = refused.message,
                "The driver may not read annotations, so mount options that they change do not count; give its node account the right to get claims and pods."
            );
            Ok(None)
        }
        Err(error) => Err(Error::Annotations {
            what: format!("{kind} {namespace}/{name}"),
            reason: error.to_string(),
        }),
        Ok(found) => Ok(found),
    }
}
