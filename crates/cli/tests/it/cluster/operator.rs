//! The operator as a process, called as the original was.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use devcluster::testing::{ApiServer, ControlPlane, Running, eventually, http_get};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{crd_files, kubectl_with};
use crate::port::Port;

#[test]
fn the_original_command_line_brings_up_the_sample_driver() {
    let server = stowage_testing::api_server_with(&[""]);
    let (place, kept) = (TempDir::new().unwrap(), Port::keep());
    let port = kept.number;
    let program = place.path().join("csi-operator");
    symlink(env!("CARGO_BIN_EXE_stowage"), &program).unwrap();
    let mut operator = Running(
        Command::new(&program)
            .args(["-v", "5", "-alsologtostderr"])
            .arg(format!("-http-endpoint=127.0.0.1:{port}"))
            .arg(format!("-kubeconfig={}", server.kubeconfig().display()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let samples = crd_files().replace("/crds", "/samples/hostpath.yaml");
    server.kubectl(&["apply", "-f", &samples]).unwrap();
    eventually("synced", || {
        let path = "jsonpath={.status.conditions[?(@.type==\"SyncSuccessful\")].status}";
        let found = server.kubectl(&["get", "csidriverdeployment", "hostpath", "-o", path]);
        found.is_ok_and(|status| status == "True")
    });
    let all = server
        .kubectl(&[
            "get",
            "daemonset,deployment,storageclass,csidriver",
            "-o",
            "name",
        ])
        .unwrap();
    let mut names: Vec<_> = all.lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "csidriver.storage.k8s.io/csi-hostpath",
            "daemonset.apps/hostpath-node",
            "deployment.apps/hostpath-controller",
            "storageclass.storage.k8s.io/my-default-class",
            "storageclass.storage.k8s.io/my-non-default-class",
        ]
    );
    let table = server.kubectl(&["get", "csidriverdeployments"]).unwrap();
    let header: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME",
            "DRIVER",
            "STATE",
            "AVAILABLE",
            "SYNCSUCCESSFUL",
            "NODES",
            "MESSAGE",
            "AGE"
        ]
    );

    an_invalid_instance_holds_nobody_up(&server);
    eventually("counted", || {
        let counted = r#"stowage_operator_drivers{condition="SyncSuccessful",status="True"} 1"#;
        let answer = http_get(port, "/metrics");
        answer.is_ok_and(|it| it.starts_with("HTTP/1.1 200") && it.contains(counted))
    });

    let id = i32::try_from(operator.id()).unwrap();
    Command::new("kill").arg(id.to_string()).status().unwrap();
    let ended = operator.wait().unwrap();
    let mut log = String::new();
    operator
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert!(ended.success(), "{log}");
    assert!(log.contains("An object was written."), "{log}");
}

#[test]
fn what_waits_for_an_operator_that_is_gone_is_let_go() {
    let server = stowage_testing::api_server_with(&[""]);
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let operator = || {
        let mut operator = Command::new(env!("CARGO_BIN_EXE_stowage"));
        operator.args(["operator", "--http-endpoint=", &kubeconfig]);
        operator
    };
    // Nobody says where it is when it is to be found.
    let lease = ["--leader-election", "--leader-election-namespace=default"];
    let mut running = Running(operator().args(lease).spawn().unwrap());
    let sample = crd_files().replace("/crds", "/samples/hostpath.yaml");
    server.kubectl(&["apply", "-f", &sample]).unwrap();
    let sets = || server.kubectl(&["get", "daemonset", "-o", "name"]);
    eventually("deployed", || sets().is_ok_and(|it| !it.is_empty()));
    let let_go = || {
        let output = operator().arg("--prepare-uninstall").output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        (output.status.success(), said)
    };
    let (is_done, said) = let_go();
    assert!(
        !is_done && said.contains("`default/csi-operator-leader`"),
        "{said}"
    );

    // Removed in the wrong order: what it would clean up waits for it.
    let id = running.id().to_string();
    Command::new("kill").arg(id).status().unwrap();
    assert!(running.wait().unwrap().success());
    let definition = "csidriverdeployments.csidriver.storage.openshift.io";
    server
        .kubectl(&["delete", "crd", definition, "--wait=false"])
        .unwrap();
    let instances = || server.kubectl(&["get", "csidriverdeployments", "-o", "name"]);
    assert!(instances().is_ok_and(|it| !it.is_empty()), "it is held");

    let expected = "CSIDriverDeployment default/hostpath no longer waits for the operator.\n";
    assert_eq!(let_go(), (true, expected.to_owned()));
    eventually("the definition is gone", || {
        server.kubectl(&["get", "crd", definition]).is_err()
    });
    assert!(sets().is_ok_and(|it| !it.is_empty()), "the driver runs on");
    let nothing = "Nothing waits for the operator.\n";
    assert_eq!(let_go(), (true, nothing.to_owned()));
}

