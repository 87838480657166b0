//! The command lines of `setup`: what the hooks of the Helm charts run, and what a person may type where there is no Helm.

use std::str::FromStr;
use std::time::Duration;

use stowage_service::duration;

use super::{Access, CrdsGroup};

/// Put definitions and drivers of a release into a cluster, or take them out
///
/// The hooks of the Helm charts run this: Helm itself never changes a definition that is there, cannot apply a CSIDriverDeployment
/// before its definition, and would delete the operator together with what only the operator can clean up.
#[derive(Debug, clap::Subcommand)]
pub enum Setup {
    Definitions(DefinitionsArgs),
    Instances(InstancesArgs),
    Remove(RemoveArgs),
}

/// Bring custom resource definitions up to date
///
/// A definition of a newer release is left as it is. Those of snapshots and of Weka clients that somebody else installed are left
/// as they are, too, if they serve what is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage setup definitions --group driver-deployments
  stowage setup definitions --group driver-deployments --group vpsa --kubeconfig admin.conf")]
pub struct DefinitionsArgs {
    /// Definitions to bring up to date; may be given several times
    #[arg(long = "group", value_name = "GROUP", required = true)]
    pub groups: Vec<CrdsGroup>,

    #[command(flatten)]
    pub access: Access,
}

/// Apply the CSIDriverDeployments of a release
///
/// They are in ConfigMaps of its namespace with the label `stowage.dev/instances-of`. Those that the release had and no longer has
/// are deleted; the operator removes them when their volumes are gone.
#[derive(Debug, clap::Args)]
pub struct InstancesArgs {
    /// The release
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub release: NamedIn,

    /// Secret with the keys of the driver for VPSAs: created with new keys if it does not exist, never changed
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub key_secret: Option<NamedIn>,

    #[command(flatten)]
    pub access: Access,
}

/// Delete the CSIDriverDeployments of a release, and wait until they are gone
///
/// If one is still in use, the error says by what, and it is left to be removed.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// The release
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub release: NamedIn,

    /// The release has the operator: refuse if others still need it
    #[arg(long)]
    pub operator: bool,

    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    pub timeout: Duration,

    #[command(flatten)]
    pub access: Access,
}

/// Something with a name in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedIn {
    pub namespace: String,
    pub name: String,
}

impl FromStr for NamedIn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("must be NAMESPACE/NAME".to_owned()),
        }
    }
}
