//! A pod uses its ServiceAccount against the API server: allowed for what its Role grants, refused for the rest.

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
      command:
        - sh
        - -c
        - |
          cd /var/run/secrets/kubernetes.io/serviceaccount
          api="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat namespace)"
          ask() { timeout 10 wget -qO- --no-check-certificate --header "Authorization: Bearer $(cat token)" "$api/$1" 2>&1; }
          test -s ca.crt && echo "has the authority"
          ask configmaps/greeting | grep -o ahoy
          ask secrets
          ask configmaps
          exit 0
"#;

#[test]
fn a_pod_may_do_what_its_role_grants_and_nothing_else() {
    let namespace = cluster().namespace("reader").unwrap();
    namespace.apply(READER).unwrap();
    pod_in_phase(&namespace, "reader", "Succeeded");
    let log = namespace.kubectl(&["logs", "reader"]).unwrap();
    assert!(log.contains("has the authority"), "{log}");
    assert!(
        log.contains("ahoy"),
        "get of the ConfigMap is granted: {log}"
    );
    assert_eq!(
        log.matches("403 Forbidden").count(),
        2,
        "secrets and lists are not: {log}"
    );
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
