//! From facts to text: what a person sees for a given cluster.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSIDriverSpec, CSINode, CSINodeDriver, CSINodeSpec, StorageClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::facts::Facts;
use super::report::{self, Ready};
use super::table;

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Facts {
    fn of_a_cluster() -> Self {
        Self {
            server: "v1.20.2".to_owned(),
            ..Self::default()
        }
    }

    fn with_driver(mut self, name: &str, attach: Option<bool>, modes: &[&str]) -> Self {
        self.csi_drivers.push(CSIDriver {
            metadata: meta(name),
            spec: CSIDriverSpec {
                attach_required: attach,
                volume_lifecycle_modes: Some(strings(modes)),
                ..CSIDriverSpec::default()
            },
        });
        self
    }

    fn with_class(mut self, name: &str, provisioner: &str) -> Self {
        self.storage_classes.push(StorageClass {
            metadata: meta(name),
            provisioner: provisioner.to_owned(),
            ..StorageClass::default()
        });
        self
    }

    fn with_node(mut self, name: &str, ready: &str) -> Self {
        let condition = |type_: &str, status: &str| NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            ..NodeCondition::default()
        };
        self.nodes.push(Node {
            metadata: meta(name),
            status: Some(NodeStatus {
                conditions: Some(vec![
                    condition("DiskPressure", "False"),
                    condition("Ready", ready),
                ]),
                ..NodeStatus::default()
            }),
            ..Node::default()
        });
        self
    }

    fn registered(mut self, node: &str, drivers: &[&str]) -> Self {
        let entry = |name: &&str| CSINodeDriver {
            name: (*name).to_owned(),
            ..CSINodeDriver::default()
        };
        self.csi_nodes.push(CSINode {
            metadata: meta(node),
            spec: CSINodeSpec {
                drivers: drivers.iter().map(entry).collect(),
            },
        });
        self
    }

    fn with_volumes(mut self, driver: &str, count: usize) -> Self {
        self.volumes.insert(driver.to_owned(), count);
        self
    }

    fn drawn(&self, width: Option<usize>) -> String {
        table::draw(&report::build(self), width)
    }
}

/// Two drivers on three nodes, one of which is down; the second driver has no CSIDriver object.
fn busy_cluster() -> Facts {
    Facts::of_a_cluster()
        .with_driver(
            "hostpath.csi.k8s.io",
            Some(false),
            &["Persistent", "Ephemeral"],
        )
        .with_class("slow", "hostpath.csi.k8s.io")
        .with_class("fast", "hostpath.csi.k8s.io")
        .with_class("legacy", "kubernetes.io/no-provisioner")
        .with_node("node-2", "True")
        .with_node("node-1", "True")
        .with_node("node-3", "Unknown")
        .registered("node-1", &["hostpath.csi.k8s.io", "csi.weka.io"])
        .registered("node-2", &["hostpath.csi.k8s.io"])
        .with_volumes("hostpath.csi.k8s.io", 12)
}

#[test]
fn a_busy_cluster_becomes_two_tables() {
    assert_eq!(
        busy_cluster().drawn(None),
        "\
Kubernetes v1.20.2, 2 CSI drivers, 3 nodes (1 not ready)

DRIVER               ATTACH  MODES                 STORAGE CLASSES  VOLUMES  NODES
csi.weka.io *        yes     Persistent            -                0        1/3
hostpath.csi.k8s.io  no      Persistent,Ephemeral  fast,slow        12       2/3
* has no CSIDriver object: Kubernetes assumes what is shown here.

NODE    READY    csi.weka.io  hostpath.csi.k8s.io
node-1  yes      yes          yes
node-2  yes      -            yes
node-3  unknown  -            -
"
    );
}

