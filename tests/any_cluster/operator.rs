//! A driver that the operator in its pod deploys from one resource: to a pod that writes to a volume, and back to
//! nothing, which waits for the pod.

use serde_json::Value;
use stowage_tests::claims::{MIB, Pod, ask};
use stowage_tests::copies::exec;
use stowage_tests::deployed::{Deployed, install_operator};
use stowage_tests::{cluster, eventually, nodes, pod_in_phase, text};

/// Deletes the instance while a pod uses a volume: it says who does, stays, and makes no new volumes. Returns when only an unused
/// volume is left.
fn stays_while_it_is_used(driver: &Deployed<'_>) {
    let namespace = driver.namespace;
    let delete = ["delete", "csidriverdeployment", driver.name()];
    let delete = [&delete[..], &["--wait=false"]].concat();
    namespace.kubectl(&delete).unwrap();
    let user = format!("1 Pod ({}/user)", namespace.name());
    let waits = driver.wait_for("SyncSuccessful", "False", &user);
    let has_volume =
        |condition: &Value| text(&condition["message"]).contains("1 PersistentVolume (pvc-");
    assert!(has_volume(&waits), "{waits}");
    refuses_new_claims(driver);
    assert_eq!(exec(namespace, "user", "cat /data/file"), "kept");

    namespace.kubectl(&["delete", "pod", "user"]).unwrap();
    let waits = driver.condition("SyncSuccessful").unwrap();
    assert!(waits["status"] == "False" && has_volume(&waits), "{waits}");
    assert!(!driver.node_pods().is_empty());
}

/// The classes of the instance are gone: somebody has made one by hand.
fn refuses_new_claims(driver: &Deployed<'_>) {
    let (namespace, class) = (driver.namespace, format!("{}-by-hand", driver.name()));
    let manifest = format!(
        "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {class}}}
provisioner: {}
volumeBindingMode: WaitForFirstConsumer
",
        driver.driver
    );
    namespace.apply(&manifest).unwrap();
    ask(namespace, "late", &class, 32 * MIB, false);
    let pod = Pod::new("late", "late", "echo too late");
    pod.scheduled_to(&nodes()[0]).start(namespace);
    let about = "--field-selector=involvedObject.name=late,reason=ProvisioningFailed";
    let events = ["get", "events", about, "-o", "jsonpath={.items[*].message}"];
    eventually("a new claim is refused", || {
        let said = namespace.kubectl(&events).ok()?;
        let is_told = said.contains("the driver is being uninstalled and makes no new volumes");
        is_told.then_some(())
    });
    namespace.kubectl(&["delete", "pod,pvc", "late"]).unwrap();
    let delete = ["delete", "storageclass", &class];
    namespace.kubectl(&delete).unwrap();
}

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

    Pod::new("user", "disk", "sleep 1000000")
        .scheduled_to(&nodes()[0])
        .start(&namespace);
    pod_in_phase(&namespace, "user", "Running");
    stays_while_it_is_used(&driver);
    // The volume is deleted without its class, and the instance goes then by itself.
    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    driver.remove();
    let path = "jsonpath={.items[*].spec.csi.driver}";
    let drivers = namespace.kubectl(&["get", "pv", "-o", path]).unwrap();
    assert!(!drivers.contains(&driver.driver), "{drivers}");
}
