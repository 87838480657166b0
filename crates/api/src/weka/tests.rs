//! Objects as Weka's operator writes them, read and written again, and what the definitions promise.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::CrdGroup;

/// Reads an object and returns it; fails if writing it again gives anything else.
fn round_trip<T: Serialize + DeserializeOwned>(kind: &str, rest: &Value) -> T {
    let mut wire = json!({
        "apiVersion": "weka.weka.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "n", "namespace": "ns"},
    });
    wire.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    object
}

#[test]
fn a_client_of_the_documentation_round_trips_with_fields_that_are_not_ours() {
    let client: WekaClient = round_trip(
        "WekaClient",
        &json!({
            "spec": {
                "image": "quay.io/weka.io/weka-in-container:4.4.5.118",
                "imagePullSecret": "quay-io-robot-secret",
                "driversDistService": "https://drivers.weka.io",
                "portRange": {"basePort": 46000, "portRange": 0},
                "nodeSelector": {"weka.io/supports-clients": "true"},
                "wekaSecretRef": "weka-client-cluster1",
                "targetCluster": {"name": "cluster1", "namespace": "default"},
                "network": {"ethDevice": "mlnx0", "udpMode": false},
                "cpuPolicy": "dedicated_ht", "coresNum": 2,
                "tolerations": ["simple-toleration"],
                "rawTolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
                "upgradePolicy": {"type": "rolling"},
                "wekaHome": {"cacertSecret": "ca"},
                "csiConfig": {
                    "csiGroup": "groupName",
                    "advanced": {"enforceTrustedHttps": true, "nodeLabels": {"a": "b"}, "later": [1]},
                },
            },
            "status": {
                "status": "Upgrading", "lastAppliedSpec": "abc", "csiDeployed": true,
                "stats": {"containers": {"active": 1, "created": 2, "desired": 3}},
                "printer": {"containers": "1/2/3"},
            },
        }),
    );
    assert_eq!(client.spec.upgrade_type(), UpgradeType::Rolling);
    assert_eq!(client.spec.cores(), 2);
    let tolerations = client.spec.all_tolerations();
    let shown: Vec<_> = tolerations
        .iter()
        .map(|it| {
            (
                it.key.as_deref().unwrap(),
                it.effect.as_deref().unwrap(),
                it.operator.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("simple-toleration", "NoSchedule", "Exists"),
            ("simple-toleration", "NoExecute", "Exists"),
            ("k", "NoExecute", "Exists"),
        ]
    );
    assert_eq!(client.status.unwrap().status, ClientState::Upgrading);
}

#[test]
fn what_is_left_out_has_the_defaults_of_the_original() {
    let client: WekaClient = round_trip("WekaClient", &json!({"spec": {"image": "i:1.2.3"}}));
    assert_eq!(client.spec.upgrade_type(), UpgradeType::AllAtOnce);
    assert_eq!(client.spec.cores(), 1);
    assert_eq!(client.spec.all_tolerations(), []);
    assert_eq!(WekaClientStatus::default().status, ClientState::Init);
    assert!(!WekaClientStatus::default().csi_deployed);
}

#[test]
fn a_container_round_trips_with_states_that_are_not_ours() {
    let container: WekaContainer = round_trip(
        "WekaContainer",
        &json!({
            "spec": {
                "nodeAffinity": "worker-1", "image": "i:4.4.5", "name": "1234client", "mode": "client", "numCores": 1,
                "wekaSecretRef": {"secretKeyRef": {"key": "weka-client-c"}},
                "joinIpPorts": ["10.0.0.1:14000"], "state": "active", "csiDriverName": "csi.weka.io",
                "overrides": {"skipActiveMountsCheck": true}, "ipv6": true,
            },
            "status": {"status": "WaitForDrivers", "containerID": 7, "nodeAffinity": "worker-1"},
        }),
    );
    assert_eq!(container.node(), Some("worker-1"));
    assert!(container.spec.is_overridden("skipActiveMountsCheck"));
    assert!(!container.spec.is_overridden("forceDrain"));
    let state = container.status.unwrap().status;
    assert_eq!(state, ContainerState::Other("WaitForDrivers".to_owned()));
}

#[test]
fn a_cluster_keeps_everything_that_is_somebody_elses() {
    let cluster: WekaCluster = round_trip(
        "WekaCluster",
        &json!({
            "spec": {
                "template": "dynamic", "dynamicTemplate": {"computeContainers": 6}, "image": "i:4.4.5",
                "csiConfig": {"csiDriverName": "csi.weka.io", "endpointsSubnets": ["10.0.0.0/8"]},
            },
            "status": {"status": "Ready", "clusterID": "x", "throughput": "1"},
        }),
    );
    assert_eq!(
        cluster.spec.csi_config.unwrap().csi_driver_name,
        "csi.weka.io"
    );
}

#[test]
fn columns_are_those_of_the_original_and_the_csi_driver() {
    let columns: Vec<String> = CrdGroup::Weka
        .crds()
        .into_iter()
        .map(|crd| {
            let columns = crd.spec.versions[0].additional_printer_columns.clone();
            let shown = columns
                .unwrap()
                .into_iter()
                .map(|column| match column.priority {
                    Some(1) => format!("({})", column.name),
                    _ => column.name,
                });
            let shown: Vec<_> = shown.collect();
            format!("{}: {}", crd.spec.names.kind, shown.join(", "))
        })
        .collect();
    assert_eq!(
        columns,
        [
            "WekaClient: Status, Target Cluster, Cores, Containers(A/C/D), CSI Driver, CSI Nodes, Age",
            "WekaContainer: Status, Mode, Management IPs, Node, (Mounts), (CSI Driver), Age",
            "WekaCluster: Status, (Cluster ID), Age",
        ]
    );
}

/// Fields that only Weka's operator knows must stay when this one writes.
#[test]
fn no_object_drops_unknown_fields() {
    fn check(path: &str, schema: &Value) {
        let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let is_map = schema["additionalProperties"].is_object();
        assert!(schema["type"] != "object" || keeps || is_map, "{path}");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{name}"), property);
        }
    }
    for crd in CrdGroup::Weka.crds() {
        let schema = crd.spec.versions[0].schema.clone().unwrap();
        let schema = serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap();
        for part in ["spec", "status"] {
            let path = format!("{}.{part}", crd.spec.names.kind);
            check(&path, &schema["properties"][part]);
        }
    }
}