#[test]
fn a_narrow_terminal_gets_a_list() {
    assert_eq!(
        busy_cluster().drawn(Some(30)),
        "\
Kubernetes v1.20.2, 2 CSI
drivers, 3 nodes (1 not ready)

csi.weka.io *
  attach   yes
  modes    Persistent
  classes  -
  volumes  0
  nodes    1/3

hostpath.csi.k8s.io
  attach   no
  modes    Persistent,
           Ephemeral
  classes  fast, slow
  volumes  12
  nodes    2/3

* has no CSIDriver object:
Kubernetes assumes what is
shown here.

node-1
  ready    yes
  drivers  csi.weka.io,
           hostpath.csi.k8s.io

node-2
  ready    yes
  drivers  hostpath.csi.k8s.io

node-3
  ready    unknown
  drivers  -
"
    );
}

#[test]
fn at_any_width_lines_fit_or_hold_a_single_word_and_names_stay_whole() {
    let facts = busy_cluster();
    for width in 0..120 {
        let text = facts.drawn(Some(width));
        for line in text.lines() {
            let label = [
                "  attach",
                "  modes",
                "  classes",
                "  volumes",
                "  nodes",
                "  ready",
                "  drivers",
            ]
            .into_iter()
            .find(|label| line.starts_with(label))
            .unwrap_or_default();
            let words = line[label.len()..].split_whitespace().count();
            assert!(line.len() <= width || words <= 1, "{width}: {line:?}");
            assert_eq!(line, line.trim_end());
        }
        for name in [
            "hostpath.csi.k8s.io",
            "csi.weka.io",
            "node-3",
            "Ephemeral",
            "slow",
        ] {
            assert!(text.contains(name), "{width}: {name} in {text}");
        }
    }
}

#[test]
fn a_cluster_without_drivers_still_shows_its_nodes() {
    let facts = Facts::of_a_cluster().with_node("node-1", "False");
    assert_eq!(
        facts.drawn(None),
        "\
Kubernetes v1.20.2, 0 CSI drivers, 1 node (1 not ready)

NODE    READY
node-1  no
"
    );
    assert_eq!(
        Facts::of_a_cluster().drawn(None),
        "Kubernetes v1.20.2, 0 CSI drivers, 0 nodes\n"
    );
}

#[test]
fn a_removed_node_is_shown_but_not_counted_as_a_place_to_run() {
    let facts = Facts::of_a_cluster()
        .with_driver("d", None, &[])
        .registered("old", &["d"]);
    let report = report::build(&facts);
    assert_eq!(report.nodes[0].ready, Ready::Gone);
    assert!(
        facts
            .drawn(None)
            .contains("\nd       yes     Persistent  -                0        0/0\n")
    );
}

#[test]
fn volumes_of_a_driver_that_nobody_knows_any_more_are_not_hidden() {
    let report = report::build(&Facts::of_a_cluster().with_volumes("removed.example.com", 3));
    let driver = &report.drivers[0];
    assert_eq!(driver.name, "removed.example.com");
    assert!(!driver.csi_driver_object);
    assert_eq!(driver.persistent_volumes, 3);
}

#[test]
fn what_a_server_sends_cannot_steer_the_terminal() {
    let mut facts = Facts::of_a_cluster();
    facts.server = "v1.20.2\u{1b}[2J\u{7}".to_owned();
    assert_eq!(
        facts.drawn(None),
        "Kubernetes v1.20.2?[2J?, 0 CSI drivers, 0 nodes\n"
    );
}

#[test]
fn json_has_one_entry_per_driver_and_node() {
    let facts = Facts::of_a_cluster()
        .with_driver("d", Some(true), &["Persistent"])
        .with_class("fast", "d")
        .with_node("n", "True")
        .registered("n", &["d"])
        .with_volumes("d", 1);
    assert_eq!(
        serde_json::to_value(report::build(&facts)).unwrap(),
        serde_json::json!({
            "serverVersion": "v1.20.2",
            "drivers": [{
                "name": "d",
                "csiDriverObject": true,
                "attachRequired": true,
                "modes": ["Persistent"],
                "storageClasses": ["fast"],
                "persistentVolumes": 1,
                "registeredOn": ["n"],
            }],
            "nodes": [{"name": "n", "ready": "yes", "drivers": ["d"]}],
        })
    );
}
