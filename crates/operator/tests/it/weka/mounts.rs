//! No client stops while something is mounted through it, whoever knows of it.

use serde_json::{Value, json};

use crate::told::{Sidecar, flag};
use crate::weka::life::{client_that_serves, until, with_driver};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, condition, eventually};

const CONTAINER: &str = "c-a";
const NODE_POD: &str = "c-a-csi-node";

/// Waits until the container is as it should be.
async fn until_container(rig: &Rig, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let container = rig.get("wekacontainers", CLIENTS, CONTAINER).await;
        is_so(&container).then_some(container)
    })
    .await
}

/// The sidecar of the node pod that there is.
async fn sidecar(rig: &Rig) -> Sidecar {
    let pod = rig.get("pods", CSI, NODE_POD).await["spec"].clone();
    let port = flag(&pod, "--mounts-port=").unwrap().parse().unwrap();
    let hash = flag(&pod, "--mounts-key-sha256=").unwrap();
    let sidecar = Sidecar::start("csi.weka.io", &hash, port).await;
    let address = sidecar.address.ip();
    let status = json!({"phase": "Running", "podIPs": [{"ip": address}]});
    rig.set_status("pods", CSI, NODE_POD, status).await;
    sidecar
}

async fn pod_uid(rig: &Rig) -> Value {
    let pod = rig.get("pods", CLIENTS, CONTAINER).await;
    pod["metadata"]["uid"].clone()
}

/// One that watches only sees nothing attached until the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_behind_stops_no_client_through_which_something_is_mounted() {
    let rig = client_that_serves().await;
    let pod = pod_uid(&rig).await;
    rig.fall_behind("volumeattachments").await;
    rig.attach_unnoticed("volume", "csi.weka.io", "a").await;

    let image = json!({"spec": {"image": "weka:5.0.0"}});
    rig.patch("wekaclients", CLIENTS, "c", image).await;
    let waits = until_container(&rig, "the new image waits", |it| {
        condition(it, "ContainerImageUpdated")["reason"] == "ActiveMounts"
    })
    .await;
    assert_eq!(waits["status"]["stats"]["activeMounts"], 1);
    rig.delete("wekacontainers", CLIENTS, CONTAINER).await;
    until_container(&rig, "draining", |it| it["status"]["status"] == "Draining").await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    assert_eq!(pod_uid(&rig).await, pod, "nothing stopped");

    rig.catch_up();
    rig.delete("volumeattachments", "", "volume").await;
    eventually("another client", async || {
        let now = pod_uid(&rig).await;
        (!now.is_null() && now != pod).then_some(())
    })
    .await;
    until(&rig, &with_driver(&[("c", "a")])).await;
}

/// The driver has got another name and was switched off since: nobody has unmounted what it mounted.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_mounted_keeps_its_client_whatever_has_become_of_the_driver() {
    let rig = client_that_serves().await;
    rig.attach("volume", "csi.weka.io", "a", CONTAINER).await;
    let renamed = json!({"spec": {"csiConfig": {"csiGroup": "new"}}});
    rig.patch("wekaclients", CLIENTS, "c", renamed).await;
    until_container(&rig, "another driver", |it| {
        it["status"]["csiDriverNames"] == json!(["csi.weka.io", "csi.new.weka.io"])
    })
    .await;
    rig.configure("csi: {installationEnabled: false}");
    rig.until_objects(&["pods c-a", "wekacontainers c-a"]).await;
    rig.delete("wekaclients", CLIENTS, "c").await;
    let draining =
        until_container(&rig, "draining", |it| it["status"]["status"] == "Draining").await;
    let drained = condition(&draining, "Drained");
    let message = drained["message"].as_str().unwrap();
    assert!(message.contains("`csi.weka.io`"), "{message}");
    rig.until_objects(&["pods c-a", "wekacontainers c-a"]).await;

    // Also with an operator that starts now, and with the driver that is there now.
    rig.kill().await;
    rig.configure(ON);
    rig.start(i64::MAX).await;
    rig.delete("volumeattachments", "", "volume").await;
    rig.until_objects(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_node_knows_of_keeps_its_client_and_a_node_that_does_not_tell_is_named() {
    let rig = client_that_serves().await;
    let pod = pod_uid(&rig).await;
    let sidecar = sidecar(&rig).await;
    let path = "pods/1/volumes/kubernetes.io~csi/inline/mount";
    sidecar.mount(&[path]);

    let image = |version: &str| json!({"spec": {"image": format!("weka:{version}")}});
    rig.patch("wekaclients", CLIENTS, "c", image("5.0.0")).await;
    until_container(&rig, "the new image waits", |it| {
        condition(it, "ContainerImageUpdated")["reason"] == "ActiveMounts"
    })
    .await;
    rig.delete("wekacontainers", CLIENTS, CONTAINER).await;
    let draining =
        until_container(&rig, "draining", |it| it["status"]["status"] == "Draining").await;
    assert_eq!(draining["status"]["stats"], json!({"activeMounts": 1}));
    let message = condition(&draining, "Drained")["message"].clone();
    assert!(message.as_str().unwrap().contains(path), "{message}");
    until(&rig, &with_driver(&[("c", "a")])).await;
    assert_eq!(pod_uid(&rig).await, pod, "nothing stopped");
    sidecar.mount(&[]);
    let pod = eventually("another client", async || {
        let now = pod_uid(&rig).await;
        (!now.is_null() && now != pod).then_some(now)
    })
    .await;
    until(&rig, &with_driver(&[("c", "a")])).await;

    // Nobody answers for the new node pod: what is attached decides, and it is said.
    sidecar.stop();
    rig.report(CSI, NODE_POD, true).await;
    rig.patch("wekaclients", CLIENTS, "c", image("5.0.1")).await;
    eventually("another client", async || {
        let now = pod_uid(&rig).await;
        (!now.is_null() && now != pod).then_some(())
    })
    .await;
    until_container(&rig, "it is said", |it| {
        let why = it["status"]["stats"]["unverified"].as_str();
        why.is_some_and(|why| why.contains("does not answer"))
    })
    .await;
}
