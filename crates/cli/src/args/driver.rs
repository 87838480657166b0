//! The command lines of drivers.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Subcommand};

/// Run a CSI driver
#[derive(Debug, Subcommand)]
pub enum Driver {
    // Boxed: they have many flags, each its own.
    Hostpath(Box<HostpathArgs>),
    Vpsa(Box<VpsaArgs>),
    Weka(Box<WekaArgs>),
}

/// The driver for Zadara's VPSA arrays: shares over NFS, disks over iSCSI, spread over any number of arrays
///
/// Arrays are VPSA objects, members of VSCStorageClasses. Of all controllers one leads and talks to the arrays; nodes need
/// open-iscsi for disks and an NFS client for shares.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    version,
    after_help = "\
Examples:
  stowage driver vpsa --endpoint unix:///csi/csi.sock --nodeid $(hostname) --mode controller --leader-election
  stowage driver vpsa --endpoint unix:///csi/csi.sock --nodeid $(hostname) --mode node --node-ip 10.1.0.7")]
pub struct VpsaArgs {
    #[command(flatten)]
    pub driver: stowage_vpsa::Args,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The driver for Weka clusters: volumes are directories, snapshots or filesystems
///
/// Nodes need a Weka client, or a cluster that exports by NFS. Credentials come with the requests, from the secrets that storage classes
/// name. The sidecar elects a leader among controllers; two that work at once come to the same result.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    // WEKA's numbers, which its manifests carry.
    mut_arg("verbosity", |arg| arg.help("What is logged, as a number: up to 3 errors, 4 info, 5 debug, from 6 trace (--log-level wins)")),
    // Flags of Go: the last one counts.
    args_override_self = true,
    version,
    after_help = "\
Examples:
  stowage driver weka --endpoint unix:///csi/csi.sock --nodeid $(hostname) --mode node
  stowage driver weka --endpoint unix:///csi/csi.sock --nodeid $(hostname) --csimode controller --http-endpoint :9090
  wekafsplugin -csimode=node -endpoint=unix:///csi/csi.sock -nodeid=$(hostname)       under this name, too")]
pub struct WekaArgs {
    #[command(flatten)]
    pub driver: stowage_weka::Args,

    /// Open the HTTP port at --metricsport, unless --http-endpoint says where
    #[arg(long = "enablemetrics", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true", help_heading = "HTTP")]
    pub enable_metrics: bool,

    /// Port for --enablemetrics
    #[arg(
        long = "metricsport",
        value_name = "PORT",
        default_value_t = 9090,
        help_heading = "HTTP"
    )]
    pub metrics_port: u16,

    /// A further HTTP port of a controller, for its liveness probe
    #[arg(long, value_name = "PORT", env = "HEALTH_PORT", help_heading = "HTTP")]
    pub health_port: Option<u16>,

    /// Write log lines as JSON, as --log-format json does
    #[arg(long = "usejsonlogging", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true", help_heading = "Logs")]
    pub use_json_logging: bool,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The embedded driver: volumes are loop files of one node, with every CSI feature and without an array
///
/// Data is local to its node. Either one process whose node holds the data, or one on every node.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage driver hostpath --endpoint unix:///csi/csi.sock --nodeid $(hostname)
  stowage driver hostpath --endpoint unix:///csi/csi.sock --statedir /var/lib/stowage/hostpath --v=5")]
pub struct HostpathArgs {
    #[command(flatten)]
    pub driver: stowage_hostpath::Args,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}
