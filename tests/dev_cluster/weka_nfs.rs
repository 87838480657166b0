//! A node that mounts by NFS beside one whose Weka client does, on one volume; and a client that is lost and comes back.

use devcluster::testing::Namespace;
use stowage_tests::copies::exec;
use stowage_tests::{cluster, eventually, get, pod_in_phase, text, until_volume_is_gone};

use super::claims::Pod;
use super::weka_array::{Array, Driver};
use super::weka_pair::{NODES, pair};
use super::weka_volumes::{class, remove};

/// It writes who it is, and waits for more.
const WRITE: &str = "echo $HOSTNAME >> /data/log && sleep 3600";

const CLAIM: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: CLASS
  resources: {requests: {storage: 16Mi}}
";

/// Starts a pod on a node; returns how its volume is mounted.
fn start(namespace: &Namespace, name: &str, node: &str) -> String {
    Pod::new(name, "data", WRITE)
        .scheduled_to(node)
        .start(namespace);
    pod_in_phase(namespace, name, "Running");
    exec(
        namespace,
        name,
        "grep ' /data ' /proc/mounts | cut -d ' ' -f 3",
    )
}

fn connect(array: &Array, is_connected: bool) {
    let container = &array.weka.container;
    let change =
        format!("put /frontends/{container} '{{\"connected\": {is_connected}, \"module\": true}}'");
    array.ask("connect", &change);
}

/// The cluster serves NFS at the address of its service.
fn add_interface_group(array: &Array) {
    let address = array.address();
    let group = format!(
        "{{\"kind\":\"InterfaceGroup\",\"object\":{{\"uid\":\"nfs\",\"name\":\"nfs\",\"type\":\"NFS\",\"ips\":[\"{address}\"],\
         \"status\":\"OK\",\"gateway\":\"\",\"subnet_mask\":\"\"}}}}"
    );
    let add = format!("wget -qO- --header \"$json\" --post-data '{group}' $control/objects");
    array.ask("serve-nfs", &add);
}

fn transport(node: &str) -> String {
    let path = "jsonpath={.metadata.labels.topology\\.nfs\\.weka\\.io/transport}";
    cluster()
        .kubectl(&["get", "node", node, "-o", path])
        .unwrap()
}

#[test]
fn nodes_share_a_volume_by_client_and_by_nfs_and_a_lost_client_is_replaced_by_nfs() {
    let mut pair = pair();
    let pair = &mut pair;
    // The first node is a client of this cluster, the second of the other one only.
    pair.east.weka.has_nfs = true;
    pair.apart();
    let driver = Driver::named("csi-weka-nfs", "nfs.weka.io");
    driver.deploy(
        &pair.east,
        r#"{"op": "add", "path": "/spec/driverPerNodeTemplate/spec/containers/0/args/-", "value": "--node-label-patience-seconds=4"}"#,
    );
    pair.east.apply_secret("secret", &driver.name);
    add_interface_group(&pair.east);
    driver.wait();
    let namespace = cluster().namespace("weka-nfs").unwrap();
    let class = class(&namespace, &driver, "nfs", "default", Some(["secret"; 3]));
    namespace.apply(&CLAIM.replace("CLASS", &class)).unwrap();

    assert_eq!(start(&namespace, "by-client", NODES[0]), "fuse.wekafs");
    assert_eq!(start(&namespace, "by-nfs", NODES[1]), "fuse.nfs");
    let log = |pod: &str| exec(&namespace, pod, "cat /data/log");
    assert_eq!(log("by-client"), "by-client\nby-nfs");
    assert_eq!(log("by-client"), log("by-nfs"));
    assert_eq!(
        NODES.map(transport),
        ["wekafs", "wekafs"],
        "each has a client, of one cluster or the other"
    );

    connect(&pair.east, false);
    eventually("the node's label says that it mounts by NFS", || {
        (transport(NODES[0]) == "nfs").then_some(())
    });
    assert_eq!(start(&namespace, "meanwhile", NODES[0]), "fuse.nfs");
    assert_eq!(log("meanwhile"), "by-client\nby-nfs\nmeanwhile");

    connect(&pair.east, true);
    eventually("the node's label says that it has its client back", || {
        (transport(NODES[0]) == "wekafs").then_some(())
    });
    assert_eq!(start(&namespace, "back", NODES[0]), "fuse.wekafs");
    assert_eq!(log("by-nfs"), "by-client\nby-nfs\nmeanwhile\nback");
    namespace.kubectl(&["delete", "pod", "--all"]).unwrap();
    let volume = get(&namespace, "pvc", "data").unwrap();
    let volume = text(&volume["spec"]["volumeName"]).to_owned();
    remove(&namespace, &["data"], &[&class]);
    until_volume_is_gone(cluster(), &volume);
    cluster()
        .kubectl(&["delete", "namespace", &driver.name, "--wait=false"])
        .unwrap();
    pair.east.weka.has_nfs = false;
}
