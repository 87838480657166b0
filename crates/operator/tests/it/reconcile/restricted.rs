//! The manifests of `deploy/` run where Pod Security admits only the profile `restricted`, and on Linux nodes only.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Manifests whose pods need nothing of their node.
const MANIFESTS: [&str; 2] = ["operator.yaml", "snapshot-controller.yaml"];

fn documents(file: &str) -> Vec<Value> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let text = fs::read_to_string(deploy.join(file)).unwrap();
    let documents = text.split("\n---\n");
    let documents = documents.map(|it| serde_saphyr::from_str::<Value>(it).unwrap());
    documents.collect()
}

fn pods(file: &str) -> Vec<Value> {
    let documents = documents(file).into_iter();
    let templates = documents.filter_map(|it| it.pointer("/spec/template/spec").cloned());
    templates.collect()
}

/// What the profile forbids, in the words of its documentation.
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut forbid = |is_so: bool, what: &str| {
        if is_so {
            found.push(what.to_owned());
        }
    };
    for namespace in ["hostNetwork", "hostPID", "hostIPC"] {
        forbid(pod[namespace] == true, "host namespaces");
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let admitted = [
            "name",
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        let mut kinds = volume.as_object().unwrap().keys();
        forbid(
            kinds.any(|it| !admitted.contains(&it.as_str())),
            "volume types",
        );
    }
    let of_pod = &pod["securityContext"];
    forbid(!of_pod["sysctls"].is_null(), "sysctls");
    let containers = ["initContainers", "containers"].map(|it| pod[it].as_array());
    for container in containers.into_iter().flatten().flatten() {
        let of_container = &container["securityContext"];
        // What the container says, or else the pod.
        let says = |field: &str| match &of_container[field] {
            Value::Null => of_pod[field].clone(),
            said => said.clone(),
        };
        let seccomp = says("seccompProfile")["type"].clone();
        let capabilities = &of_container["capabilities"];
        let added = capabilities["add"].as_array().into_iter().flatten();
        let mut ports = container["ports"].as_array().into_iter().flatten();
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
        let mut probes = probes.iter().map(|it| &container[it]["httpGet"]["host"]);
        forbid(of_container["privileged"] == true, "privileged containers");
        forbid(ports.any(|it| !it["hostPort"].is_null()), "host ports");
        forbid(probes.any(|it| !it.is_null()), "hosts of probes");
        forbid(!of_container["procMount"].is_null(), "proc mount type");
        forbid(!says("seLinuxOptions").is_null(), "SELinux");
        forbid(!says("appArmorProfile").is_null(), "AppArmor");
        forbid(!says("windowsOptions").is_null(), "host process");
        forbid(
            of_container["allowPrivilegeEscalation"] != false,
            "privilege escalation",
        );
        forbid(says("runAsNonRoot") != true, "running as non-root");
        forbid(says("runAsUser") == 0, "running as non-root user");
        forbid(
            seccomp != "RuntimeDefault" && seccomp != "Localhost",
            "seccomp",
        );
        forbid(capabilities["drop"] != json!(["ALL"]), "capabilities");
        forbid(
            added.filter(|it| **it != "NET_BIND_SERVICE").count() > 0,
            "capabilities",
        );
    }
    found
}

#[test]
fn every_rule_of_the_restricted_profile_is_kept() {
    for file in MANIFESTS {
        let pods = pods(file);
        assert!(!pods.is_empty(), "{file}");
        for pod in pods {
            assert_eq!(violations(&pod), Vec::<String>::new(), "{file}");
        }
    }
    // The check itself can fail.
    let mut pod = pods("operator.yaml").remove(0);
    pod["hostNetwork"] = json!(true);
    pod["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    pod["containers"][0]["securityContext"] = json!({"privileged": true, "runAsUser": 0});
    let all = violations(&pod);
    for rule in [
        "host namespaces",
        "volume types",
        "privileged containers",
        "privilege escalation",
        "running as non-root user",
        "capabilities",
    ] {
        assert!(all.iter().any(|it| it == rule), "{rule}: {all:?}");
    }
}

#[test]
fn pods_start_where_critical_classes_need_a_quota_and_on_linux_nodes_only() {
    for file in MANIFESTS {
        for pod in pods(file) {
            assert_eq!(pod["nodeSelector"]["kubernetes.io/os"], "linux", "{file}");
        }
    }
    let class = &pods("operator.yaml")[0]["priorityClassName"];
    let quota = documents("prerequisites/08-quota.yaml").remove(0);
    assert_eq!(
        quota["metadata"]["namespace"],
        documents("operator.yaml")[0]["metadata"]["namespace"]
    );
    let scope = &quota["spec"]["scopeSelector"]["matchExpressions"][0];
    assert_eq!(scope["scopeName"], "PriorityClass");
    assert!(
        scope["values"].as_array().unwrap().contains(class),
        "{quota}"
    );
    // Everywhere else only kube-system may have them.
    for document in documents("snapshot-controller.yaml") {
        let namespace = document["metadata"]["namespace"].as_str();
        assert!(namespace.is_none_or(|it| it == "kube-system"), "{document}");
    }
}
