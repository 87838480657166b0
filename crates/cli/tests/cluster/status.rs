//! `stowage status` on a real server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{apply, kubectl_with, server};

fn status(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .args(args)
        .env_clear()
        .output()
        .unwrap()
}

/// The administrator's kubeconfig, changed; it lives as long as the directory.
fn changed_kubeconfig(change: impl FnOnce(&mut Value)) -> (TempDir, PathBuf) {
    let admin = kube::config::Kubeconfig::read_from(server().kubeconfig()).unwrap();
    let mut config = serde_json::to_value(admin).unwrap();
    change(&mut config);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    (dir, path)
}

#[test]
fn status_draws_what_is_in_the_cluster() {
    for object in [
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"},
            "spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent", "Ephemeral"]},
        }),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"},
            "spec": {"drivers": [{"name": "d.example.com", "nodeID": "n1", "topologyKeys": []}]},
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": "d.example.com",
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "d.example.com", "volumeHandle": "v"},
            },
        }),
    ] {
        apply(&object).unwrap();
    }
    let output = status(server().kubeconfig(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (headline, tables) = text.split_once('\n').unwrap();
    assert!(headline.starts_with("Kubernetes v1."), "{headline}");
    assert!(
        headline.ends_with(", 1 CSI driver, 1 node (1 not ready)"),
        "{headline}"
    );
    assert_eq!(
        tables,
        "
DRIVER         ATTACH  MODES                 STORAGE CLASSES  VOLUMES  NODES
d.example.com  no      Persistent,Ephemeral  fast             1        1/1

NODE  READY    d.example.com
n1    unknown  yes
"
    );
}

#[test]
fn an_account_without_rights_is_told_which_and_the_command_to_get_them_works() {
    let server = server();
    server
        .kubectl(&["create", "serviceaccount", "viewer"])
        .unwrap();
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/viewer/token";
    let answer = kubectl_with(&["create", "--raw", path], &request).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let (_dir, kubeconfig) = changed_kubeconfig(|config| {
        config["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    });

    let output = status(&kubeconfig, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with(
            "error: `system:serviceaccount:default:viewer` may not list csidrivers.storage.k8s.io, \
             csinodes.storage.k8s.io, nodes, storageclasses.storage.k8s.io, persistentvolumes: grant it with "
        ),
        "{text}"
    );

    let commands: Vec<_> = text
        .split('`')
        .filter_map(|part| part.strip_prefix("kubectl "))
        .collect();
    assert_eq!(commands.len(), 2, "{text}");
    for command in commands {
        server
            .kubectl(&command.split(' ').collect::<Vec<_>>())
            .unwrap();
    }
    let output = status(&kubeconfig, &["--output", "json"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn credentials_and_certificates_that_do_not_fit_are_told_apart() {
    let (_dir, stranger) = changed_kubeconfig(|config| {
        config["users"][0]["user"] = json!({"token": "nobody"});
    });
    let text = String::from_utf8(status(&stranger, &[]).stderr).unwrap();
    assert!(
        text.contains("does not accept the credentials of"),
        "{text}"
    );

    let (_dir, untrusted) = changed_kubeconfig(|config| {
        let server = config["clusters"][0]["cluster"]["server"].take();
        config["clusters"][0]["cluster"] = json!({"server": server});
    });
    let text = String::from_utf8(status(&untrusted, &[]).stderr).unwrap();
    assert!(
        text.starts_with("error: cannot trust the API server at https://"),
        "{text}"
    );
}
