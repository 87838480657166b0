//! NFS between simulated arrays and simulated hosts.
//!
//! The protocol itself is left out: an array says who may mount what, a process beside the node serves the files of it by
//! FUSE, and takes them away when the array does. What an array decides, and what a driver sees, is as with the real thing.
//!
//! - [`server`]: the port of an array.
//! - [`share`]: a mounted export, and the permission behind it.
//! - [`tool`]: the stand-in for `mount.nfs`.
//! - [`host`]: the process that it asks, for nodes that mount by NFS and need nothing else.

pub mod host;
pub mod server;
pub mod share;
pub mod tool;

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The version that a client speaks unless it says otherwise.
const DEFAULT_VERSION: &str = "4";

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The path of an export, such as `/export/name`.
    pub export: String,
    /// The address that the client reaches the array at.
    pub server: IpAddr,
    /// The version of the protocol, such as `4.1`.
    pub version: String,
}

impl Wanted {
    /// What a mount with these options asks for.
    pub fn new(export: &str, server: IpAddr, options: &[String]) -> Self {
        let value = |name: &str| {
            let mut options = options.iter().filter_map(|option| option.split_once('='));
            options
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let version = value("vers").or_else(|| value("nfsvers"));
        Self {
            export: export.to_owned(),
            server,
            version: version.unwrap_or(DEFAULT_VERSION).to_owned(),
        }
    }

    /// `V3` or `V4`, as arrays call it.
    pub fn major(&self) -> &'static str {
        if self.version.starts_with('3') {
            "V3"
        } else {
            "V4"
        }
    }
}

/// What the array says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It may be mounted.
    Granted(Grant),
    /// It may not, or not any more.
    Refused(String),
}

/// An export that may be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What is exported: a volume, a filesystem.
    pub what: String,
    /// As whom the client has it.
    pub to: String,
    /// Whether it can only be read.
    pub read_only: bool,
    /// Where the files are.
    pub files: PathBuf,
    /// Where it is counted how large the export is.
    pub ledgers: PathBuf,
    /// Where its snapshots are, if it shows them.
    pub snapshots: Option<GrantedSnapshots>,
}

/// The snapshots of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedSnapshots {
    /// A directory with one of each.
    pub directory: PathBuf,
    /// Marks those that can be written.
    pub writable: PathBuf,
}
