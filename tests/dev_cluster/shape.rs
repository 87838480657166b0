//! The ways to run the embedded driver. The manifests are those that people copy.

use std::path::PathBuf;

use stowage_testing::Turn;
use stowage_tests::STOWAGE_IMAGE;

/// The driver's name in the samples, which say to replace it everywhere.
const SAMPLE_NAME: &str = "csi-hostpath";

/// The label of the node that holds the data, in the samples.
const SAMPLE_LABEL: &str = "stowage.dev/hostpath";

/// Waits until no other test runs a driver under the samples' own name: a kubelet knows one of a name, and both would
/// have the same state directory.
pub fn turn_of_csi_hostpath() -> Turn {
    Turn::of_run(SAMPLE_NAME)
}

/// Where the driver's parts run, and with which arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The whole driver on every node.
    EveryNode,
    /// `--mode controller` and `--mode node` in two pods of one node.
    OneController,
    /// A controller on one node, a node plugin on every node, and a state directory that all of them see: volumes are
    /// attached to nodes and can move.
    SharedDisk,
    /// The original operator's example: the whole driver twice, with its defaults and without the host's `/dev`.
    Original,
}

impl Shape {
    /// What the driver is called in a test with this namespace.
    pub fn driver_name(self, namespace: &str) -> String {
        match self {
            Self::EveryNode | Self::OneController | Self::SharedDisk => {
                format!("{namespace}.stowage.dev")
            }
            // Its arguments do not say, so it has the default.
            Self::Original => SAMPLE_NAME.to_owned(),
        }
    }

    /// Its turn, where its name is not the test's own.
    pub fn turn(self) -> Option<Turn> {
        (self == Self::Original).then(turn_of_csi_hostpath)
    }

    /// Whether it comes with its sidecar; otherwise the test registers the driver.
    pub fn has_sidecar(self) -> bool {
        self != Self::Original
    }

    /// The objects, for a driver of this name in this namespace.
    pub fn manifest(self, driver: &str, namespace: &str) -> String {
        let sample = match self {
            Self::EveryNode => {
                include_str!("../../deploy/without-operator/hostpath-every-node.yaml")
            }
            Self::OneController | Self::SharedDisk => {
                include_str!("../../deploy/without-operator/hostpath-one-controller.yaml")
            }
            Self::Original => include_str!("hostpath_original.yaml"),
        };
        assert!(sample.contains(STOWAGE_IMAGE), "a sample of another image");
        let sample = match self {
            Self::SharedDisk => share_disk(sample, &shared_directory(driver)),
            _ => sample.to_owned(),
        };
        let sample = match self.node_selector(driver) {
            Some(own) => sample.replace(&format!("{SAMPLE_LABEL}:"), &format!("{own}:")),
            None => sample,
        };
        let own_namespace = format!("namespace: {namespace}");
        let sample = sample.replace("namespace: storage", &own_namespace);
        sample.replace(SAMPLE_NAME, driver)
    }

    /// The label of the node plugin's pods.
    pub fn node_label(self) -> &'static str {
        match self {
            Self::EveryNode => "app=hostpath",
            Self::OneController | Self::SharedDisk | Self::Original => "app=hostpath-node",
        }
    }

    /// The label of the controller's pod, if it has one of its own. Its socket is in a volume `socket` of the pod.
    pub fn controller_label(self) -> Option<&'static str> {
        match self {
            Self::EveryNode => None,
            Self::OneController | Self::SharedDisk | Self::Original => {
                Some("app=hostpath-controller")
            }
        }
    }

    /// The label by which it is told which node holds the data; its value is the driver's name. One of the driver's own: a node has one
    /// value of a label, and several drivers at a time.
    pub fn node_selector(self, driver: &str) -> Option<String> {
        match self {
            Self::OneController | Self::SharedDisk => Some(format!("{driver}/hostpath")),
            Self::EveryNode | Self::Original => None,
        }
    }

    /// Where the state directory is among a node's own; an absolute path is the machine's.
    pub fn state_directory(self, driver: &str) -> PathBuf {
        match self {
            Self::SharedDisk => shared_directory(driver),
            Self::EveryNode | Self::OneController => PathBuf::from("lib/stowage").join(driver),
            Self::Original => PathBuf::from("tmp/csi-hostpath"),
        }
    }
}

/// A directory that all nodes of the machine see: not in the project, whose clone may lie below `/tmp`, which each node has for itself.
pub fn shared_directory(driver: &str) -> PathBuf {
    PathBuf::from("/var/tmp").join(format!("stowage-{driver}"))
}

fn share_disk(sample: &str, directory: &std::path::Path) -> String {
    let (controller, node) = sample.split_once("kind: DaemonSet").unwrap();
    let selector = format!("      nodeSelector: {{stowage.dev/hostpath: {SAMPLE_NAME}}}\n");
    assert!(
        node.contains(&selector),
        "the node plugins run on every node already"
    );
    let everywhere = format!("{controller}kind: DaemonSet{}", node.replace(&selector, ""));
    let mut changed = everywhere;
    for (from, to) in [
        (
            "attachRequired: false".to_owned(),
            "attachRequired: true".to_owned(),
        ),
        (
            "            - --statedir=/state\n".to_owned(),
            [
                "--statedir=/state",
                "--shared-statedir",
                "--enable-attach",
                "--enable-topology=false",
            ]
            .map(|flag| format!("            - {flag}\n"))
            .concat(),
        ),
        (
            format!("/var/lib/stowage/{SAMPLE_NAME}"),
            directory.display().to_string(),
        ),
    ] {
        assert!(changed.contains(&from), "the sample has no `{from}`");
        changed = changed.replace(&from, &to);
    }
    changed
}
