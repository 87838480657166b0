//! The command lines of simulated arrays.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

/// Simulate a storage array, for tests and for trying things out
#[derive(Debug, Subcommand)]
pub enum Sim {
    Weka(Box<SimWekaArgs>),
    WekaFrontend(Box<SimWekaFrontendArgs>),
    #[command(name = "mount.wekafs")]
    MountWekafs(MountWekafsArgs),
}

/// A Weka cluster: REST API, control API for faults, and the data plane of this host
///
/// A new one has the organization Root, user and password `admin`, and the filesystem `default` of 100 GiB. Stopped and started
/// again on the same directory it forgets nothing.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim weka --data /var/tmp/weka                                    # 5.1, over HTTPS
  stowage sim weka --data /var/tmp/weka --plain-http
  stowage sim weka --data /var/tmp/weka --tls --listen 127.0.0.1:14000 --listen '[::1]:14000'
  curl -X PUT 127.0.0.1:14100/release -H 'content-type: application/json' -d '{\"release\": \"4.2\"}'

docs/guides/simulators.md says more.")]
pub struct SimWekaArgs {
    #[command(flatten)]
    pub cluster: stowage_sim::weka::Options,

    #[command(flatten)]
    pub frontend: stowage_sim::weka::FrontendArgs,

    /// Serve no files here: frontends run elsewhere
    #[arg(long)]
    pub no_frontend: bool,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The data plane of a Weka cluster on one node, beside it and outside of any pod
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim weka-frontend --data /var/tmp/weka --container node-a \\
    --proc-modules /run/node-a/modules --proc-interface /run/node-a/interface")]
pub struct SimWekaFrontendArgs {
    #[command(flatten)]
    pub frontend: stowage_sim::weka::FrontendOptions,

    /// Put a copy of this program there, for pods that have it as their /sbin/mount.wekafs
    #[arg(long, value_name = "FILE")]
    pub mount_helper: Option<PathBuf>,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What `mount -t wekafs` calls; also when this program is called as `mount.wekafs`
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct MountWekafsArgs {
    /// As mount(8) gives them: FILESYSTEM DIRECTORY [-sfnv] [-o OPTION,...]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
