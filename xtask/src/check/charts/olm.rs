//! The bundle for the Operator Lifecycle Manager, in `deploy/olm`: the operator of the chart as a ClusterServiceVersion.

use anyhow::Context;
use serde_json::{Value, json};
use stowage_chart::manifest::{Manifest, Object};
use stowage_chart::to_yaml;

/// The package, and the channel of its versions.
const PACKAGE: &str = "stowage";
const CHANNEL: &str = "alpha";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const HEADER: &str = "# Written from the chart by `./x check --fix`: do not edit.\n";

/// Objects beside the ClusterServiceVersion; it has the rest in itself.
const BESIDE: [&str; 2] = ["ConfigMap/csi-operator-config", "ClusterRole/"];

const ABOUT: &str = "Deploys and upgrades any CSI driver from one resource, with one sidecar process in place of six. A CSIDriverDeployment \
describes a driver: pod templates for nodes and controller, storage classes, how nodes are updated. The operator keeps it as described, empties \
nodes before a driver whose mounts would die is replaced, and removes a driver only when none of its volumes is in use.";

/// Each file with what it should hold: from the objects of a release, the definition of its kind, and an example of it.
pub(super) fn files(
    release: &Manifest,
    definition: &str,
    example: &Value,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = vec![
        file("metadata/annotations.yaml", &annotations())?,
        file(
            &format!("manifests/{PACKAGE}.clusterserviceversion.yaml"),
            &version(release, example)?,
        )?,
        (
            "deploy/olm/manifests/csidriverdeployments.yaml".to_owned(),
            definition.to_owned(),
        ),
    ];
    for object in &release.objects {
        let title = format!("{}/{}", object.kind(), object.name());
        // Its own rules are in the ClusterServiceVersion.
        if title != "ClusterRole/csi-operator" && BESIDE.iter().any(|it| title.starts_with(it)) {
            let name = format!(
                "manifests/{}.{}.yaml",
                object.name(),
                object.kind().to_lowercase()
            );
            let mut object = object.0.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                // The Lifecycle Manager decides.
                metadata.remove("namespace");
            }
            files.push(file(&name, &object)?);
        }
    }
    Ok(files)
}

fn file(name: &str, content: &Value) -> anyhow::Result<(String, String)> {
    Ok((
        format!("deploy/olm/{name}"),
        format!("{HEADER}{}\n", to_yaml(content)?),
    ))
}

fn annotations() -> Value {
    let key = |name: &str| format!("operators.operatorframework.io.bundle.{name}");
    json!({"annotations": {
        key("mediatype.v1"): "registry+v1",
        key("manifests.v1"): "manifests/",
        key("metadata.v1"): "metadata/",
        key("package.v1"): PACKAGE,
        key("channels.v1"): CHANNEL,
        key("channel.default.v1"): CHANNEL,
    }})
}

fn version(release: &Manifest, example: &Value) -> anyhow::Result<Value> {
    let find = |kind: &str| {
        let object = release
            .objects
            .iter()
            .find(|it| it.kind() == kind && it.name() == "csi-operator");
        object
            .map(|it: &Object| &it.0)
            .with_context(|| format!("the chart has no {kind} csi-operator"))
    };
    let deployment = find("Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let account = "csi-operator";
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{VERSION}"),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json!([example]).to_string(),
                "capabilities": "Seamless Upgrades",
                "categories": "Storage",
                "containerImage": container["image"],
                "description": "CSI storage on Kubernetes: deploys and upgrades any CSI driver",
            },
        },
        "spec": {
            "displayName": "Stowage",
            "description": ABOUT,
            "version": VERSION,
            "maturity": CHANNEL,
            "minKubeVersion": "1.20.0",
            "provider": {"name": "Stowage"},
            "keywords": ["csi", "storage"],
            "maintainers": [{"name": "Stowage", "email": "maintainers@stowage.dev"}],
            "links": [{"name": "Stowage", "url": "https://stowage.dev"}],
            "installModes": modes(),
            "customresourcedefinitions": {"owned": [owned()]},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": [{"serviceAccountName": account, "rules": find("ClusterRole")?["rules"]}],
                    "permissions": [{"serviceAccountName": account, "rules": find("Role")?["rules"]}],
                    "deployments": [{"name": "csi-operator", "spec": deployment["spec"]}],
                },
            },
        },
    }))
}

