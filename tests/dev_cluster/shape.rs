//! The ways to run the embedded driver. The manifests are those that people copy.

use std::path::PathBuf;

use stowage_tests::STOWAGE_IMAGE;

/// The driver's name in the samples, which say to replace it everywhere.
const SAMPLE_NAME: &str = "csi-hostpath";

/// Where the driver's parts run, and with which arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The whole driver on every node.
    EveryNode,
    /// `--mode controller` and `--mode node` in two pods of one node.
    OneController,
    /// The original operator's example: the whole driver twice, with its defaults and without the host's `/dev`.
    Original,
}

impl Shape {
    /// What the driver is called in a test with this namespace.
    pub fn driver_name(self, namespace: &str) -> String {
        match self {
            Self::EveryNode | Self::OneController => format!("{namespace}.stowage.dev"),
            // Its arguments do not say, so it has the default.
            Self::Original => SAMPLE_NAME.to_owned(),
        }
    }

    /// The objects, for a driver of this name.
    pub fn manifest(self, driver: &str) -> String {
        let sample = match self {
            Self::EveryNode => include_str!("../../deploy/samples/hostpath-every-node.yaml"),
            Self::OneController => {
                include_str!("../../deploy/samples/hostpath-one-controller.yaml")
            }
            Self::Original => include_str!("hostpath_original.yaml"),
        };
        assert!(sample.contains(STOWAGE_IMAGE), "a sample of another image");
        sample.replace(SAMPLE_NAME, driver)
    }

    /// The label of the node plugin's pods.
    pub fn node_label(self) -> &'static str {
        match self {
            Self::EveryNode => "app=hostpath",
            Self::OneController | Self::Original => "app=hostpath-node",
        }
    }

    /// The label of the controller's pod, if it has one of its own. Its socket is in a volume `socket` of the pod.
    pub fn controller_label(self) -> Option<&'static str> {
        match self {
            Self::EveryNode => None,
            Self::OneController | Self::Original => Some("app=hostpath-controller"),
        }
    }

    /// The label by which it is told which node holds the data; its value is the driver's name.
    pub fn node_selector(self) -> Option<&'static str> {
        match self {
            Self::OneController => Some("stowage.dev/hostpath"),
            Self::EveryNode | Self::Original => None,
        }
    }

    /// Where the state directory is among a node's own.
    pub fn state_directory(self, driver: &str) -> PathBuf {
        match self {
            Self::EveryNode | Self::OneController => PathBuf::from("lib/stowage").join(driver),
            Self::Original => PathBuf::from("tmp/csi-hostpath"),
        }
    }
}
