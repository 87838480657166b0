//! Clients and containers come and go.

use std::collections::BTreeSet;

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::weka::rig::{CLIENTS, CSI, ON, Rig, eventually};

/// What the driver `csi.weka.io` consists of.
pub(crate) const DRIVER: [&str; 12] = [
    "clusterrolebindings weka-csi-csi.weka.io",
    "clusterroles weka-csi-csi.weka.io",
    "csidrivers csi.weka.io",
    "deployments weka-csi-controller",
    "poddisruptionbudgets weka-csi-controller",
    "rolebindings leader-election-weka-csi-controller",
    "rolebindings weka-csi-csi.weka.io-secrets",
    "roles leader-election-weka-csi-controller",
    "roles weka-csi-csi.weka.io-secrets",
    "serviceaccounts weka-csi-controller",
    "serviceaccounts weka-csi-node",
    "storageclasses storageclass-csi-weka-io-default",
];
const DIRECT: &str = "storageclasses storageclass-csi-weka-io-default-forcedirect";

/// What a client has on a node.
pub(crate) fn on_node(client: &str, node: &str) -> [String; 3] {
    [
        format!("pods {client}-{node}"),
        format!("pods {client}-{node}-csi-node"),
        format!("wekacontainers {client}-{node}"),
    ]
}

/// The driver, and these clients on these nodes.
pub(crate) fn with_driver(places: &[(&str, &str)]) -> Vec<String> {
    let driver = DRIVER.iter().chain([&DIRECT]).map(|it| (*it).to_owned());
    let places = places
        .iter()
        .flat_map(|(client, node)| on_node(client, node));
    driver.chain(places).collect()
}

/// The same with the driver `csi.<word>.weka.io`.
pub(crate) fn with_driver_named(word: &str, places: &[(&str, &str)]) -> Vec<String> {
    let named = |it: &String| {
        it.replace(
            "weka-csi-csi.weka.io",
            &format!("weka-csi-csi.{word}.weka.io"),
        )
        .replace("weka-csi-controller", &format!("{word}-csi-controller"))
        .replace("weka-csi-node", &format!("{word}-csi-node"))
        .replace(
            "csidrivers csi.weka.io",
            &format!("csidrivers csi.{word}.weka.io"),
        )
        .replace("csi-weka-io", &format!("csi-{word}-weka-io"))
    };
    with_driver(places).iter().map(named).collect()
}

pub(crate) async fn until(rig: &Rig, expected: &[String]) {
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    rig.until_objects(&expected).await;
}

/// A client `c` on its one node `a`, with its driver, and the node labelled because the client serves there.
pub(crate) async fn client_that_serves() -> Rig {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({})).await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    rig.report(CLIENTS, "c-a", true).await;
    eventually("labelled", async || {
        (rig.node_labels("a").await.len() == 3).then_some(())
    })
    .await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_brings_its_driver_along_and_takes_it_away() {
    let rig = Rig::started(&["a"], ON).await;
    // A node without any label.
    rig.create("nodes", json!({"metadata": {"name": "b"}}))
        .await;
    rig.create_client("c", json!({})).await;
    until(&rig, &with_driver(&[("c", "a"), ("c", "b")])).await;
    let client = rig
        .until_client("c", "deployed", |it| {
            it["status"]["csi"]["nodes"] == "0/2" && it["status"]["csiDeployed"] == true
        })
        .await;
    assert_eq!(client["status"]["csi"]["driverName"], "csi.weka.io");
    assert_eq!(
        client["status"]["csi"]["controller"],
        "weka-operator-system/weka-csi-controller"
    );
    assert_eq!(client["status"]["csi"]["owner"], "weka/c");
    let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
    assert_eq!(container["spec"]["csiDriverName"], "csi.weka.io");
    assert_eq!(container["spec"]["nodeAffinity"], "a");
    assert_eq!(container["metadata"]["generation"], 1, "written once");

    for node in ["a", "b"] {
        rig.report(CLIENTS, &format!("c-{node}"), true).await;
        rig.report(CSI, &format!("c-{node}-csi-node"), true).await;
    }
    let client = rig
        .until_client("c", "all ready", |it| {
            let status = &it["status"];
            status["csi"]["nodes"] == "2/2" && status["printer"]["containers"] == "2/2/2"
        })
        .await;
    assert_eq!(client["status"]["status"], "Running");
    for node in ["a", "b"] {
        let labels = [
            "topology.csi.weka.io/accessible=true".to_owned(),
            format!("topology.csi.weka.io/node={node}"),
            "topology.csi.weka.io/transport=wekafs".to_owned(),
        ];
        eventually("labelled", async || {
            (rig.node_labels(node).await == labels).then_some(())
        })
        .await;
    }

    rig.delete("wekaclients", CLIENTS, "c").await;
    eventually("gone", async || {
        rig.client_named("c").await.is_null().then_some(())
    })
    .await;
    // The client is the last to go.
    assert_eq!(rig.objects().await, BTreeSet::new());
    for node in ["a", "b"] {
        assert_eq!(rig.node_labels(node).await, Vec::<String>::new());
    }
}

