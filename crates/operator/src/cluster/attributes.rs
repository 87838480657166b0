//! Who has a VolumeAttributesClass: Kubernetes keeps one for as long as somebody has it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use stowage_kubernetes::pages;

/// Claims and volumes that have the class, are about to get it or have just lost it.
pub async fn users(client: &Client, class: &str) -> Result<Vec<String>, kube::Error> {
    let (claims, volumes) = (Api::all(client.clone()), Api::all(client.clone()));
    let everything = ListParams::default();
    let claim = |it: PersistentVolumeClaim| is_of_claim(&it, class).then(|| title(&it));
    let mut users = pages::list(&claims, &everything, claim).await?;
    let volume = |it: PersistentVolume| is_of_volume(&it, class).then(|| it.name_any());
    users.extend(pages::list(&volumes, &everything, volume).await?);
    Ok(users)
}

fn title(claim: &PersistentVolumeClaim) -> String {
    format!(
        "{}/{}",
        claim.namespace().unwrap_or_default(),
        claim.name_any()
    )
}

fn is_of_claim(claim: &PersistentVolumeClaim, class: &str) -> bool {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let wanted = spec.and_then(|it| it.volume_attributes_class_name.as_ref());
    let current = status.and_then(|it| it.current_volume_attributes_class_name.as_ref());
    let modified = status.and_then(|it| it.modify_volume_status.as_ref());
    let target = modified.and_then(|it| it.target_volume_attributes_class_name.as_ref());
    [wanted, current, target]
        .into_iter()
        .flatten()
        .any(|it| it == class)
}

fn is_of_volume(volume: &PersistentVolume, class: &str) -> bool {
    let spec = volume.spec.as_ref();
    let its = spec.and_then(|it| it.volume_attributes_class_name.as_deref());
    its == Some(class)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_has_a_class_wants_it_or_is_being_changed_to_it_uses_it() {
        for (claim, expected) in [
            (json!({"spec": {"volumeAttributesClassName": "gold"}}), true),
            (
                json!({"status": {"currentVolumeAttributesClassName": "gold"}}),
                true,
            ),
            (
                json!({"status": {"modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "gold"}}}),
                true,
            ),
            (
                json!({"spec": {"volumeAttributesClassName": "silver", "storageClassName": "gold"}}),
                false,
            ),
            (json!({}), false),
        ] {
            let told = claim.to_string();
            let claim = serde_json::from_value(claim).unwrap();
            assert_eq!(is_of_claim(&claim, "gold"), expected, "{told}");
        }
        let volume = json!({"spec": {"volumeAttributesClassName": "gold"}});
        let volume = serde_json::from_value(volume).unwrap();
        assert!(is_of_volume(&volume, "gold") && !is_of_volume(&volume, "silver"));
    }
}
