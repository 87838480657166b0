//! What a user hears of a claim that waits, and how it goes on by itself: the driver with our sidecar and a real API server.

use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use devcluster::testing::ApiServer;
use serde_json::{Value, json};
use stowage_csi::endpoint::Endpoint;
use stowage_sidecar::controller;
use stowage_stage::{Place, Running};

use crate::cluster::Cluster;
use crate::kubernetes::api_server;
use crate::rig::Rig;

/// `stowage sidecar controller` beside the driver of a rig.
fn sidecar(directory: &Path, server: &ApiServer) -> Running {
    let socket = directory.join("csi.sock");
    let place = Place {
        endpoint: &Endpoint::try_from(socket.as_path()).unwrap(),
        kubeconfig: server.kubeconfig(),
        namespace: "default",
    };
    let flags = [
        "--retry-interval-max=1s",
        "--extra-create-metadata",
        // There are no nodes here to wait for.
        "--immediate-topology=false",
    ];
    Running::sidecar(controller::run, place, flags)
}

fn apply(server: &ApiServer, object: &Value) {
    server
        .kubectl_with_input(&["apply", "-f", "-"], &object.to_string())
        .unwrap();
}

/// A class and a claim of it, both of this name.
fn class_and_claim(server: &ApiServer, name: &str, secret: Option<&str>) {
    class_with_more_and_claim(server, name, secret, &[]);
}

fn class_with_more_and_claim(
    server: &ApiServer,
    name: &str,
    secret: Option<&str>,
    more: &[(&str, &str)],
) {
    let mut parameters = json!({ "volumeType": "dir/v1", "filesystemName": "default" });
    for (name, value) in more {
        parameters[name] = json!(value);
    }
    if let Some(secret) = secret {
        parameters["csi.storage.k8s.io/provisioner-secret-name"] = json!(secret);
        parameters["csi.storage.k8s.io/provisioner-secret-namespace"] = json!("default");
    }
    apply(
        server,
        &json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": name },
            "provisioner": "csi.weka.io",
            "parameters": parameters,
        }),
    );
    apply(
        server,
        &json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": "default",
                // What the controller manager, which is not here, writes.
                "annotations": { "volume.beta.kubernetes.io/storage-provisioner": "csi.weka.io" },
            },
            "spec": {
                "storageClassName": name,
                "accessModes": ["ReadWriteMany"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
    );
}

/// Waits until the list of a kind, as JSON, says all of this.
async fn says(server: &ApiServer, kind: &str, words: &[&str]) {
    let mut text = String::new();
    for _ in 0..300 {
        text = server
            .kubectl(&["get", kind, "--all-namespaces", "-o", "json"])
            .unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().unwrap();
        let says = |item: &Value| words.iter().all(|word| item.to_string().contains(word));
        if items.iter().any(says) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no {kind} says {words:?}: {text}");
}

isolated! {
    async fn a_missing_legacy_secret_is_named_in_an_event_and_the_claim_goes_on_when_it_appears(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &["--legacyvolumesecretname=weka-legacy"]);
        let sidecar = sidecar(directory, &server);
        class_and_claim(&server, "old", None);
        says(&server, "events", &["ProvisioningFailed", "\"old\"", "legacy secret `weka-legacy`", "correct the secret"]).await;
        assert_eq!(cluster.volumes(), Vec::<String>::new());

        let place = directory.join("legacy");
        std::fs::create_dir(&place).unwrap();
        for (key, value) in cluster.secret() {
            std::fs::write(place.join(key), value).unwrap();
        }
        // The volume knows for whom it was made.
        let owner = ["csi.storage.k8s.io/pvc/name\":\"old", "csi.storage.k8s.io/pvc/namespace\":\"default", "csi.storage.k8s.io/pv/name\":\"pvc-"];
        says(&server, "persistentvolumes", &owner).await;
        assert_eq!(cluster.volumes().len(), 1);
        sidecar.stop().await.unwrap();
        rig.stop().await;
    }

    async fn a_parameter_that_nobody_knows_is_a_warning_and_the_claim_gets_its_volume(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
        let rig = Rig::start(directory, &cluster, &[&kubeconfig]);
        let sidecar = sidecar(directory, &server);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "weka", "namespace": "default" },
            "stringData": cluster.secret(),
        });
        apply(&server, &secret);
        class_with_more_and_claim(&server, "misspelled", Some("weka"), &[("capacityEnforcment", "SOFT")]);
        says(&server, "persistentvolumes", &["csi.storage.k8s.io/pvc/name\":\"misspelled"]).await;
        says(&server, "events", &["UnknownParameter", "Warning", "\"misspelled\"", "`capacityEnforcment`", "no effect"]).await;
        sidecar.stop().await.unwrap();
        rig.stop().await;
    }

    async fn a_secret_without_a_key_is_told_to_the_user_and_the_claim_goes_on_when_it_is_complete(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let sidecar = sidecar(directory, &server);
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "weka", "namespace": "default" },
            "stringData": cluster.secret(),
        });
        let password = secret["stringData"]["password"].take();
        secret["stringData"].as_object_mut().unwrap().remove("password");
        apply(&server, &secret);
        class_and_claim(&server, "new", Some("weka"));
        says(&server, "events", &["ProvisioningFailed", "\"new\"", "`password`"]).await;
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        secret["stringData"]["password"] = password;
        apply(&server, &secret);
        says(&server, "persistentvolumes", &["csi.storage.k8s.io/pvc/name\":\"new"]).await;
        assert_eq!(cluster.volumes().len(), 1);
        sidecar.stop().await.unwrap();
        rig.stop().await;
    }
}
