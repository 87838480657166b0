//! Who uses a driver right now.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// What holds on to a driver: volumes that are attached and pods that use volumes of it, or nothing.
///
/// Lists everything there is, so it is asked only when something depends on the answer.
pub async fn holders(client: &Client, driver: &str) -> Result<Vec<String>, kube::Error> {
    let everything = ListParams::default();
    let attachments = Api::<VolumeAttachment>::all(client.clone())
        .list(&everything)
        .await?;
    let attached = attachments.iter().filter(|it| it.spec.attacher == driver);
    let mut holders: Vec<_> = attached
        .map(|it| {
            format!(
                "VolumeAttachment {} on node {}",
                it.name_any(),
                it.spec.node_name
            )
        })
        .collect();

    let volumes = Api::<PersistentVolume>::all(client.clone())
        .list(&everything)
        .await?;
    let claims: BTreeSet<(String, String)> = volumes
        .iter()
        .filter_map(|it| claim_of(it, driver))
        .collect();
    let pods = Api::<Pod>::all(client.clone()).list(&everything).await?;
    let users = pods.iter().filter(|pod| uses(pod, driver, &claims));
    holders.extend(users.map(|pod| {
        let namespace = pod.namespace().unwrap_or_default();
        format!("Pod {namespace}/{}", pod.name_any())
    }));
    Ok(holders)
}

/// The claim of a driver's volume.
fn claim_of(volume: &PersistentVolume, driver: &str) -> Option<(String, String)> {
    let spec = volume.spec.as_ref()?;
    if spec.csi.as_ref()?.driver != driver {
        return None;
    }
    let claim = spec.claim_ref.as_ref()?;
    Some((claim.namespace.clone()?, claim.name.clone()?))
}

fn uses(pod: &Pod, driver: &str, claims: &BTreeSet<(String, String)>) -> bool {
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
        let claim = volume.persistent_volume_claim.as_ref();
        let claimed =
            claim.is_some_and(|it| claims.contains(&(namespace.clone(), it.claim_name.clone())));
        // An ephemeral claim is named after pod and volume.
        let ephemeral = volume.ephemeral.is_some()
            && claims.contains(&(
                namespace.clone(),
                format!("{}-{}", pod.name_any(), volume.name),
            ));
        inline || claimed || ephemeral
    })
}
