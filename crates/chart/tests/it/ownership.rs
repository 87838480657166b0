//! Objects of others that have the names of ours, on a real server.

use std::time::Duration;

use devcluster::kubernetes::kubectl_program;
use devcluster::testing::ApiServer;
use serde_json::json;
use stowage_chart::release::Kubectl;
use stowage_chart::render::Identity;

use super::chart;

/// Everything that an installation could change, as the server counts changes.
fn everything(server: &ApiServer) -> String {
    let kinds = "namespace,serviceaccount,configmap,secret,resourcequota,deployment,job,role,rolebinding,clusterrole,clusterrolebinding,crd";
    let columns = "--output=custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name,R:.metadata.resourceVersion";
    let of_all = ["get", kinds, "--all-namespaces", "--no-headers", columns];
    server.kubectl(&of_all).unwrap()
}

fn kubectl(server: &ApiServer) -> Kubectl {
    Kubectl {
        program: kubectl_program(),
        kubeconfig: server.kubeconfig().to_owned(),
        patience: Duration::from_secs(5),
    }
}

/// Before the namespace of the release is made.
fn an_instance_is_refused(server: &ApiServer, kubectl: &Kubectl) {
    let definition = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/prerequisites/01-crd.yaml"
    );
    server
        .kubectl(&["create", "--filename", definition])
        .unwrap();
    server.wait_for_definitions().unwrap();
    let template = json!({"spec": {"containers": [{"name": "driver", "image": "driver"}]}});
    let instance = json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1", "kind": "CSIDriverDeployment",
        "metadata": {"name": "hostpath", "namespace": "default"},
        "spec": {
            "driverName": "theirs.example.com", "driverSocket": "/csi/csi.sock", "nodeUpdateStrategy": "Rolling",
            "driverPerNodeTemplate": template,
        },
    });
    let create = ["create", "--filename=-"];
    server
        .kubectl_with_input(&create, &instance.to_string())
        .unwrap();
    let before = everything(server);
    let own = json!({"drivers": {"hostpath": {"enabled": true, "namespace": "default"}}});
    let refused = kubectl.install(&chart("stowage"), &own, &Identity::new("nowhere", "mine"));
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("CSIDriverDeployment default/hostpath exists and is not of this release"),
        "{error}"
    );
    assert_eq!(everything(server), before);
}

#[test]
fn an_object_of_somebody_else_with_our_name_is_refused_and_nothing_is_changed() {
    let server = stowage_testing::api_server();
    let kubectl = kubectl(&server);
    an_instance_is_refused(&server, &kubectl);
    server.kubectl(&["create", "namespace", "here"]).unwrap();
    let release = Identity::new("here", "mine");
    let install = || {
        let refused = kubectl.install(&chart("stowage"), &json!({}), &release);
        refused.unwrap_err().to_string()
    };
    let map = ["--namespace=here", "configmap", "csi-operator-config"];
    let create: Vec<_> = [&["create"], &map[..]].concat();
    server.kubectl(&create).unwrap();
    let before = everything(&server);
    let error = install();
    for words in [
        "csi-operator-config",
        "invalid ownership metadata",
        "must equal \"mine\"",
    ] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(everything(&server), before);

    // Of another release of Helm.
    let marks = [
        "meta.helm.sh/release-name=theirs",
        "meta.helm.sh/release-namespace=here",
    ];
    server
        .kubectl(&[&["annotate"], &map[..], &marks].concat())
        .unwrap();
    let before = everything(&server);
    let error = install();
    assert!(error.contains("current value is \"theirs\""), "{error}");
    assert_eq!(everything(&server), before);
}
