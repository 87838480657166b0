//! Nodes, containers and clients go while volumes are mounted.

use std::slice;

use serde_json::{Value, json};
use stowage_tests::{eventually, get, pod_in_phase, text};

use super::weka_clients::{exec, mount_works, read};
use super::weka_clients_second::stage;
use super::weka_clients_seen::{is_going, objects, topology, uids, until_driver_is_gone};
use super::weka_owned::{CSI, DRIVER, NODES, Owned, cluster};

/// A node is tainted, and the container of another one is deleted: both clients stay until the last volume there is
/// unmounted. Then the first is gone, and the second is made anew.
pub fn leave_nodes(owned: &Owned) {
    let namespace = &owned.namespace;
    let (tainted, deleted) = (NODES[1], NODES[2]);
    let uid = |it: Value| text(&it["metadata"]["uid"]).to_owned();
    let before = owned.container("clients", deleted).map(uid);
    cluster()
        .kubectl(&["taint", "node", tainted, "maintenance=yes:NoExecute"])
        .unwrap();
    let container = format!("clients-{deleted}");
    namespace
        .kubectl(&["delete", "wekacontainer", &container, "--wait=false"])
        .unwrap();
    for (node, pod) in [(tainted, "reader-b"), (deleted, "reader-c")] {
        owned.until_container_is("clients", node, "Draining");
        eventually("nothing new comes to the node", || {
            topology(node).is_empty().then_some(())
        });
        assert!(owned.has_pods("clients", node), "{node}");
        mount_works(namespace, pod);
    }
    namespace
        .kubectl(&["delete", "pod", "reader-b", "reader-c"])
        .unwrap();
    owned.until_left("clients", tainted);
    eventually("another container", || {
        let now = owned.container("clients", deleted).map(uid);
        let is_back = now.is_some() && now != before && !topology(deleted).is_empty();
        is_back.then_some(())
    });
}

/// A toleration brings the client of the tainted node back. The controller and node pods have it; clients go on as they are.
pub fn tolerate(owned: &Owned) {
    owned.until_deployed("clients", 2);
    let [before_client, before_beside] = owned.pods_on("clients", NODES[0]);
    let before = objects(DRIVER);
    owned.patch(
        "wekaclient/clients",
        r#"{"spec": {"tolerations": ["maintenance"]}}"#,
    );
    owned.until_deployed("clients", 3);
    let has_it = |pod: &Value| {
        let tolerations = pod["spec"]["tolerations"].as_array();
        let mut tolerations = tolerations.into_iter().flatten();
        tolerations.any(|it| it["key"] == "maintenance")
    };
    let [client, beside] = eventually("the node pod is another one", || {
        let pods = owned.pods_on("clients", NODES[0]);
        let has_it = pods[1].as_ref().is_some_and(has_it);
        has_it.then_some(pods)
    });
    assert_eq!(uids(&[client]), uids(&[before_client]));
    assert_ne!(uids(slice::from_ref(&beside)), uids(&[before_beside]));
    let beside = beside.unwrap();
    assert!(beside["spec"]["nodeSelector"].is_null(), "{beside}");
    let affinity = &beside["spec"]["affinity"]["nodeAffinity"];
    assert!(affinity.to_string().contains(NODES[0]), "{affinity}");

    let template = controller_template();
    assert!(has_it(&template), "{template}");
    assert_eq!(objects(DRIVER), before);
}

/// From which the pods of the controller are made.
fn controller_template() -> Value {
    let words = ["get", "deployment", "weka-csi-controller", CSI];
    let found = cluster().kubectl(&[&words[..], &["-o", "json"]].concat());
    let found: Value = serde_json::from_str(&found.unwrap()).unwrap();
    found["spec"]["template"].clone()
}

