//! Which secrets the classes and volumes of a driver name, as far as sidecars read them.
//!
//! Secrets for staging, publishing and expanding on a node are read by the kubelet, which has rights of its own.

use std::collections::BTreeMap;

use serde_json::Value;
use stowage_api::snapshot::names::ContentNames;

use super::valid::SecretNames;

/// Ends of the keys under which classes name secrets, beside their prefix.
const PREFIX: &str = "csi.storage.k8s.io/";
const NAME: &str = "secret-name";
const NAMESPACE: &str = "secret-namespace";
/// Spelling from before the prefix.
const OLD: [&str; 2] = ["csiProvisioner", "csiControllerPublish"];
/// Calls on a node, for which the kubelet reads the secret.
const BY_KUBELET: [&str; 3] = ["node-stage-", "node-publish-", "node-expand-"];

/// What a class or a volume says about secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Secrets whose name and namespace are known.
    pub named: SecretNames,
    /// Keys whose value depends on the claim: only a sidecar can resolve them.
    pub templated: Vec<String>,
}

impl References {
    fn add(&mut self, key: &str, namespace: Option<&String>, name: Option<&String>) {
        // Half a reference is an error that the sidecar reports on each claim.
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return;
        };
        if namespace.is_empty() || name.is_empty() {
            return;
        }
        if namespace.contains("${") || name.contains("${") {
            self.templated.push(key.to_owned());
        } else {
            self.named.insert(namespace, name);
        }
    }
}

/// The secrets that the parameters of a StorageClass or VolumeSnapshotClass name.
pub fn of_class(parameters: &BTreeMap<String, String>) -> References {
    let mut found = References::default();
    for (key, name) in parameters {
        let Some(role) = key
            .strip_prefix(PREFIX)
            .and_then(|key| key.strip_suffix(NAME))
        else {
            continue;
        };
        if BY_KUBELET.contains(&role) {
            continue;
        }
        let namespace = parameters.get(&format!("{PREFIX}{role}{NAMESPACE}"));
        found.add(key, namespace, Some(name));
    }
    for role in OLD {
        let key = format!("{role}SecretName");
        let namespace = parameters.get(&format!("{role}SecretNamespace"));
        found.add(&key, namespace, parameters.get(&key));
    }
    found
}

/// The secrets that a PersistentVolume names: for the calls of its life, and for its deletion.
pub fn of_volume(volume: &Value) -> References {
    const LIFE: [&str; 2] = ["controllerPublishSecretRef", "controllerExpandSecretRef"];
    const ANNOTATIONS: [&str; 2] = [
        "volume.kubernetes.io/provisioner-deletion-secret",
        "volume.kubernetes.io/controller-modify-secret",
    ];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found = References::default();
    for field in LIFE {
        let reference = &volume["spec"]["csi"][field];
        let (namespace, name) = (text(&reference["namespace"]), text(&reference["name"]));
        found.add(field, namespace.as_ref(), name.as_ref());
    }
    let annotations = &volume["metadata"]["annotations"];
    for annotation in ANNOTATIONS {
        let namespace = text(&annotations[format!("{annotation}-namespace")]);
        let name = text(&annotations[format!("{annotation}-name")]);
        found.add(annotation, namespace.as_ref(), name.as_ref());
    }
    found
}

/// The secret with which a snapshot, or a group of them, is deleted.
pub fn of_content(annotations: &BTreeMap<String, String>, names: &ContentNames) -> References {
    let mut found = References::default();
    let namespace = annotations.get(names.secret_namespace);
    let name = annotations.get(names.secret_name);
    found.add(names.secret_name, namespace, name);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(pairs: &[(&str, &str)]) -> References {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        of_class(&pairs.collect())
    }

    #[test]
    fn a_class_names_secrets_by_pairs_of_keys() {
        let found = class(&[
            ("csi.storage.k8s.io/secret-name", "all"),
            ("csi.storage.k8s.io/secret-namespace", "a"),
            ("csi.storage.k8s.io/provisioner-secret-name", "make"),
            ("csi.storage.k8s.io/provisioner-secret-namespace", "b"),
            ("csi.storage.k8s.io/snapshotter-list-secret-name", "list"),
            ("csi.storage.k8s.io/snapshotter-list-secret-namespace", "b"),
            ("csiControllerPublishSecretName", "old"),
            ("csiControllerPublishSecretNamespace", "c"),
            ("secret-name", "a setting of the driver"),
        ]);
        let expected = [("a", "all"), ("b", "make"), ("b", "list"), ("c", "old")];
        assert_eq!(found.named, expected.into_iter().collect());
        assert!(found.templated.is_empty());
    }

    #[test]
    fn what_depends_on_the_claim_is_told_apart() {
        let found = class(&[
            ("csi.storage.k8s.io/provisioner-secret-name", "${pvc.name}"),
            ("csi.storage.k8s.io/provisioner-secret-namespace", "a"),
        ]);
        assert_eq!(found.named, SecretNames::default());
        assert_eq!(
            found.templated,
            ["csi.storage.k8s.io/provisioner-secret-name"]
        );
    }

    #[test]
    fn what_the_kubelet_reads_is_not_granted_to_sidecars() {
        let found = class(&[
            ("csi.storage.k8s.io/node-stage-secret-name", "${pvc.name}"),
            ("csi.storage.k8s.io/node-stage-secret-namespace", "a"),
            ("csi.storage.k8s.io/node-publish-secret-name", "b"),
            ("csi.storage.k8s.io/node-publish-secret-namespace", "b"),
        ]);
        assert_eq!(found, References::default());
    }

    #[test]
    fn a_content_names_the_secret_for_its_deletion() {
        use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};
        for names in [SNAPSHOT, GROUP_SNAPSHOT] {
            let annotations = [(names.secret_name, "gone"), (names.secret_namespace, "a")];
            let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let found = of_content(&annotations.into(), &names);
            assert_eq!(found.named, [("a", "gone")].into_iter().collect());
            assert_eq!(of_content(&BTreeMap::new(), &names), References::default());
        }
    }

    #[test]
    fn half_a_reference_is_none() {
        let found = class(&[("csi.storage.k8s.io/secret-name", "alone")]);
        assert_eq!(found, References::default());
    }

    #[test]
    fn a_volume_names_secrets_in_its_source_and_for_its_deletion() {
        let found = of_volume(&json!({
            "metadata": {"annotations": {
                "volume.kubernetes.io/provisioner-deletion-secret-name": "gone",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "a",
                "volume.kubernetes.io/controller-modify-secret-name": "",
                "volume.kubernetes.io/controller-modify-secret-namespace": "",
            }},
            "spec": {"csi": {
                "driver": "d",
                "controllerPublishSecretRef": {"name": "attach", "namespace": "b"},
                "controllerExpandSecretRef": {"name": "grow", "namespace": "b"},
                "nodeStageSecretRef": {"name": "kubelet", "namespace": "b"},
            }},
        }));
        let expected = [("a", "gone"), ("b", "attach"), ("b", "grow")];
        assert_eq!(found.named, expected.into_iter().collect());
    }
}