#[test]
fn an_operator_that_is_removed_in_the_documented_order_leaves_nothing() {
    let plane = ControlPlane::start().unwrap();
    let deploy = |part: &str| crd_files().replace("/crds", part);
    let manifests = [deploy("/operator.yaml"), deploy("/prerequisites")];
    for manifest in manifests.iter().rev() {
        plane.kubectl(&["apply", "-f", manifest]).unwrap();
    }
    plane.wait_for_definitions().unwrap();
    let listed = |words: &[&str]| {
        let everywhere = ["-o", "name", "--all-namespaces"];
        plane.kubectl(&[&["get"][..], words, &everywhere].concat())
    };
    let mut running = Running(
        Command::new(env!("CARGO_BIN_EXE_stowage"))
            .args(["operator", "--http-endpoint="])
            .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
            .spawn()
            .unwrap(),
    );
    let sample = deploy("/samples/hostpath.yaml");
    plane.kubectl(&["apply", "-f", &sample]).unwrap();
    let kinds = "daemonset,deployment,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,csidriver,storageclass";
    let owned = ["-l", "csidriver.storage.openshift.io/owner-name"];
    let owned = || listed(&[&[kinds][..], &owned].concat());
    eventually("deployed", || {
        owned().is_ok_and(|it| it.contains("daemonset") && it.contains("storageclass"))
    });

    // It waits until the operator has cleaned up.
    let instances = ["csidriverdeployments", "--all", "--all-namespaces"];
    let delete = |words: &[&str]| {
        let patience = ["--timeout=60s"];
        plane.kubectl(&[&["delete"][..], words, &patience].concat())
    };
    delete(&instances).unwrap();
    assert_eq!(owned().unwrap().trim(), "");
    // Its Deployment runs it elsewhere.
    let id = running.id().to_string();
    Command::new("kill").arg(id).status().unwrap();
    assert!(running.wait().unwrap().success());
    for manifest in &manifests {
        delete(&["-f", manifest]).unwrap();
    }
    let left = listed(&["crd,clusterrole,clusterrolebinding,namespace"]).unwrap();
    let is_ours = |it: &&str| it.contains("csi-operator") || it.contains("csidriverdeployment");
    assert_eq!(left.lines().find(is_ours), None);
}

/// Beside one that is valid: what is wrong is told, nothing of it is made, and the other is followed as before.
fn an_invalid_instance_holds_nobody_up(server: &ApiServer) {
    let get = |words: &[&str]| server.kubectl(&[&["get"][..], words].concat()).unwrap();
    let instance = get(&["csidriverdeployment", "hostpath", "-o", "json"]);
    let mut instance: Value = serde_json::from_str(&instance).unwrap();
    instance["metadata"] = json!({"name": "invalid"});
    instance["spec"]["driverSocket"] = json!("/csi.sock");
    instance["spec"]["colour"] = json!("red");
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("invalid.json");
    std::fs::write(&file, instance.to_string()).unwrap();
    let file = file.display().to_string();
    server.kubectl(&["create", "-f", &file]).unwrap();
    let message = "jsonpath={.status.conditions[?(@.type==\"SyncSuccessful\")].message}";
    eventually("every mistake is listed", || {
        let said = get(&["csidriverdeployment", "invalid", "-o", message]);
        said.contains("spec.driverSocket: ") && said.contains("spec.colour: ")
    });
    let more = r#"{"spec": {"controllerReplicas": 2}}"#;
    server
        .kubectl(&[
            "patch",
            "csidriverdeployment",
            "hostpath",
            "--type=merge",
            "-p",
            more,
        ])
        .unwrap();
    eventually("the other has two replicas", || {
        let replicas = "jsonpath={.spec.replicas}";
        get(&["deployment", "hostpath-controller", "-o", replicas]) == "2"
    });
    let made = get(&["daemonset,deployment,serviceaccount", "-o", "name"]);
    assert!(!made.contains("invalid"), "{made}");
    server
        .kubectl(&["delete", "csidriverdeployment", "invalid"])
        .unwrap();
}

#[test]
fn a_cluster_that_cannot_be_reached_is_one_sentence() {
    let output = Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["operator", "--http-endpoint=", "--kubeconfig=/nowhere"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("error: kubeconfig `/nowhere` cannot be read"),
        "{text}"
    );
}

#[test]
fn empty_texts_and_unknown_fields_reach_the_operator() {
    let instance = json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": "odd"},
        "spec": {
            "driverName": "", "driverSocket": "", "nodeUpdateStrategy": "Rolling", "colour": {"a": [1]},
            "driverPerNodeTemplate": {}, "driverControllerTemplate": null,
            "storageClassTemplates": [{"parameters": {"empty": ""}, "mountOptions": [""], "shade": 1}],
        },
    });
    kubectl_with(&["apply", "--validate=false"], &instance).unwrap();
    let stored = crate::cluster::server()
        .kubectl(&["get", "csidriverdeployment", "odd", "-o", "json"])
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    for field in ["colour", "driverSocket"] {
        assert_eq!(stored["spec"][field], instance["spec"][field]);
    }
    assert_eq!(
        stored["spec"]["storageClassTemplates"],
        instance["spec"]["storageClassTemplates"]
    );
    serde_json::from_value::<stowage_api::driver_deployment::CSIDriverDeployment>(stored).unwrap();

    for (field, wrong) in [
        ("probePeriodSeconds", json!("often")),
        ("probePeriodSeconds", json!(0)),
        ("nodeUpdateStrategy", json!("Sometimes")),
        ("managementState", json!("managed")),
        ("uninstallPolicy", json!("Later")),
        ("driverSocket", json!("csi.sock")),
        ("kubeletRootDir", json!("var/lib/kubelet")),
        ("driverName", json!("n".repeat(64))),
    ] {
        let mut instance = instance.clone();
        instance["spec"][field] = wrong;
        let error = kubectl_with(&["apply", "--validate=false"], &instance).unwrap_err();
        assert!(error.contains(&format!("spec.{field}")), "{error}");
    }
}
