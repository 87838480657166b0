//! A pod's ServiceAccount against the API server: allowed for what its Role grants, refused for the rest.

use std::fs;
use std::path::Path;

use devcluster::process::capture;
use serde_json::{Value, json};
use stowage_tests::{STOWAGE_IMAGE, cluster, pod_in_phase, text};

const READER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
  - {apiGroups: [""], resources: [configmaps], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting}
data: {word: ahoy}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  serviceAccountName: reader
  restartPolicy: Never
  containers:
    - name: reader
      image: busybox
      command: [sh, -c, "cat /var/run/secrets/kubernetes.io/serviceaccount/token"]
"#;

/// A kubeconfig for the test's cluster with a token and nothing else. The token is that of a pod; kubectl speaks for it, as busybox cannot agree on a cipher with
/// every server.
fn kubeconfig_with(token: &str, file: &Path) {
    let view = [
        "config",
        "view",
        "--minify",
        "--flatten",
        "--raw",
        "-o",
        "json",
    ];
    let mut config: Value = serde_json::from_str(&cluster().kubectl(&view).unwrap()).unwrap();
    let user = config["contexts"][0]["context"]["user"].clone();
    config["users"] = json!([{"name": user, "user": {"token": token}}]);
    fs::write(file, config.to_string()).unwrap();
}

#[test]
fn a_pod_may_do_what_its_role_grants_and_nothing_else() {
    let namespace = cluster().namespace("reader").unwrap();
    namespace.apply(READER).unwrap();
    pod_in_phase(&namespace, "reader", "Succeeded");
    let token = namespace.kubectl(&["logs", "reader"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    kubeconfig_with(token.trim(), &file);
    let ask = |what: &[&str]| {
        let mut kubectl = cluster().command();
        kubectl.arg("--kubeconfig").arg(&file);
        kubectl
            .args(["--namespace", namespace.name(), "get"])
            .args(what);
        capture(&mut kubectl).map_err(|error| error.to_string())
    };
    let word = ask(&["configmap", "greeting", "-o", "jsonpath={.data.word}"]);
    assert_eq!(
        word.as_deref(),
        Ok("ahoy"),
        "get of the ConfigMap is granted"
    );
    let account = format!("system:serviceaccount:{}:reader", namespace.name());
    for refused in ["secrets", "configmaps"] {
        let refusal = ask(&[refused]).unwrap_err();
        let expected = format!("User \"{account}\" cannot list resource \"{refused}\"");
        assert!(refusal.contains(&expected), "{refusal}");
    }
}

fn status_pod(account: &str) -> String {
    format!(
        r"
apiVersion: v1
kind: Pod
metadata: {{name: status}}
spec:
  serviceAccountName: {account}
  restartPolicy: Never
  containers:
    - name: stowage
      image: {STOWAGE_IMAGE}
      imagePullPolicy: IfNotPresent
      args: [status]
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: {{drop: [ALL]}}
"
    )
}

#[test]
fn our_image_reads_the_cluster_it_runs_in_and_names_the_right_it_lacks() {
    let cluster = cluster();
    let namespace = cluster.namespace("status").unwrap();
    // Nobody gave this account anything.
    namespace.apply(&status_pod("default")).unwrap();
    pod_in_phase(&namespace, "status", "Failed");
    let log = namespace.kubectl(&["logs", "status"]).unwrap();
    assert!(
        log.contains("may not list") && log.contains("kubectl create clusterrole"),
        "{log}"
    );

    // `view` does not cover nodes and storage: exactly the rules of the demo's ClusterRole do.
    let account = format!("{}:default", namespace.name());
    let role = format!("{}-status", namespace.name());
    let create_role = ["create", "clusterrole", &role, "--verb=list"];
    let resources = "--resource=nodes,persistentvolumes,csidrivers.storage.k8s.io,csinodes.storage.k8s.io,storageclasses.storage.k8s.io";
    cluster
        .kubectl(&[&create_role[..], &[resources]].concat())
        .unwrap();
    let bind = [
        "create",
        "clusterrolebinding",
        &role,
        "--clusterrole",
        &role,
        "--serviceaccount",
        &account,
    ];
    let bound = cluster.kubectl(&bind);
    namespace
        .kubectl(&["delete", "pod", "status", "--grace-period=0", "--force"])
        .unwrap();
    namespace.apply(&status_pod("default")).unwrap();
    let pod = pod_in_phase(&namespace, "status", "Succeeded");
    let log = namespace.kubectl(&["logs", "status"]).unwrap();
    for kind in ["clusterrolebinding", "clusterrole"] {
        cluster.kubectl(&["delete", kind, &role]).unwrap();
    }
    bound.unwrap();
    assert!(
        log.contains(text(&pod["spec"]["nodeName"])),
        "its own node is in the table: {log}"
    );
}
