//! Which claims the volumes of pods use.

use k8s_openapi::api::core::v1::Volume;

/// The claim that Kubernetes makes for a generic ephemeral volume of a pod.
pub fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// The claim of a volume of a pod, in the pod's namespace, if it has one.
pub fn claim_of(pod: &str, volume: &Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(ephemeral_claim(pod, &volume.name)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_named_or_made_for_the_pod() {
        let claim = |source: serde_json::Value| {
            let mut volume = json!({"name": "data"});
            volume
                .as_object_mut()
                .unwrap()
                .extend(source.as_object().unwrap().clone());
            claim_of("db-0", &serde_json::from_value(volume).unwrap())
        };
        let named = json!({"persistentVolumeClaim": {"claimName": "disk"}});
        assert_eq!(claim(named).as_deref(), Some("disk"));
        assert_eq!(
            claim(json!({"ephemeral": {}})).as_deref(),
            Some("db-0-data")
        );
        assert_eq!(claim(json!({"emptyDir": {}})), None);
    }
}
