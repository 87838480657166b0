//! Who uses a driver right now.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use stowage_kubernetes::pod_claims::claim_of;

/// How many of a kind are named.
const NAMED: usize = 3;

/// Namespace and name of a claim.
pub type Claim = (String, String);

/// What holds on to a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Volumes of the driver, used or not.
    volumes: Vec<String>,
    /// Where they are attached.
    attachments: Vec<String>,
    /// Pods with volumes of it.
    pods: Vec<String>,
}

impl Usage {
    /// Whether the driver has nothing to look after.
    pub fn is_none(&self) -> bool {
        self.volumes.is_empty() && !self.is_at_work()
    }

    /// Whether volumes of the driver are attached or in pods.
    pub fn is_at_work(&self) -> bool {
        !self.attachments.is_empty() || !self.pods.is_empty()
    }
}

impl fmt::Display for Usage {
    /// How many of each kind there are, and the first few by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("PersistentVolume", &self.volumes),
            ("VolumeAttachment", &self.attachments),
            ("Pod", &self.pods),
        ];
        let told = kinds.iter().filter(|(_, names)| !names.is_empty());
        let told = told.map(|(kind, names)| {
            let mut first = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
            if names.len() > NAMED {
                first.push("...".to_owned());
            }
            let plural = if names.len() == 1 { "" } else { "s" };
            format!("{} {kind}{plural} ({})", names.len(), first.join(", "))
        });
        f.write_str(&told.collect::<Vec<_>>().join(", "))
    }
}

/// What holds on to a driver. Lists everything there is, so it is asked only when something depends on the answer.
pub async fn of(client: &Client, driver: &str) -> Result<Usage, kube::Error> {
    let attached = attachments(client, driver).await?;
    let volumes = volumes(client, driver).await?;
    let claims: BTreeSet<_> = volumes.iter().filter_map(bound_claim).collect();
    let pods = Api::<Pod>::all(client.clone());
    let pods = pods.list(&ListParams::default()).await?;
    let is_claim = |claim: &Claim| claims.contains(claim);
    let users = pods.iter().filter(|pod| uses(pod, driver, is_claim));
    Ok(Usage {
        volumes: volumes.iter().map(ResourceExt::name_any).collect(),
        attachments: attached
            .iter()
            .map(|it| format!("{} on node {}", it.name_any(), it.spec.node_name))
            .collect(),
        pods: users
            .map(|pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()))
            .collect(),
    })
}

/// Where volumes of a driver are attached.
pub async fn attachments(
    client: &Client,
    driver: &str,
) -> Result<Vec<VolumeAttachment>, kube::Error> {
    let all = Api::<VolumeAttachment>::all(client.clone());
    let all = all.list(&ListParams::default()).await?.into_iter();
    Ok(all.filter(|it| it.spec.attacher == driver).collect())
}

/// The claims whose volumes are a driver's.
pub async fn claims(client: &Client, driver: &str) -> Result<BTreeSet<Claim>, kube::Error> {
    let volumes = volumes(client, driver).await?;
    Ok(volumes.iter().filter_map(bound_claim).collect())
}

async fn volumes(client: &Client, driver: &str) -> Result<Vec<PersistentVolume>, kube::Error> {
    let all = Api::<PersistentVolume>::all(client.clone());
    let all = all.list(&ListParams::default()).await?.into_iter();
    Ok(all.filter(|it| is_of(it, driver)).collect())
}

fn is_of(volume: &PersistentVolume, driver: &str) -> bool {
    let source = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    source.is_some_and(|source| source.driver == driver)
}

/// The claim that a volume is bound to.
fn bound_claim(volume: &PersistentVolume) -> Option<Claim> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some((claim.namespace.clone()?, claim.name.clone()?))
}

/// Whether a pod that runs has a volume of a driver.
pub fn uses(pod: &Pod, driver: &str, is_claim: impl Fn(&Claim) -> bool) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return false;
    }
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod
        .spec
        .iter()
        .filter_map(|spec| spec.volumes.as_ref())
        .flatten();
    volumes.into_iter().any(|volume| {
        let inline = volume.csi.as_ref().is_some_and(|csi| csi.driver == driver);
        let claim = claim_of(&pod.name_any(), volume);
        inline || claim.is_some_and(|claim| is_claim(&(namespace.clone(), claim)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_named_and_all_are_counted() {
        let names = |count: usize| (0..count).map(|it| format!("v{it}")).collect();
        let usage = Usage {
            volumes: names(5),
            attachments: Vec::new(),
            pods: vec!["default/db-0".to_owned()],
        };
        let told = "5 PersistentVolumes (v0, v1, v2, ...), 1 Pod (default/db-0)";
        assert_eq!(usage.to_string(), told);
        assert!(!usage.is_none() && usage.is_at_work());
        let retained = Usage {
            volumes: names(1),
            ..Usage::default()
        };
        assert!(!retained.is_none() && !retained.is_at_work());
        assert!(Usage::default().is_none());
    }
}
