//! What can be chosen about a simulated cluster, in a test and on the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use stowage_service::duration;

use super::mount_helper::{SOCKETS, SOCKETS_VARIABLE};
use super::release::{Feature, Release};

/// A simulated Weka cluster: which ports, which version, how slow.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Data directory of the cluster: its state and the files of its filesystems; created if missing
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Port of the REST API; may be given several times, and each can be stopped alone
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14000")]
    pub listen: Vec<SocketAddr>,

    /// Port of the control API
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14100")]
    pub control: SocketAddr,

    /// Port for NFS; clients reach it by the stand-in for `mount.nfs`, at the addresses of interface groups
    #[arg(long, value_name = "ADDR")]
    pub nfs: Option<SocketAddr>,

    /// Serve HTTPS, as releases from 4.3 on always do; the certificate that clients must trust is DIR/ca.pem
    #[arg(long)]
    pub tls: bool,

    /// Serve HTTP, even if the release would serve HTTPS only
    #[arg(long, conflicts_with = "tls")]
    pub plain_http: bool,

    /// Release to simulate, from 3.8 to 5.1; on an existing cluster this is an upgrade [default of a new cluster: 5.1.0]
    #[arg(long, value_name = "VERSION")]
    pub release: Option<Release>,

    /// Name of a new cluster
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub cluster_name: String,

    /// Capacity of a new cluster
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

    /// How long servers take to know who may mount by NFS
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub nfs_delay: Duration,

    /// How long a quota is ADDING before it is ACTIVE
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub quota_delay: Duration,
}

impl Options {
    /// Whether a cluster of this version is reached over HTTPS.
    pub fn is_secure(&self, release: &Release) -> bool {
        self.tls || (!self.plain_http && release.has(Feature::OnlyHttps))
    }

    /// The defaults, on ports that are free; over HTTP, unless TLS is asked for.
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
            plain_http: true,
            ..defaults
        }
    }
}

/// The frontend of a node.
#[derive(clap::Args, Clone, Debug)]
pub struct FrontendArgs {
    /// Name of the node's Weka container
    #[arg(long, value_name = "NAME", default_value = "client")]
    pub container: String,

    /// Directory of the sockets that `mount.wekafs` asks
    #[arg(long, value_name = "DIR", env = SOCKETS_VARIABLE, default_value = SOCKETS)]
    pub sockets: PathBuf,

    /// Name of the node [default: the host's]
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,

    /// Address of the node
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub ip: IpAddr,

    /// File that stands in for /proc/modules
    #[arg(long, value_name = "FILE")]
    pub proc_modules: Option<PathBuf>,

    /// File that stands in for /proc/wekafs/interface; frontends of one node share it
    #[arg(long, value_name = "FILE")]
    pub proc_interface: Option<PathBuf>,
}

/// A frontend, and the cluster it belongs to.
#[derive(clap::Args, Clone, Debug)]
pub struct FrontendOptions {
    /// The cluster's data directory
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// The cluster's control API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:14100")]
    pub array: String,

    /// The node
    #[command(flatten)]
    pub node: FrontendArgs,
}

/// A client container, and the cluster it joins. The operator says most of it in the environment.
#[derive(clap::Args, Clone, Debug)]
pub struct ClientOptions {
    /// The cluster's data directory
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Addresses of the cluster's REST API; it is joined at the first that answers
    #[arg(
        long,
        value_name = "ADDR",
        env = "JOIN_IPS",
        value_delimiter = ',',
        required = true
    )]
    pub join: Vec<SocketAddr>,

    /// Port of the cluster's control API, at the same address
    #[arg(long, value_name = "PORT", default_value_t = 14100)]
    pub control_port: u16,

    /// The node
    #[command(flatten)]
    pub node: FrontendArgs,
}

impl FrontendOptions {
    /// The defaults, for a container of a cluster, with sockets in a directory of the caller's choice.
    pub fn new(array: &super::Array, container: &str, sockets: impl Into<PathBuf>) -> Self {
        Self {
            data: array.data().to_owned(),
            array: array.control().url().to_owned(),
            node: FrontendArgs {
                container: container.to_owned(),
                sockets: sockets.into(),
                hostname: None,
                ip: IpAddr::from([127, 0, 0, 1]),
                proc_modules: None,
                proc_interface: None,
            },
        }
    }

    pub(super) fn hostname(&self) -> String {
        self.node.hostname.clone().unwrap_or_else(|| {
            let names = rustix::system::uname();
            names.nodename().to_string_lossy().into_owned()
        })
    }

    pub(super) fn socket(&self) -> PathBuf {
        let name = format!("{}.sock", self.node.container);
        self.node.sockets.join(name)
    }
}
