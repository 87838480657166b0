//! The command line: [`Args`] is what was typed, [`Config`] what it means. The names are those of the Go reference
//! driver where it has the flag.

use std::path::PathBuf;
use std::time::Duration;

use stowage_api::quantity;
use stowage_csi::flags::{self, DriverArgs, Serving, absolute, switch};
use stowage_host::filesystem::{FsError, FsKind};

use crate::id::{NodeId, NodeIdError};

/// Flags of `stowage driver hostpath`.
#[derive(clap::Args, Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
#[command(
    mut_arg("driver_name", |arg| arg.default_value("csi-hostpath").required(false)),
    mut_arg("allow_volatile_state_directory", switch),
    mut_arg("enable_attach", switch),
    mut_arg("enable_topology", switch),
)]
pub struct Args {
    /// What every driver has.
    #[command(flatten)]
    pub driver: DriverArgs,

    /// Name of this node; must stay the same for as long as its volumes live [default: the host's name]
    #[arg(long = "nodeid", value_name = "NODE")]
    pub node_id: Option<String>,

    /// Directory for volumes and snapshots [default: /var/lib/stowage if it outlives the container, else /tmp/csi-hostpath]
    #[arg(long = "statedir", value_name = "DIR")]
    pub state_directory: Option<PathBuf>,

    /// Begin with volumes also on tmpfs or ramfs, and in a directory that others may write
    #[arg(long = "allow-volatile-statedir", default_value = "false")]
    pub allow_volatile_state_directory: bool,

    /// Require volumes to be attached to a node before they are used
    #[arg(long, default_value = "false")]
    pub enable_attach: bool,

    /// Report topology, so that Kubernetes uses each volume on its own node only
    #[arg(long, default_value = "true")]
    pub enable_topology: bool,

    /// Maximum size of a volume
    #[arg(long, value_name = "SIZE", default_value = "1Ti", value_parser = quantity::size)]
    pub max_volume_size: i64,

    /// Maximum capacity of all volumes together [default: only the free space of the disk limits each volume]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub capacity: Option<i64>,

    /// Filesystem of volumes whose class does not set one
    #[arg(long = "default-fstype", value_name = "TYPE", default_value = "ext4", value_parser = filesystem)]
    pub default_filesystem: FsKind,

    /// Longest time, in seconds, for which a group snapshot may stop the writers of its volumes
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub max_group_freeze: u64,

    /// For tests: several nodes of one machine use the same state directory
    #[arg(long = "shared-statedir", hide = true)]
    pub shared_state_directory: bool,
}

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A flag that every driver has.
    #[error(transparent)]
    Driver(#[from] flags::FlagError),
    /// Not the name of a node.
    #[error("--nodeid (the host's name by default)")]
    NodeId(#[from] NodeIdError),
}

/// The flags, checked.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct Config {
    pub(crate) serving: Serving,
    pub(crate) node: NodeId,
    /// The one that the flag names.
    pub(crate) state_directory: Option<PathBuf>,
    pub(crate) allow_volatile: bool,
    pub(crate) attach: bool,
    pub(crate) topology: bool,
    pub(crate) max_volume_bytes: u64,
    pub(crate) capacity: Option<u64>,
    pub(crate) default_filesystem: FsKind,
    pub(crate) max_group_freeze: Duration,
    pub(crate) shared: bool,
}

impl TryFrom<Args> for Config {
    type Error = FlagError;

    fn try_from(args: Args) -> Result<Self, FlagError> {
        let node = args.node_id.unwrap_or_else(host_name);
        Ok(Self {
            serving: args.driver.try_into()?,
            node: node.parse()?,
            state_directory: args
                .state_directory
                .map(|path| absolute("statedir", path))
                .transpose()?,
            allow_volatile: args.allow_volatile_state_directory,
            attach: args.enable_attach,
            topology: args.enable_topology,
            max_volume_bytes: args.max_volume_size.unsigned_abs(),
            capacity: args.capacity.map(i64::unsigned_abs),
            default_filesystem: args.default_filesystem,
            max_group_freeze: Duration::from_secs(args.max_group_freeze),
            shared: args.shared_state_directory,
        })
    }
}

fn filesystem(name: &str) -> Result<FsKind, FsError> {
    name.parse()
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn config(words: &[&str]) -> Result<Config, FlagError> {
        let words = ["hostpath", "--endpoint=unix:///csi/csi.sock"]
            .iter()
            .chain(words);
        Command::try_parse_from(words).unwrap().args.try_into()
    }

    #[test]
    fn the_endpoint_is_enough() {
        let config = config(&[]).unwrap();
        assert_eq!(config.serving.driver_name, "csi-hostpath");
        assert_eq!(config.state_directory, None);
        assert!(config.topology && !config.attach && !config.shared && !config.allow_volatile);
        assert_eq!(config.node.as_str(), host_name());
        assert!(Command::try_parse_from(["hostpath"]).is_err());
    }

    #[test]
    fn flags_are_written_as_for_the_go_driver() {
        let config = config(&[
            "--drivername=hostpath.csi.k8s.io",
            "--nodeid=worker-1",
            "--statedir=/csi-data-dir",
            "--enable-attach",
            "--enable-topology=false",
            "--maxvolumespernode=7",
            "--capacity=10Gi",
            "--max-volume-size=1.5Ti",
        ])
        .unwrap();
        assert_eq!(config.serving.driver_name, "hostpath.csi.k8s.io");
        assert_eq!(config.state_directory, Some(PathBuf::from("/csi-data-dir")));
        assert!(config.attach && !config.topology);
        assert_eq!(
            (config.serving.max_volumes, config.capacity),
            (7, Some(10 << 30))
        );
        assert_eq!(config.max_volume_bytes, 1536 << 30);
    }

    #[test]
    fn wrong_flags_are_named_with_the_remedy() {
        for (flag, expected) in [
            ("--nodeid=", "--nodeid"),
            ("--statedir=data", "--statedir is `data`"),
        ] {
            let error = config(&[flag]).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
        for flag in ["--capacity=much", "--default-fstype=ntfs"] {
            assert!(Command::try_parse_from(["hostpath", "--endpoint=/a.sock", flag]).is_err());
        }
    }
}
