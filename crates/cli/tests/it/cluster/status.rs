//! `stowage status` on a real server.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use crate::cluster::{
    apply, changed_kubeconfig, granting_commands, kubeconfig_of_new_account, server,
};

fn status(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .args(args)
        .env_clear()
        .output()
        .unwrap()
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
    let (_dir, kubeconfig) = kubeconfig_of_new_account(server, "viewer");

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

    let commands = granting_commands(&text);
    assert_eq!(commands.len(), 2, "{text}");
    for command in commands {
        server.kubectl(&command).unwrap();
    }
    let output = status(&kubeconfig, &["--output", "json"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn credentials_and_certificates_that_do_not_fit_are_told_apart() {
    let (_dir, stranger) = changed_kubeconfig(server(), |config| {
        config["users"][0]["user"] = json!({"token": "nobody"});
    });
    let text = String::from_utf8(status(&stranger, &[]).stderr).unwrap();
    assert!(
        text.contains("does not accept the credentials of"),
        "{text}"
    );

    let (_dir, untrusted) = changed_kubeconfig(server(), |config| {
        let server = config["clusters"][0]["cluster"]["server"].take();
        config["clusters"][0]["cluster"] = json!({"server": server});
    });
    let text = String::from_utf8(status(&untrusted, &[]).stderr).unwrap();
    assert!(
        text.starts_with("error: cannot trust the API server at https://"),
        "{text}"
    );
}
