//! Nodes with and without SELinux side by side, by their label. No kernel here has SELinux: what is shown is who runs where, and that
//! volumes can be used through both kinds of pods (weka.md).

use devcluster::testing::Namespace;
use stowage_testing::Look;
use stowage_tests::{cluster, eventually, text, until_no_volume_of};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Driver, weka};
use super::weka_pair::NODES;
use super::weka_volumes::{class, remove};

const MIXED: &str = include_str!("../../deploy/samples/weka-selinux-mixed.yaml");

const LABEL: &str = "selinux.weka.io/selinux_enabled";

/// The stand-ins of the array's client, in the pods of the variant too.
const CHANGES: &str = r#"
  {"op": "replace", "path": "/spec/controllerReplicas", "value": 1},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/containers/0/args/-", "value": "--proc-modules=/run/stowage-sim/modules"},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/containers/0/args/-", "value": "--proc-wekafs-interface=/run/stowage-sim/interface"},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/containers/0/volumeMounts/-", "value": {"name": "sim", "mountPath": "/run/stowage-sim"}},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/containers/0/volumeMounts/-", "value": {"name": "sim-helper", "mountPath": "/sbin/mount.wekafs"}},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/volumes/-", "value": {"name": "sim", "hostPath": {"path": "/run/stowage-sim", "type": "Directory"}}},
  {"op": "add", "path": "/spec/nodeVariants/0/template/spec/volumes/-", "value": {"name": "sim-helper", "hostPath": {"path": "/run/stowage-sim/mount.wekafs", "type": "File"}}}
"#;

/// The labels of nodes go with the test.
struct Labels {
    key: &'static str,
}

impl Labels {
    fn set(&self, node: &str, value: Option<&str>) {
        let key = self.key;
        let word = value.map_or_else(|| format!("{key}-"), |value| format!("{key}={value}"));
        cluster()
            .kubectl(&["label", "node", node, "--overwrite", &word])
            .unwrap();
    }
}

impl Drop for Labels {
    fn drop(&mut self) {
        for node in NODES {
            let _ = cluster().kubectl(&["label", "node", node, &format!("{}-", self.key)]);
        }
    }
}

/// Whether the driver labels mounts on each node, as soon as each has one pod of it that is ready.
fn reaches(driver: &Driver, expected: [bool; 2]) {
    eventually(&format!("labels are made on nodes: {expected:?}"), || {
        let look = Look::at(cluster().kubeconfig());
        let labels = "component=csi-weka-selinux-node";
        let pods = look.list("pods", Some(&driver.name), labels, "")?;
        let found = NODES.map(|node| {
            let here: Vec<_> = pods
                .iter()
                .filter(|pod| pod["spec"]["nodeName"] == node)
                .collect();
            let [pod] = here[..] else {
                return None;
            };
            let ready = pod["status"]["containerStatuses"].as_array()?;
            let is_ready = ready.iter().all(|one| one["ready"] == true);
            let arguments = pod["spec"]["containers"][0]["args"].as_array()?;
            let labels = arguments
                .iter()
                .any(|word| text(word) == "--selinux-support");
            is_ready.then_some(labels)
        });
        (found == expected.map(Some)).then_some(())
    });
    driver.wait();
}

fn use_everywhere(namespace: &Namespace) {
    for node in NODES {
        let said = Pod::new("user", "data", "echo here >> /data/file; cat /data/file")
            .scheduled_to(node)
            .run(namespace);
        assert!(said.starts_with("here"), "{node}: {said}");
    }
}

#[test]
fn nodes_with_the_label_run_the_pods_for_selinux_and_all_others_the_plain_ones() {
    let weka = weka();
    let labels = Labels { key: LABEL };
    labels.set(NODES[0], Some("false"));
    labels.set(NODES[1], Some("true"));
    let driver = Driver::named("csi-weka-selinux", "selinux.weka.io");
    driver.deploy_instance(MIXED, &weka.array, CHANGES);
    weka.array.apply_secret("secret", &driver.name);
    reaches(&driver, [false, true]);
    let namespace = cluster().namespace("weka-selinux").unwrap();
    let class = class(&namespace, &driver, "api", "default", Some(["secret"; 3]));
    ask(&namespace, "data", &class, 16 * MIB, false);
    use_everywhere(&namespace);
    let logs = driver.kubectl(&[
        "logs",
        "-lcsidriver.storage.openshift.io/daemonset=csi-weka-selinux-node-selinux",
        "-c",
        "wekafs",
        "--tail=-1",
    ]);
    assert!(logs.contains("SELinux is off on this node"), "{logs}");

    labels.set(NODES[0], Some("true"));
    labels.set(NODES[1], None);
    reaches(&driver, [true, false]);
    use_everywhere(&namespace);
    remove(&namespace, &["data"], &[&class]);
    until_no_volume_of(cluster(), "selinux.weka.io");
    driver.kubectl(&["delete", "csidriverdeployment", &driver.name]);
}
