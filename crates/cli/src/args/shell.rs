//! The command lines for a person's shell: `crds` and `status`.

use std::path::PathBuf;

use clap::ValueEnum;
use stowage_api::CrdGroup;

/// Print custom resource definitions as YAML
///
/// Those of snapshots are for clusters that have none: where
/// `kubectl get crd volumesnapshots.snapshot.storage.k8s.io` finds something, snapshots are set up already. The
/// definitions fit every Kubernetes from 1.20 on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage crds | kubectl apply -f -
  stowage crds --group snapshots > snapshot-crds.yaml
  stowage crds --group driver-deployments --reference
  stowage crds --validation | kubectl apply -f -")]
pub struct CrdsArgs {
    /// Print only this group; may be given several times [default: all groups]
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<CrdsGroup>,

    /// Print a page that explains every field, in place of the definitions
    #[arg(long)]
    pub reference: bool,

    /// Print what a server from Kubernetes 1.30 on can check when a CSIDriverDeployment is written, in place of the definitions
    #[arg(long, conflicts_with_all = ["groups", "reference"])]
    pub validation: bool,
}

/// Names of [`CrdGroup`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CrdsGroup {
    /// CSIDriverDeployment, which the operator turns into a running driver
    DriverDeployments,
    /// VolumeSnapshot, its class and its content
    Snapshots,
    /// VolumeGroupSnapshot, its class and its content
    GroupSnapshots,
    /// VSCStorageClass, VPSA and what else the VPSA driver keeps
    Vpsa,
    /// WekaClient, WekaContainer and WekaCluster
    Weka,
}

impl From<CrdGroup> for CrdsGroup {
    fn from(group: CrdGroup) -> Self {
        match group {
            CrdGroup::DriverDeployments => Self::DriverDeployments,
            CrdGroup::Snapshots => Self::Snapshots,
            CrdGroup::GroupSnapshots => Self::GroupSnapshots,
            CrdGroup::Vpsa => Self::Vpsa,
            CrdGroup::Weka => Self::Weka,
        }
    }
}

/// Show the CSI drivers of a cluster and the nodes they run on
///
/// Reads the cluster of the kubeconfig, or the one around it when run in a pod without a kubeconfig.
/// Changes nothing. Needs the right to list nodes, persistentvolumes, csidrivers, csinodes and
/// storageclasses.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage status
  stowage status --kubeconfig admin.conf --context prod
  stowage status --output json | jq '.nodes[] | select(.ready != \"yes\")'")]
pub struct StatusArgs {
    #[command(flatten)]
    pub access: Access,

    /// How to print it
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
}

/// Which cluster, and as whom.
#[derive(Debug, Default, clap::Args)]
pub struct Access {
    /// Kubeconfig to use [default: $KUBECONFIG, then ~/.kube/config, then the pod's own account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people; becomes a list where the terminal is too narrow
    Table,
    /// For programs
    Json,
}
