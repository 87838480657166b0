//! A driver that the operator in its pod deploys from one resource: to a pod that writes to a volume, and back to
//! nothing.

use stowage_tests::claims::{MIB, Pod, ask};
use stowage_tests::deployed::{Deployed, install_operator};
use stowage_tests::{cluster, eventually, nodes};

#[test]
fn a_driver_is_deployed_from_one_resource_used_repaired_and_removed() {
    let cluster = cluster();
    let namespace = cluster.namespace("deployed").unwrap();
    install_operator(cluster);
    let driver = Deployed::every_node(&namespace, |manifest| manifest);
    driver.wait_until_available();

    ask(&namespace, "disk", driver.name(), 32 * MIB, false);
    let pod = Pod::new("writer", "disk", "echo kept > /data/file && cat /data/file");
    assert_eq!(pod.scheduled_to(&nodes()[0]).run(&namespace), "kept\n");

    let daemon_set = format!("{}-node", driver.name());
    namespace
        .kubectl(&["delete", "daemonset", &daemon_set])
        .unwrap();
    eventually("the DaemonSet is back", || {
        namespace.kubectl(&["get", "daemonset", &daemon_set]).ok()
    });
    driver.wait_until_available();

    // It stays while it has a volume to look after, which is deleted without its class, and goes then by itself.
    let delete = ["delete", "csidriverdeployment", driver.name()];
    let delete = [&delete[..], &["--wait=false"]].concat();
    namespace.kubectl(&delete).unwrap();
    driver.wait_for("SyncSuccessful", "False", "1 PersistentVolume (pvc-");
    assert!(!driver.node_pods().is_empty());
    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    driver.remove();
    let path = "jsonpath={.items[*].spec.csi.driver}";
    let drivers = namespace.kubectl(&["get", "pv", "-o", path]).unwrap();
    assert!(!drivers.contains(&driver.driver), "{drivers}");
}
