//! The command line as it is typed.

use std::path::PathBuf;
use std::time::Duration;

use stowage_service::duration;

use crate::args::client_files::ClientFiles;

/// Flags of `stowage migrate weka-legacy`.
#[derive(clap::Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Filesystem that holds the volumes
    #[arg(value_name = "FILESYSTEM")]
    pub filesystem: String,

    /// Directory of the filesystem that holds the volumes
    #[arg(long, value_name = "DIR", default_value = "csi-volumes")]
    pub csi_volumes_dir: String,

    /// Address of a Weka backend: to mount on a stateless client, and for the API if nothing else says where it is
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub endpoint_address: Option<String>,

    /// File with the Secret for the API of the Weka cluster, as `kubectl get secret NAME -o yaml` prints it
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Print more
    #[arg(long)]
    pub debug: bool,

    /// How long the cluster may take to enforce the quota of one volume: it counts what the volume holds
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    pub quota_timeout: Duration,

    /// How often to say that the cluster is still at it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub progress_interval: Duration,

    /// Do not verify the certificate of the Weka cluster; for tests only
    #[arg(long)]
    pub allow_insecure_https: bool,

    /// Container of the Weka client to mount through, if the machine has several
    #[arg(long, value_name = "NAME", env = "WEKAFS_CONTAINER_NAME")]
    pub container_name: Option<String>,

    /// Where to mount the filesystem
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/run/weka-fs-mounts-migration"
    )]
    pub mount_base: PathBuf,

    /// Where the kernel shows the client.
    #[command(flatten)]
    pub client_files: ClientFiles,
}
