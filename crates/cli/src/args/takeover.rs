//! The command lines that look at installations of other drivers.

use clap::{Subcommand, ValueEnum};
use stowage_weka::takeover::Instance;

use super::Access;

/// Show what becomes of another driver's installation
#[derive(Debug, Subcommand)]
pub enum Takeover {
    Weka(Box<TakeoverWekaArgs>),
}

/// WEKA's own CSI plugin (csi-wekafs), installed by its Helm chart or its deploy.sh
///
/// Reads PersistentVolumes, classes, snapshots, secrets, the CSIDriver object and what runs the plugin. Says of each volume whether it
/// will work and what it needs first, which flags carry over, and prints the commands and the manifest that take the
/// plugin's place. Changes nothing, and prints no value of a secret.
///
/// Exit codes: 0 nothing stands in the way, 1 the cluster could not be read, 2 wrong usage, 3 something stands in the way.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs the right to list persistentvolumes, storageclasses, csidrivers, daemonsets, deployments, statefulsets, serviceaccounts,
configmaps, roles, rolebindings, clusterroles, clusterrolebindings and, where there are snapshots, volumesnapshotclasses and
volumesnapshotcontents; and to get the secrets that classes and volumes name.

Examples:
  stowage takeover weka --check
  stowage takeover weka --check --output manifest > weka.yaml
  stowage takeover weka --check --driver-name wekafs.csi.k8s.io --instance storage/weka
  stowage takeover weka --check --output json | jq '.volumes[] | select(.needs != [])'")]
pub struct TakeoverWekaArgs {
    /// Only look; there is no other way: the commands that change something are printed, and yours to type
    #[arg(long, required = true)]
    pub check: bool,

    /// Name of the driver that the plugin runs
    #[arg(long, value_name = "NAME", default_value = "csi.weka.io")]
    pub driver_name: String,

    /// The CSIDriverDeployment that is to run the driver [default: csi-wekafs in the plugin's namespace]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub instance: Option<Instance>,

    #[command(flatten)]
    pub access: Access,

    /// What to print
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    pub output: TakeoverFormat,
}

/// What a check of another driver's installation prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TakeoverFormat {
    /// For people: what works, what needs what, what to type
    Table,
    /// The same for programs
    Json,
    /// The objects that take the plugin's place, as YAML
    Manifest,
}