/// What people type, as the documentation of the original has it, and what they read.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documentation_show_what_it_says() {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({"coresNum": 2})).await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    rig.until_client("c", "deployed", |it| {
        let status = &it["status"];
        status["csi"]["nodes"] == "0/1"
            && status["csiDeployed"] == true
            && status["printer"]["containers"] == "0/1/1"
    })
    .await;
    let deployed = [
        "get",
        "wekaclient",
        "c",
        "-n",
        CLIENTS,
        "-o",
        "jsonpath={.status.csiDeployed}",
    ];
    assert_eq!(rig.kubectl(&deployed), "true");
    let lines = |arguments: &[&str], found: &str| {
        let shown = rig.kubectl(arguments);
        let lines = shown.lines().filter(|line| line.contains(found));
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&["get", "storageclass"], "weka-io"),
        [
            "storageclass-csi-weka-io-default",
            "storageclass-csi-weka-io-default-forcedirect"
        ]
    );
    let deployments = lines(&["get", "deployment", "-n", CSI], "csi-controller");
    assert_eq!(deployments, ["weka-csi-controller"]);
    assert_eq!(
        lines(&["get", "pods", "-n", CSI], "csi-node"),
        ["c-a-csi-node"]
    );
    let table = rig.kubectl(&["get", "wekaclients", "-n", CLIENTS]);
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        words[..6],
        ["c", "Running", "2", "0/1/1", "csi.weka.io", "0/1"],
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_follow_labels_and_taints_of_nodes() {
    let rig = Rig::started(&["a", "b"], ON).await;
    let label = |value: Value| json!({"metadata": {"labels": {"weka": value}}});
    rig.patch("nodes", "", "a", label(json!("yes"))).await;
    rig.create_client("c", json!({"nodeSelector": {"weka": "yes"}}))
        .await;
    until(&rig, &with_driver(&[("c", "a")])).await;

    rig.patch("nodes", "", "b", label(json!("yes"))).await;
    until(&rig, &with_driver(&[("c", "a"), ("c", "b")])).await;
    rig.patch("nodes", "", "a", label(Value::Null)).await;
    until(&rig, &with_driver(&[("c", "b")])).await;

    // A client that is there stays, and none starts. What happens to the last node says that the others were looked at.
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    rig.patch("nodes", "", "b", taint("NoSchedule")).await;
    rig.add_node("c").await;
    rig.patch("nodes", "", "c", taint("NoSchedule")).await;
    rig.patch("nodes", "", "c", label(json!("yes"))).await;
    rig.add_node("d").await;
    rig.patch("nodes", "", "d", label(json!("yes"))).await;
    until(&rig, &with_driver(&[("c", "b"), ("c", "d")])).await;
    rig.delete("nodes", "", "d").await;
    until(&rig, &with_driver(&[("c", "b")])).await;
    rig.delete("nodes", "", "c").await;

    rig.patch("nodes", "", "b", taint("NoExecute")).await;
    until(&rig, &with_driver(&[])).await;
    rig.patch(
        "wekaclients",
        CLIENTS,
        "c",
        json!({"spec": {"tolerations": ["k"]}}),
    )
    .await;
    until(&rig, &with_driver(&[("c", "b")])).await;
    rig.delete("nodes", "", "b").await;
    until(&rig, &with_driver(&[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_drains_before_its_pods_go_in_order() {
    let rig = client_that_serves().await;
    rig.attach("volume", "csi.weka.io", "a", "c-a").await;

    rig.delete("wekaclients", CLIENTS, "c").await;
    let container = eventually("draining", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        (container["status"]["status"] == "Draining").then_some(container)
    })
    .await;
    let drained = crate::weka::rig::condition(&container, "Drained");
    assert_eq!(drained["reason"], "ActiveMounts");
    assert_eq!(container["status"]["stats"]["activeMounts"], 1);
    // Nothing new comes to the node, and everything that is needed to unmount is there.
    eventually("no labels", async || {
        rig.node_labels("a").await.is_empty().then_some(())
    })
    .await;
    rig.until_client("c", "going", |it| it["status"]["status"] == "Destroying")
        .await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    // Even when somebody takes the node pod away.
    rig.delete("pods", CSI, "c-a-csi-node").await;
    until(&rig, &with_driver(&[("c", "a")])).await;

    rig.delete("volumeattachments", "", "volume").await;
    rig.until_objects(&[]).await;
    eventually("gone", async || {
        rig.client_named("c").await.is_null().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_container_comes_back_and_an_edited_one_is_restored() {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({})).await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    let uid = |container: &Value| container["metadata"]["uid"].clone();
    let before = rig.get("wekacontainers", CLIENTS, "c-a").await;
    rig.delete("wekacontainers", CLIENTS, "c-a").await;
    eventually("another one", async || {
        let now = rig.get("wekacontainers", CLIENTS, "c-a").await;
        (!now.is_null() && uid(&now) != uid(&before)).then_some(())
    })
    .await;
    until(&rig, &with_driver(&[("c", "a")])).await;

    let edit = json!({"spec": {"numCores": 7, "csiDriverName": "mine"}});
    rig.patch("wekacontainers", CLIENTS, "c-a", edit).await;
    eventually("restored", async || {
        let now = rig.get("wekacontainers", CLIENTS, "c-a").await;
        (now["spec"]["numCores"] == 1 && now["spec"]["csiDriverName"] == "csi.weka.io")
            .then_some(())
    })
    .await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    // Whoever looks at the client reads what became of the edit.
    eventually("it is told", async || {
        let events = rig
            .api("events", CLIENTS)
            .list(&ListParams::default())
            .await;
        let events = events.unwrap();
        let told = events
            .iter()
            .find(|it| it.data["reason"] == "DriftReverted")?;
        assert_eq!(told.data["involvedObject"]["kind"], "WekaClient");
        let message = told.data["message"].as_str().unwrap();
        assert!(message.contains("WekaContainer weka/c-a"), "{message}");
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_runs_keeps_its_settings_until_its_pod_is_replaced_and_says_so() {
    let rig = client_that_serves().await;
    let settings = async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        crate::weka::rig::condition(&container, "ContainerSettingsApplied")
    };
    assert!(settings().await.is_null());
    let pod = rig.get("pods", CLIENTS, "c-a").await;
    let resources = json!({"limits": {"memory": "1Gi"}});
    let change = json!({"coresNum": 2, "network": {"udpMode": true}, "resources": resources});
    rig.patch("wekaclients", CLIENTS, "c", json!({"spec": change}))
        .await;
    let told = eventually("it is said", async || {
        let told = settings().await;
        (told["reason"] == "PodOutdated").then_some(told)
    })
    .await;
    assert_eq!(told["status"], "False");
    let same = rig.get("pods", CLIENTS, "c-a").await;
    assert_eq!(same["metadata"]["uid"], pod["metadata"]["uid"]);

    rig.delete("pods", CLIENTS, "c-a").await;
    eventually("the new pod has them", async || {
        let pod = rig.get("pods", CLIENTS, "c-a").await;
        let env = pod["spec"]["containers"][0]["env"].as_array()?;
        let has_cores = env.contains(&json!({"name": "CORES", "value": "2"}));
        (has_cores && settings().await.is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_mounts_and_rolls_one_by_one() {
    let rig = Rig::started(&["a", "b"], ON).await;
    rig.create_client("c", json!({"upgradePolicy": {"type": "rolling"}}))
        .await;
    until(&rig, &with_driver(&[("c", "a"), ("c", "b")])).await;
    for pod in ["c-a", "c-b"] {
        rig.report(CLIENTS, pod, true).await;
    }
    rig.until_client("c", "all run", |it| {
        it["status"]["printer"]["containers"] == "2/2/2"
    })
    .await;
    rig.attach("volume", "csi.weka.io", "a", "c-a").await;
    rig.patch(
        "wekaclients",
        CLIENTS,
        "c",
        json!({"spec": {"image": "weka:5.0.0"}}),
    )
    .await;
    eventually("waits for mounts", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        let condition = crate::weka::rig::condition(&container, "ContainerImageUpdated");
        (condition["reason"] == "ActiveMounts").then_some(())
    })
    .await;
    let image = async |pod: &str| {
        let pod = rig.get("pods", CLIENTS, pod).await;
        pod["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image("c-a").await, "weka:4.4.5");
    rig.until_client("c", "upgrading", |it| it["status"]["status"] == "Upgrading")
        .await;
    let second = rig.get("wekacontainers", CLIENTS, "c-b").await;
    assert_eq!(second["spec"]["image"], "weka:4.4.5", "one after the other");

    rig.delete("volumeattachments", "", "volume").await;
    eventually("the first", async || {
        (image("c-a").await == "weka:5.0.0").then_some(())
    })
    .await;
    assert_eq!(image("c-b").await, "weka:4.4.5");
    rig.report(CLIENTS, "c-a", true).await;
    eventually("the second", async || {
        (image("c-b").await == "weka:5.0.0").then_some(())
    })
    .await;
    rig.report(CLIENTS, "c-b", true).await;
    rig.until_client("c", "done", |it| it["status"]["status"] == "Running")
        .await;
}
