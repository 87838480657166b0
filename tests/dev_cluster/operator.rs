//! The operator in a pod, and a driver that it deploys from one resource: to a pod that writes to a volume, and back to
//! nothing.

use devcluster::testing::{Namespace, TestCluster};
use stowage_tests::{cluster, eventually};

use super::claims::{MIB, NODE, Pod, ask};

const OPERATOR: &str = include_str!("../../deploy/operator.yaml");
const SAMPLE: &str = include_str!("../../deploy/samples/hostpath-every-node.yaml");
/// The sample's driver and its instance.
const DRIVER: &str = "local.hostpath.stowage.dev";
const INSTANCE: &str = "hostpath-local";

fn install_operator(cluster: &TestCluster) {
    let prerequisites = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/prerequisites");
    cluster.kubectl(&["apply", "-f", prerequisites]).unwrap();
    cluster.apply(OPERATOR).unwrap();
    let rollout = ["rollout", "status", "deployment/csi-operator"];
    let patience = ["--namespace=csi-operator", "--timeout=120s"];
    let arguments = [&rollout[..], &patience[..]].concat();
    cluster.kubectl(&arguments).unwrap();
}

fn condition(namespace: &Namespace, instance: &str, kind: &str) -> String {
    let path = format!("jsonpath={{.status.conditions[?(@.type=='{kind}')].status}}");
    let get = ["get", "csidriverdeployment", instance, "-o", &path];
    namespace.kubectl(&get).unwrap_or_default()
}

#[test]
fn a_driver_is_deployed_from_one_resource_used_repaired_and_removed() {
    let cluster = cluster();
    cluster.dev().unwrap();
    let namespace = cluster.namespace("deployed").unwrap();
    install_operator(cluster);
    // A name of the test's own, in its own namespace.
    let driver = format!("{}.stowage.dev", namespace.name());
    let manifest = SAMPLE
        .replace(DRIVER, &driver)
        .replace(
            "/var/lib/stowage/hostpath",
            &format!("/var/lib/stowage/{driver}"),
        )
        .replace(
            "namespace: default",
            &format!("namespace: {}", namespace.name()),
        )
        .replace(INSTANCE, namespace.name());
    namespace.apply(&manifest).unwrap();
    eventually("the driver is available", || {
        (condition(&namespace, namespace.name(), "Available") == "True").then_some(())
    });

    ask(&namespace, "disk", namespace.name(), 32 * MIB, false);
    let pod = Pod::new("writer", "disk", "echo kept > /data/file && cat /data/file");
    assert_eq!(pod.scheduled_to(NODE).run(&namespace), "kept\n");

    let daemon_set = format!("{}-node", namespace.name());
    namespace
        .kubectl(&["delete", "daemonset", &daemon_set])
        .unwrap();
    eventually("the DaemonSet is back", || {
        namespace.kubectl(&["get", "daemonset", &daemon_set]).ok()
    });
    eventually("the driver is available again", || {
        (condition(&namespace, namespace.name(), "Available") == "True").then_some(())
    });

    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    eventually("the volume is gone", || {
        let path = "jsonpath={.items[*].spec.csi.driver}";
        let drivers = namespace.kubectl(&["get", "pv", "-o", path]).ok()?;
        (!drivers.contains(&driver)).then_some(())
    });
    let delete = ["delete", "csidriverdeployment", namespace.name()];
    namespace.kubectl(&delete).unwrap();
    for kind in ["csidriver", "storageclass", "clusterrole", "daemonset"] {
        eventually(&format!("no {kind} is left"), || {
            let left = namespace.kubectl(&["get", kind, "-o", "name"]).ok()?;
            (!left.contains(namespace.name())).then_some(())
        });
    }
}
