//! What can be typed: the subcommands, their order and their help. Flags that belong to a part of the product, with their help, are
//! in its crate.

mod driver;
mod migrate;
mod operator;
mod setup;
mod shell;
mod sidecar;
#[cfg(feature = "sim")]
mod sim;
mod takeover;

use clap::{Parser, Subcommand};

pub use self::driver::{Driver, HostpathArgs, VpsaArgs, WekaArgs};
pub use self::migrate::{Migrate, WekaLegacyArgs};
pub use self::operator::OperatorArgs;
pub use self::setup::{NamedIn, RemoveArgs, Setup};
pub use self::shell::{Access, CrdsArgs, CrdsGroup, Format, StatusArgs};
pub use self::sidecar::{
    Sidecar, SidecarControllerArgs, SidecarNodeArgs, SnapshotControllerCommand,
};
#[cfg(feature = "sim")]
pub use self::sim::{
    Sim, SimFuseDriverArgs, SimNfsHostArgs, SimVpsaArgs, SimVpsaHostArgs, SimWekaArgs,
    SimWekaClientArgs, SimWekaFrontendArgs,
};
pub use self::takeover::{Takeover, TakeoverFormat, TakeoverWekaArgs};

/// Puts CSI storage on a Kubernetes cluster and keeps it there.
#[derive(Debug, Parser)]
#[command(
    name = "stowage",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  stowage status                                  which CSI drivers run on which nodes
  stowage status --context prod --output json     the same for scripts
  stowage crds | kubectl apply -f -               install the kinds of drivers and snapshots
  stowage operator --kubeconfig admin.conf        run drivers from CSIDriverDeployments
  stowage driver hostpath --endpoint unix:///csi/csi.sock     the embedded driver
  stowage conformance --endpoint unix:///csi/csi.sock         check a driver against the specification
  stowage sidecar node --csi-address /csi/csi.sock ...        the sidecar of a driver's node pod
  stowage takeover weka --check                   what becomes of the volumes of WEKA's own plugin

`stowage help COMMAND` says more about one command."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The roles of the binary. Boxed where there are many flags: a command is parsed once, and most others are small.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(after_help = "\
Examples:
  stowage conformance --endpoint unix:///csi/csi.sock
  stowage conformance --endpoint unix:///csi/csi.sock --focus Snapshot --junit report.xml
  stowage conformance --list")]
    Conformance(Box<stowage_conformance::ConformanceArgs>),
    Crds(CrdsArgs),
    #[command(subcommand)]
    Driver(Driver),
    #[command(subcommand)]
    Migrate(Migrate),
    Operator(Box<OperatorArgs>),
    #[command(subcommand)]
    Setup(Setup),
    #[command(subcommand)]
    Sidecar(Sidecar),
    #[cfg(feature = "sim")]
    #[command(subcommand)]
    Sim(Sim),
    SnapshotController(Box<SnapshotControllerCommand>),
    Status(StatusArgs),
    #[command(subcommand)]
    Takeover(Takeover),
}

#[cfg(test)]
mod documented;
#[cfg(test)]
mod tests;
