//! The command line of the operator.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Turn CSIDriverDeployments into running drivers, and keep them
///
/// Runs inside the cluster from `deploy/operator.yaml`, and outside of it with a kubeconfig. Called as `csi-operator` it
/// takes the command line of the original operator.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage operator --kubeconfig ~/.kube/config --v=4
  stowage operator --leader-election --config-map csi-operator-config
  csi-operator -v 5 -alsologtostderr -kubeconfig=admin.kubeconfig")]
pub struct OperatorArgs {
    /// File with the operator's configuration; changes are noticed [default: none]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// ConfigMap with the operator's configuration in `config.yaml`, in the namespace of the lease; changes are noticed
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub config_map: Option<String>,

    /// Drivers whose pods are replaced at a time when the operator itself, or its configuration, has changed
    #[arg(long, value_name = "N", default_value = "1")]
    pub max_concurrent_rollouts: NonZeroUsize,

    /// Take the operator's finalizers from all its resources, print which, and end: for when the operator is removed, or was
    /// removed too early. Their drivers stay as they are
    #[arg(long)]
    pub prepare_uninstall: bool,

    #[command(flatten)]
    pub kube: stowage_service::KubeArgs,

    #[command(flatten)]
    pub lease: stowage_service::LeaseArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}
