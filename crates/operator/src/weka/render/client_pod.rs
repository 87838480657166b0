//! The pod of a client container: what runs Weka's own software on the node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use stowage_api::weka::{CpuPolicy, MODE_LABEL, WekaContainer};

use crate::config::ClientPods;
use crate::driver::{Kind, Object, Owner, metadata_labels};

/// Annotation of client pods: a hash over the settings that they were started with.
pub const SETTINGS_HASH: &str = "stowage.dev/client-settings-hash";

/// A year: a client stops when it may, not when somebody loses patience.
const GRACE: i64 = 365 * 24 * 60 * 60;

/// The pod of a container, under its name. `image`: that of the container, or the one before it while it may not change.
pub fn client_pod(container: &WekaContainer, node: &str, image: &str, site: &ClientPods) -> Object {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &container.metadata;
    let owner = Owner {
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
    };
    let mut labels: BTreeMap<_, _> = metadata.labels.clone().unwrap_or_default();
    for (key, value) in [
        ("app.kubernetes.io/name", "WekaContainer"),
        ("app.kubernetes.io/part-of", "weka-operator"),
        ("app.kubernetes.io/created-by", "weka-operator"),
        (MODE_LABEL, "client"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels.extend(metadata_labels(&owner));
    let spec = pod_spec(container, node, image, site);
    Object {
        kind: Kind::Pod,
        namespace: Some(owner.namespace),
        name: owner.name,
        labels,
        annotations: [(
            SETTINGS_HASH.to_owned(),
            settings_hash(container, node, site),
        )]
        .into(),
        body: [("spec".to_owned(), spec)].into_iter().collect(),
    }
}

/// A hash over what a pod is started with and keeps: not its image, which has its own way to change, and not where it joins its
/// cluster, which it has done.
pub fn settings_hash(container: &WekaContainer, node: &str, site: &ClientPods) -> String {
    let mut settings = container.clone();
    settings.spec.image = String::new();
    settings.spec.join_ip_ports = None;
    let spec = pod_spec(&settings, node, "", site).to_string();
    let hash = Sha256::digest(spec.as_bytes());
    let digits = hash[..8].iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn pod_spec(container: &WekaContainer, node: &str, image: &str, site: &ClientPods) -> Value {
    let spec = &container.spec;
    let mut pod = json!({
        "hostNetwork": true,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "terminationGracePeriodSeconds": GRACE,
        "affinity": affinity(container, node),
        "tolerations": tolerations(container),
        "containers": [main_container(container, image, site)],
        "volumes": volumes(container, site),
    });
    if let Some(secret) = &spec.image_pull_secret {
        pod["imagePullSecrets"] = json!([{"name": secret}]);
    }
    match &spec.service_account_name {
        Some(account) => pod["serviceAccountName"] = json!(account),
        // It needs no rights unless somebody gives it an account.
        None => pod["automountServiceAccountToken"] = json!(false),
    }
    site.extra.add_to(&mut pod);
    pod
}

fn main_container(container: &WekaContainer, image: &str, site: &ClientPods) -> Value {
    let mut main = json!({
        "name": "weka-container",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": environment(container),
        "securityContext": {"privileged": true},
        // Not in the node's `/dev`, which the container sees as its own.
        "terminationMessagePath": "/tmp/termination-log",
        "volumeMounts": mounts(container, site),
        "resources": resources(container, site),
    });
    if !site.boot_config_map.is_empty() {
        main["command"] = json!(["python3", "/opt/weka_runtime.py"]);
    }
    if let Some(probe) = &site.readiness_probe {
        main["readinessProbe"] = json!(probe);
    }
    main
}

fn environment(container: &WekaContainer) -> Vec<Value> {
    let spec = &container.spec;
    let number = |number: Option<i32>| number.unwrap_or_default().to_string();
    let range = spec.port_range.clone().unwrap_or_default();
    let cores = spec.core_ids.iter().flatten().map(i32::to_string);
    let memory = spec.hugepages.unwrap_or_default() - spec.hugepages_offset.unwrap_or_default();
    let variables = [
        ("NAME", spec.name.clone()),
        ("MODE", spec.mode.to_string()),
        (
            "JOIN_IPS",
            spec.join_ip_ports.clone().unwrap_or_default().join(","),
        ),
        ("PORT", number(spec.port)),
        ("AGENT_PORT", number(spec.agent_port)),
        ("BASE_PORT", range.base_port.to_string()),
        ("PORT_RANGE", range.port_range.to_string()),
        ("CORES", spec.num_cores.to_string()),
        ("CORE_IDS", cores.collect::<Vec<_>>().join(",")),
        ("MEMORY", format!("{memory}MiB")),
        ("IMAGE_NAME", spec.image.clone()),
        (
            "DIST_SERVICE",
            spec.drivers_dist_service.clone().unwrap_or_default(),
        ),
        (
            "AUTO_REMOVE_TIMEOUT",
            spec.auto_remove_timeout.clone().unwrap_or_default(),
        ),
        (
            "NETWORK",
            spec.network
                .as_ref()
                .map(Value::to_string)
                .unwrap_or_default(),
        ),
    ];
    let given = variables.into_iter().filter(|(_, value)| !value.is_empty());
    let mut all: Vec<_> = given
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let node = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}});
    all.push(json!({"name": "NODE_NAME", "valueFrom": node}));
    all
}