/// It looks after the whole cluster.
fn modes() -> Value {
    let mode = |name: &str, is: bool| json!({"type": name, "supported": is});
    json!([
        mode("OwnNamespace", false),
        mode("SingleNamespace", false),
        mode("MultiNamespace", false),
        mode("AllNamespaces", true),
    ])
}

fn owned() -> Value {
    json!({
        "name": "csidriverdeployments.csidriver.storage.openshift.io",
        "version": "v1alpha1",
        "kind": "CSIDriverDeployment",
        "displayName": "CSI driver deployment",
        "description": "One CSI driver: what runs on nodes, what runs beside them, its classes",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::check::charts;

    /// The rules of the format that its own validation checks, as far as they concern us.
    #[test]
    fn the_bundle_keeps_the_rules_of_its_format() {
        let files: BTreeMap<_, _> = charts::rendered().unwrap().into_iter().collect();
        let read = |name: &str| parsed(&files[&format!("deploy/olm/{name}")]);
        let annotations = read("metadata/annotations.yaml");
        let annotation = |name: &str| {
            annotations["annotations"][format!("operators.operatorframework.io.bundle.{name}")]
                .clone()
        };
        assert_eq!(annotation("mediatype.v1"), "registry+v1");
        assert_eq!(annotation("channel.default.v1"), annotation("channels.v1"));
        let package = annotation("package.v1").as_str().unwrap().to_owned();

        let csv = read("manifests/stowage.clusterserviceversion.yaml");
        let spec = &csv["spec"];
        let version = spec["version"].as_str().unwrap();
        assert_eq!(version.split('.').count(), 3, "{version}");
        assert_eq!(csv["metadata"]["name"], format!("{package}.v{version}"));
        let modes = spec["installModes"].as_array().unwrap();
        assert_eq!(modes.len(), 4, "each mode says whether it is supported");
        for deployment in spec["install"]["spec"]["deployments"].as_array().unwrap() {
            let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
            let rights = spec["install"]["spec"]["clusterPermissions"]
                .as_array()
                .unwrap();
            assert!(
                rights
                    .iter()
                    .any(|it| &it["serviceAccountName"] == account && it["rules"].is_array())
            );
        }

        // Each definition is owned, and what is owned is there.
        let definition = read("manifests/csidriverdeployments.yaml");
        let owned = spec["customresourcedefinitions"]["owned"]
            .as_array()
            .unwrap();
        assert_eq!(owned.len(), 1);
        assert_eq!(owned[0]["name"], definition["metadata"]["name"]);
        assert_eq!(owned[0]["kind"], definition["spec"]["names"]["kind"]);
        let versions = definition["spec"]["versions"].as_array().unwrap();
        assert!(versions.iter().any(|it| it["name"] == owned[0]["version"]));
        let examples = csv["metadata"]["annotations"]["alm-examples"]
            .as_str()
            .unwrap();
        let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
        assert!(examples.iter().all(|it| it["kind"] == owned[0]["kind"]));
        // Objects of a bundle are of few kinds, and have no namespace of their own.
        for (name, text) in &files {
            if name.starts_with("deploy/olm/manifests/") {
                let object = parsed(text);
                let kind = object["kind"].as_str().unwrap();
                let allowed = [
                    "ClusterServiceVersion",
                    "CustomResourceDefinition",
                    "ClusterRole",
                    "ConfigMap",
                ];
                assert!(allowed.contains(&kind), "{name}: {kind}");
                // The Lifecycle Manager puts the namespace of the installation in place of that word.
                let expected = match kind {
                    "ClusterServiceVersion" => json!("placeholder"),
                    _ => Value::Null,
                };
                assert_eq!(object["metadata"]["namespace"], expected, "{name}");
            }
        }
    }

    fn parsed(text: &str) -> Value {
        stowage_chart::from_yaml(text).unwrap()
    }
}
