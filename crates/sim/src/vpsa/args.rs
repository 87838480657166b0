//! What can be chosen about a simulated array, in a test and on the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use stowage_service::duration;

use super::release::Release;

/// A simulated VPSA: which ports, which version, how slow.
#[derive(clap::Args, Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are flags of a command line"
)]
pub struct Options {
    /// Where the array keeps what it knows and the data of its volumes; made if missing
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Port of the REST API; may be given several times, and each can be stopped alone
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14443")]
    pub listen: Vec<SocketAddr>,

    /// Port of the control API
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:14500")]
    pub control: SocketAddr,

    /// Serve HTTP; otherwise HTTPS, with a certificate whose authority is DIR/ca.pem
    #[arg(long)]
    pub plain_http: bool,

    /// Address for data, as the array tells it; several are several paths to the same disks
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: Vec<IpAddr>,

    /// Listen for data on all addresses, and not only on those that are told
    #[arg(long)]
    pub any_address: bool,

    /// Port for iSCSI
    #[arg(long, value_name = "PORT", default_value_t = 3260)]
    pub iscsi_port: u16,

    /// Port for shares, where the stand-in for `mount.nfs` asks
    #[arg(long, value_name = "PORT", default_value_t = 2049)]
    pub nfs_port: u16,

    /// Serve no data: volumes can be made, and nothing can be mounted or logged in to
    #[arg(long)]
    pub no_data: bool,

    /// Version to play, from 19.08 to 23.09, or 00.00-BUILD; on an existing array this is an upgrade [default of a new array: 23.09-sp1-100]
    #[arg(long, value_name = "VERSION")]
    pub release: Option<Release>,

    /// Name of a new array
    #[arg(long, value_name = "NAME", default_value = "sim")]
    pub name: String,

    /// Access key of a new array
    #[arg(long, value_name = "KEY", default_value = "SIMULATEDACCESSKEY-1")]
    pub access_key: String,

    /// Pool of a new array, as NAME=GB; may be given several times
    #[arg(long, value_name = "NAME=GB", default_value = "pool=1000", value_parser = pool)]
    pub pool: Vec<(String, u64)>,

    /// A new array has flash drives only, and can compress and deduplicate
    #[arg(long)]
    pub all_flash: bool,

    /// Most objects on a page of a list
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub page_size: usize,

    /// How long a new volume is being created
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub creation_delay: Duration,

    /// How long after the answer a clone is seen
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration::parse)]
    pub clone_delay: Duration,

    /// How long a volume or snapshot is being deleted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub removal_delay: Duration,
}

/// `NAME=GB`.
fn pool(text: &str) -> Result<(String, u64), String> {
    let parts = text.split_once('=');
    let read = parts.and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
    read.ok_or_else(|| "write it as NAME=GB, such as fast=1000".to_owned())
}

impl Options {
    /// The defaults, on ports that are free, over HTTP, without data.
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
            no_data: true,
            ..defaults
        }
    }
}
