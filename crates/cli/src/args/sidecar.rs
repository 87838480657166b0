//! The command lines of the sidecar and of the snapshot controller.

use clap::Subcommand;

/// Run the one sidecar of a CSI driver, in place of upstream's six
#[derive(Debug, Subcommand)]
pub enum Sidecar {
    Controller(Box<SidecarControllerArgs>),
    Node(Box<SidecarNodeArgs>),
}

/// Beside a driver's controller: provisions, attaches, resizes and modifies volumes, takes snapshots, publishes capacity
///
/// In place of external-provisioner, external-attacher, external-resizer and csi-snapshotter, with their flags and under their roles. Asks
/// the driver what it supports and does that. Without --leader-election run only one replica, and none of the Go sidecars beside it.
#[derive(Debug, clap::Args)]
#[command(
    // Whoever writes the flags of several Go sidecars one after the other repeats some; Go takes the last, too.
    args_override_self = true,
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sidecar controller --csi-address /csi/csi.sock --leader-election
  stowage sidecar controller --csi-address /csi/csi.sock --kubeconfig ~/.kube/config --v=5
  stowage sidecar controller --csi-address /csi/csi.sock --resolve-intents-and-exit")]
pub struct SidecarControllerArgs {
    #[command(flatten)]
    pub controller: stowage_sidecar::controller::ControllerArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// Beside a driver's node plugin: registers the driver with the kubelet, and answers liveness probes
///
/// In place of node-driver-registrar and livenessprobe, with their flags. Needs access to the Kubernetes API only with --node-deployment.
#[derive(Debug, clap::Args)]
#[command(
    // Whoever writes the flags of several Go sidecars one after the other repeats some; Go takes the last, too.
    args_override_self = true,
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sidecar node --csi-address /csi/csi.sock \\
    --kubelet-registration-path /var/lib/kubelet/plugins/csi-hostpath/csi.sock
  stowage sidecar node --csi-address /csi/csi.sock \\
    --kubelet-registration-path /var/lib/kubelet/plugins/csi-hostpath/csi.sock \\
    --driver-name csi-hostpath --health-port 9898 --http-endpoint :8081 --v=5")]
pub struct SidecarNodeArgs {
    #[command(flatten)]
    pub node: stowage_sidecar::node::NodeArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The cluster-wide half of snapshots, for clusters that have none
///
/// Makes a content for each VolumeSnapshot and VolumeGroupSnapshot, which a driver's sidecar then fills, and writes the result into
/// the snapshot's status. In place of upstream's snapshot-controller, with its flags, its lease and its role. A cluster needs
/// exactly one for all drivers: this one refuses to start beside another.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  stowage crds | kubectl apply -f -
  stowage snapshot-controller --leader-election
  stowage snapshot-controller --kubeconfig ~/.kube/config --v=5"
)]
pub struct SnapshotControllerCommand {
    #[command(flatten)]
    pub controller: stowage_snapshot_controller::SnapshotControllerArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}
