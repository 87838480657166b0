//! A second Weka cluster, whose clients share the driver of the first and then have one of their own; clients that are unhealthy and
//! clients that refuse to stop.

use std::collections::BTreeSet;

use stowage_tests::{eventually, get, pod_in_phase, text};

use super::weka_array::Array;
use super::weka_clients::{mount_works, read, share};
use super::weka_clients_seen::{is_going, objects, topology, until_driver_is_gone};
use super::weka_owned::{DRIVER, NODES, Owned};
use super::weka_volumes::directory;

/// Where its one client is.
const NODE: &str = NODES[2];

/// How the array wants a client of it to be from now on.
pub fn stage(owned: &Owned, client: &str, node: &str, array: &Array, how: &str) {
    let container = owned.container(client, node).unwrap();
    let name = text(&container["spec"]["name"]);
    let change = format!("put /frontends/{name} '{how}'");
    array.ask_from(&owned.namespace, "writer", &change);
}

/// From its first client to its last; nothing of the first cluster is changed by it.
pub fn bring_a_second_cluster(owned: &Owned) {
    let of_first = objects(DRIVER);
    share_the_driver(owned);
    assert_eq!(objects(DRIVER), of_first);

    let driver = format!("csi.second-{}.weka.io", owned.namespace.name());
    let of_second = have_an_own_driver(owned, &driver);
    let others = |it: &String| !of_first.contains(it);
    assert!(of_second.iter().all(others), "{of_second:?}");
    // As many of each kind.
    let kinds = |all: &BTreeSet<String>| {
        let kinds = all
            .iter()
            .map(|it| it.split('/').next().unwrap().to_owned());
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&of_second), kinds(&of_first));
    fall_ill(owned);
    refuse_to_stop(owned, &of_second);
    until_driver_is_gone(&driver);
    assert_eq!(objects(DRIVER), of_first);
    owned.until("clients", "/status/csi/nodes", "1/1");
}

/// Both WekaClusters have the same `csiDriverName`.
fn share_the_driver(owned: &Owned) {
    let here = format!("  nodeSelector: {{kubernetes.io/hostname: {NODE}}}\n");
    let impatient = "  overrides: {skipActiveMountsCheck: true}\n";
    let csi = format!("csiDriverName: {DRIVER}");
    owned.start_clients("second", &owned.second, &csi, &[&here, impatient].concat());
    owned.until_deployed("second", 1);
    let of = format!("{}/clients", owned.namespace.name());
    for client in ["clients", "second"] {
        owned.until(client, "/status/csi/driverName", DRIVER);
        owned.until(client, "/status/csi/owner", &of);
    }
    eventually("the node is of the driver", || {
        let labels = topology(NODE);
        let is_of_driver = |it: &String| it.starts_with(&format!("topology.{DRIVER}/"));
        (labels.len() == 3 && labels.iter().all(is_of_driver)).then_some(())
    });
}

/// One of them has none: volumes of each are on its own array. Returns the objects of the driver.
fn have_an_own_driver(owned: &Owned, driver: &str) -> BTreeSet<String> {
    let namespace = &owned.namespace;
    owned.patch(
        "wekacluster/second",
        r#"{"spec": {"csiConfig": {"csiDriverName": null}}}"#,
    );
    owned.until("second", "/status/csi/driverName", driver);
    owned.until_deployed("second", 1);
    eventually("the node is of the other driver", || {
        let labels = topology(NODE);
        let is_of_driver = |it: &String| it.starts_with(&format!("topology.{driver}/"));
        (labels.len() == 3 && labels.iter().all(is_of_driver)).then_some(())
    });
    let class = owned.said("second", "/status/csi/storageClasses/0");
    share(namespace, "guest", &class);
    let directory = directory(namespace, "guest");
    assert!(owned.second.files(&directory).is_some() && owned.prod.files(&directory).is_none());
    read(namespace, "guest", "guest", NODE);
    pod_in_phase(namespace, "guest", "Running");
    mount_works(namespace, "guest");
    let file = format!("{directory}/guest");
    assert!(owned.second.files(&file).is_some() && owned.prod.files(&file).is_none());
    objects(driver)
}

/// A client that has lost its cluster gets nothing new, and what is mounted stays. It concerns no other client.
fn fall_ill(owned: &Owned) {
    let before = topology(NODE);
    stage(
        owned,
        "second",
        NODE,
        &owned.second,
        r#"{"connected": false, "module": true}"#,
    );
    owned.until_container_is("second", NODE, "Unhealthy");
    eventually("nothing new comes to the node", || {
        topology(NODE).is_empty().then_some(())
    });
    assert!(!topology(NODES[0]).is_empty());
    assert!(owned.has_pods("second", NODE));
    mount_works(&owned.namespace, "guest");
    stage(
        owned,
        "second",
        NODE,
        &owned.second,
        r#"{"connected": true, "module": true, "stop": "when_unmounted"}"#,
    );
    owned.until_container_is("second", NODE, "Running");
    eventually("the node is back", || {
        (topology(NODE) == before).then_some(())
    });
}

/// A client that is told to stop while something is mounted, because nobody is to wait, and does not: what is beside it stays, so
/// that it can be unmounted.
fn refuse_to_stop(owned: &Owned, objects_before: &BTreeSet<String>) {
    let namespace = &owned.namespace;
    let driver = owned.said("second", "/status/csi/driverName");
    namespace
        .kubectl(&["delete", "wekaclient", "second", "--wait=false"])
        .unwrap();
    eventually("the client is told to stop", || {
        let [client, _] = owned.pods_on("second", NODE);
        is_going(client.as_ref()).then_some(())
    });
    mount_works(namespace, "guest");
    let [client, beside] = owned.pods_on("second", NODE);
    assert!(client.is_some() && beside.is_some() && !is_going(beside.as_ref()));
    assert_eq!(objects(&driver), *objects_before);
    owned.until_container_is("second", NODE, "Deleting");

    // While the driver is there to delete the volume.
    namespace.kubectl(&["delete", "pod", "guest"]).unwrap();
    eventually("the client is gone", || {
        let is_gone = get(namespace, "wekaclient", "second").is_none();
        is_gone.then_some(())
    });
    assert!(!owned.pods_on("second", NODE).iter().any(Option::is_some));
    assert!(topology(NODE).is_empty());
}
