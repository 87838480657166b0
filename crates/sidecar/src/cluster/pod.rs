//! Pods: which claims they use. Watched only while a driver refuses to resize volumes in use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_kubernetes::pod_claims::ephemeral_claim;
use stowage_kubernetes::store::Cached;

use super::wire::WirePod;

/// A pod that has not ended and uses claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    uid: String,
    pub(crate) namespace: String,
    /// Names of claims, in the pod's namespace.
    pub(crate) claims: Vec<String>,
}

impl Pod {
    /// Reads a pod. `None`: it uses no claims, or no longer.
    pub(crate) fn read(wire: WirePod) -> Option<Self> {
        if matches!(wire.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let (namespace, name) = (wire.metadata.namespace?, wire.metadata.name?);
        let uid = wire.metadata.uid?;
        let volumes = wire.spec.volumes.into_iter();
        let claims: Vec<_> = volumes
            .filter_map(|volume| match volume.persistent_volume_claim {
                Some(claim) => Some(claim.claim_name),
                None => volume
                    .ephemeral
                    .map(|_| ephemeral_claim(&name, &volume.name)),
            })
            .collect();
        (!claims.is_empty()).then_some(Self {
            uid,
            namespace,
            claims,
        })
    }

    pub(crate) fn uses(&self, namespace: &str, claim: &str) -> bool {
        self.namespace == namespace && self.claims.iter().any(|name| name == claim)
    }
}

impl Cached for Pod {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }
}
