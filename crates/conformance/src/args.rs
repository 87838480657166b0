//! What can be typed after `stowage conformance`, and its help.
// The comments are the help text, and a terminal would show the backticks.
#![allow(clippy::doc_markdown)]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::options::AccessType;
use crate::quantity;

/// Checks whether a CSI driver keeps the specification's promises.
///
/// Calls the driver on its socket as Kubernetes would, rightly and wrongly, and compares its answers with the
/// specification. Cases that need a capability which the driver does not advertise are skipped. Every case removes
/// the volumes, snapshots and mounts it made.
///
/// Exit code: 0 nothing failed, 1 a case failed, 2 the cases could not run.
#[derive(Clone, Debug, clap::Args)]
pub struct ConformanceArgs {
    /// Socket of the driver: unix:///path/to/csi.sock
    #[arg(long, env = "CSI_ENDPOINT", value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Socket of the controller services, if it is another one
    #[arg(long, value_name = "ENDPOINT")]
    pub controller_endpoint: Option<String>,
    /// Socket of the node service, if it is another one
    #[arg(long, value_name = "ENDPOINT")]
    pub node_endpoint: Option<String>,
    /// How long to wait at the start for a driver that does not answer yet or says it is not ready
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::time)]
    pub ready_timeout: Duration,
    /// How long the driver may take for one call
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::time)]
    pub timeout: Duration,

    /// Run only cases whose `Group: name` contains this text; can be given several times
    #[arg(long, value_name = "TEXT", help_heading = "Which cases")]
    pub focus: Vec<String>,
    /// Do not run cases whose `Group: name` contains this text; can be given several times
    #[arg(long, value_name = "TEXT", help_heading = "Which cases")]
    pub skip: Vec<String>,
    /// List the cases and what they need, without running them
    #[arg(long, help_heading = "Which cases")]
    pub list: bool,
    /// Also publish as many volumes as the node allows, and one more
    #[arg(long, help_heading = "Which cases")]
    pub attach_limit: bool,
    /// Cases that run at the same time. One after the other finds the same fault at the same place every time;
    /// cases that count what the driver has run alone in any case
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        help_heading = "Which cases"
    )]
    pub jobs: NonZeroUsize,

    /// Parameters of volumes, as a storage class has them (YAML or JSON: a map of texts)
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    pub volume_parameters: Option<PathBuf>,
    /// Parameters of snapshots, as a snapshot class has them (YAML or JSON: a map of texts)
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    pub snapshot_parameters: Option<PathBuf>,
    /// Mutable parameters, as a volume attributes class has them (YAML or JSON: a map of texts)
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    pub mutable_parameters: Option<PathBuf>,
    /// Secrets by call (YAML or JSON: `CreateVolumeSecret: {key: value}` and so on). They are never printed
    #[arg(long, value_name = "FILE", help_heading = "What is sent")]
    pub secrets: Option<PathBuf>,
    /// Size of volumes
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = quantity::size, help_heading = "What is sent")]
    pub volume_size: i64,
    /// Size to which volumes are expanded [default: 1Gi more than their size]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "What is sent")]
    pub expand_size: Option<i64>,
    /// Use volumes as filesystems or as raw block devices
    #[arg(
        long,
        value_enum,
        default_value = "mount",
        help_heading = "What is sent"
    )]
    pub access_type: AccessType,
    /// Prefix of the names of volumes and snapshots
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "conformance",
        help_heading = "What is sent"
    )]
    pub name_prefix: String,
    /// How often a call is made that must give the same answer each time
    #[arg(
        long,
        value_name = "N",
        default_value = "10",
        help_heading = "What is sent"
    )]
    pub repeat: NonZeroUsize,

    /// Directory in which staging directories are created [default: the directory for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Paths on the node")]
    pub staging_dir: Option<PathBuf>,
    /// Directory in which parents of target paths are created [default: the directory for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Paths on the node")]
    pub target_dir: Option<PathBuf>,
    /// Command that creates the staging directory it is called with (and prints another path if it created that one)
    #[arg(long, value_name = "COMMAND", help_heading = "Paths on the node")]
    pub create_staging_command: Option<PathBuf>,
    /// Command that removes the staging directory it is called with
    #[arg(long, value_name = "COMMAND", help_heading = "Paths on the node")]
    pub remove_staging_command: Option<PathBuf>,
    /// Command that creates the target's parent it is called with (and prints another path if it created that one)
    #[arg(long, value_name = "COMMAND", help_heading = "Paths on the node")]
    pub create_target_command: Option<PathBuf>,
    /// Command that removes the target's parent it is called with
    #[arg(long, value_name = "COMMAND", help_heading = "Paths on the node")]
    pub remove_target_command: Option<PathBuf>,
    /// Command that prints what is at the path it is called with: file, directory, not_found or other
    #[arg(long, value_name = "COMMAND", help_heading = "Paths on the node")]
    pub check_path_command: Option<PathBuf>,
    /// How long these commands may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::time, help_heading = "Paths on the node")]
    pub path_command_timeout: Duration,

    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub junit: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
}