/// Two of the three nodes are not selected any more. With a volume mounted on one of them, its client stays until that is
/// unmounted, also where the attachment that told of it is lost.
pub fn change_the_selector(owned: &Owned) {
    let namespace = &owned.namespace;
    read(namespace, "reader-b", "shared", NODES[1]);
    pod_in_phase(namespace, "reader-b", "Running");
    let selector = format!(
        r#"{{"spec": {{"nodeSelector": {{"kubernetes.io/hostname": "{}"}}}}}}"#,
        NODES[0]
    );
    owned.patch("wekaclient/clients", &selector);
    owned.until_container_is("clients", NODES[1], "Draining");
    owned.until_left("clients", NODES[2]);
    eventually("the node tells of the mount", || {
        // They are made again.
        lose_attachments(NODES[1]);
        let container = owned.container("clients", NODES[1])?;
        let conditions = container["status"]["conditions"].as_array()?;
        let drained = conditions.iter().find(|it| it["type"] == "Drained")?;
        let is_told = text(&drained["message"]).contains("/volumes/kubernetes.io~csi/");
        is_told.then_some(())
    });
    assert!(owned.has_pods("clients", NODES[1]));
    mount_works(namespace, "reader-b");
    namespace.kubectl(&["delete", "pod", "reader-b"]).unwrap();
    owned.until_left("clients", NODES[1]);
    assert!(owned.has_pods("clients", NODES[0]));
    assert!(!topology(NODES[0]).is_empty());
    owned.until_deployed("clients", 1);
    let selector = &controller_template()["spec"]["nodeSelector"];
    assert_eq!(*selector, json!({"kubernetes.io/hostname": NODES[0]}));
}

/// Somebody deletes the attachments of volumes that are mounted on a node: from then on only the node knows of them.
fn lose_attachments(node: &str) {
    let all = cluster().kubectl(&["get", "volumeattachments", "-o", "json"]);
    let all: Value = serde_json::from_str(&all.unwrap()).unwrap();
    let all = all["items"].as_array().unwrap().iter();
    let there = all.filter(|it| it["spec"]["nodeName"] == node);
    for attachment in there {
        let name = text(&attachment["metadata"]["name"]);
        cluster()
            .kubectl(&["delete", "volumeattachment", name, "--ignore-not-found"])
            .unwrap();
    }
}

/// The client goes while a volume is mounted, and is slow to stop: in its order, and everything.
pub fn leave(owned: &Owned) {
    let namespace = &owned.namespace;
    let all = objects(DRIVER);
    stage(
        owned,
        "clients",
        NODES[0],
        &owned.prod,
        r#"{"connected": true, "module": true, "stop": {"after": 8000}}"#,
    );
    namespace
        .kubectl(&["delete", "wekaclient", "clients", "--wait=false"])
        .unwrap();
    owned.until_container_is("clients", NODES[0], "Draining");
    let written = exec(namespace, "writer", "cat /tmp/written");
    eventually("the writer goes on", || {
        (exec(namespace, "writer", "cat /tmp/written") != written).then_some(())
    });
    assert!(owned.has_pods("clients", NODES[0]));
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    // Nothing goes before the client has stopped.
    eventually("the client is told to stop", || {
        let [client, _] = owned.pods_on("clients", NODES[0]);
        is_going(client.as_ref()).then_some(())
    });
    let objects_then = objects(DRIVER);
    let [_, beside] = owned.pods_on("clients", NODES[0]);
    let [client, _] = owned.pods_on("clients", NODES[0]);
    assert!(client.is_some(), "it is slow to stop");
    assert!(beside.is_some() && !is_going(beside.as_ref()));
    assert_eq!(objects_then, all);
    // Other projects' sidecars do not tell what is mounted.
    // Written after the pod was told to stop, and before it is gone.
    eventually("the status says so", || {
        let container = owned.container("clients", NODES[0])?;
        container["status"]["stats"]["unverified"]
            .is_string()
            .then_some(())
    });
    eventually("the client is gone", || {
        get(namespace, "wekaclient", "clients")
            .is_none()
            .then_some(())
    });
    assert!(
        !owned
            .pods_on("clients", NODES[0])
            .iter()
            .any(Option::is_some)
    );
    assert!(topology(NODES[0]).is_empty());
    until_driver_is_gone(DRIVER);
}
