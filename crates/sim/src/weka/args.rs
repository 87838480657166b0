//! What can be chosen about a simulated cluster, in a test and on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use stowage_service::duration;

use super::release::Release;

/// A simulated Weka cluster: which ports, which version, how slow.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Where the cluster keeps what it knows and the files of its filesystems; made if missing
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Port of the REST API; may be given several times, and each can be stopped alone
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14000")]
    pub listen: Vec<SocketAddr>,

    /// Port of the control API
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14100")]
    pub control: SocketAddr,

    /// Serve HTTPS; the certificate that clients must trust is DIR/ca.pem
    #[arg(long)]
    pub tls: bool,

    /// Version to play, from 3.8 to 5.1; on an existing cluster this is an upgrade [default of a new cluster: 5.1.0]
    #[arg(long, value_name = "VERSION")]
    pub release: Option<Release>,

    /// Name of a new cluster
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub cluster_name: String,

    /// Bytes that a new cluster has
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 40)]
    pub capacity: u64,

    /// Objects per page of a list
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub page_size: usize,

    /// How long an access token is valid
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    pub access_token_expiry: Duration,

    /// How long a refresh token is valid
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration::parse)]
    pub refresh_token_expiry: Duration,

    /// How long a new filesystem is being created
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub creation_delay: Duration,

    /// How long a filesystem, snapshot or quota is being removed
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub removal_delay: Duration,

    /// How long a quota is ADDING before it is ACTIVE
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub quota_delay: Duration,
}

impl Options {
    /// The defaults, on ports that are free.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        /// Only here to get the defaults from where they are written.
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            options: Options,
        }
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let defaults = Defaults::parse_from(["sim", "--data", "/"]).options;
        Self {
            data: data.into(),
            listen: vec![free],
            control: free,
            ..defaults
        }
    }
}