/// The name of the secret with which the client joins: the original has it where the key belongs.
fn secret(container: &WekaContainer) -> Option<&str> {
    let reference = container.spec.weka_secret_ref.as_ref()?;
    reference.pointer("/secretKeyRef/key")?.as_str()
}

/// Volumes with where they are mounted.
fn all_volumes(container: &WekaContainer, site: &ClientPods) -> Vec<(Value, Value)> {
    let uid = container.metadata.uid.as_deref().unwrap_or_default();
    let path = &site.persistence_path;
    let directory = |name: &str, path: String, at: &str, kind: &str| {
        let volume = json!({"name": name, "hostPath": {"path": path, "type": kind}});
        (volume, json!({"name": name, "mountPath": at}))
    };
    let mut all = vec![
        directory("dev", "/dev".to_owned(), "/dev", "Directory"),
        directory(
            "weka-container-persistence-dir",
            format!("{path}/containers/{uid}"),
            "/opt/weka-persistence",
            "DirectoryOrCreate",
        ),
        directory(
            "weka-container-shared-dir",
            format!("{path}/shared/containers/{uid}"),
            "/host-binds/shared",
            "DirectoryOrCreate",
        ),
    ];
    if !site.boot_config_map.is_empty() {
        let volume = json!({
            "name": "weka-boot-scripts", "configMap": {"name": site.boot_config_map},
        });
        let mount = json!({
            "name": "weka-boot-scripts", "mountPath": "/opt/weka_runtime.py", "subPath": "weka_runtime.py",
        });
        all.push((volume, mount));
    }
    if let Some(secret) = secret(container) {
        all.push((
            json!({"name": "weka-credentials", "secret": {"secretName": secret}}),
            json!({"name": "weka-credentials", "mountPath": "/var/run/secrets/weka-operator/operator-user"}),
        ));
    }
    all
}

fn volumes(container: &WekaContainer, site: &ClientPods) -> Vec<Value> {
    let all = all_volumes(container, site).into_iter();
    all.map(|(volume, _)| volume).collect()
}

fn mounts(container: &WekaContainer, site: &ClientPods) -> Vec<Value> {
    let all = all_volumes(container, site).into_iter();
    all.map(|(_, mount)| mount).collect()
}

/// Requests and limits: what the container says, or what its cores need.
fn resources(container: &WekaContainer, site: &ClientPods) -> Value {
    let spec = &container.spec;
    if let Some(chosen) = &spec.resources {
        return chosen.clone();
    }
    let (mut requests, mut limits) = (Map::new(), Map::new());
    if site.resources {
        let cores = spec.num_cores;
        let memory = 2000 + 1965 + 3050 * cores + spec.additional_memory.unwrap_or_default();
        let memory = format!("{memory}Mi");
        requests.insert("memory".to_owned(), json!(memory));
        limits.insert("memory".to_owned(), json!(memory));
        let whole = match spec.cpu_policy.clone().unwrap_or_default() {
            CpuPolicy::Dedicated => Some(cores + 1),
            CpuPolicy::DedicatedHt => Some(2 * cores + 1),
            _ => None,
        };
        let request = whole.map_or(format!("{}m", cores * 1000 + 100), |it| it.to_string());
        requests.insert("cpu".to_owned(), json!(request));
        limits.insert(
            "cpu".to_owned(),
            json!(whole.unwrap_or(cores + 1).to_string()),
        );
    }
    if site.hugepages {
        let pages = format!("{}Mi", spec.hugepages.unwrap_or_default());
        requests.insert("hugepages-2Mi".to_owned(), json!(pages));
        limits.insert("hugepages-2Mi".to_owned(), json!(pages));
        // Huge pages are only given to pods that also ask for memory or cores.
        requests.entry("cpu").or_insert(json!("100m"));
    }
    json!({"requests": requests, "limits": limits})
}

/// On its node, and no two clients on one.
fn affinity(container: &WekaContainer, node: &str) -> Value {
    let mut affinity = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
                }],
            },
        },
    });
    if !container.spec.is_overridden("dropAffinityConstraints") {
        affinity["podAntiAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchLabels": {MODE_LABEL: "client"}},
                "topologyKey": "kubernetes.io/hostname",
            }],
        });
    }
    affinity
}

/// Whether it starts and when it goes is decided here, by its own tolerations: what is mounted needs it until then.
fn tolerations(container: &WekaContainer) -> Vec<Toleration> {
    let any = ["NoSchedule", "NoExecute"].map(|effect| Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    });
    let own = container.spec.tolerations.clone().unwrap_or_default();
    own.into_iter().chain(any).collect()
}
