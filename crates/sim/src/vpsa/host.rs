//! What the kernel of a node does with shares and disks of VPSAs, in a process beside it and outside of any pod.
//!
//! The stand-ins for `mount.nfs`, `iscsiadm` and `multipath` ask it on a socket. Shares are FUSE, mounted by the stand-in where it was
//! called; disks are loop devices over files that FUSE serves from an iSCSI session. Arrays see the node's address, its
//! initiator and its secrets as they would see those of a kernel, and refuse as much.
//!
//! | module | holds |
//! |---|---|
//! | [`tools`] | the stand-ins themselves |
//! | [`command`] | what can be said to `iscsiadm` (pure) |
//! | [`records`] | the files in which open-iscsi keeps what it knows of targets |
//! | [`initiator`] | sessions: log in, find disks, log out |
//! | [`disk`] | a disk, reached by sessions that are made again when they are lost |
//! | [`disks`] | disks as files |
//! | [`devices`] | loop devices of these files |
//! | [`maps`] | disks that several sessions lead to |
//! | [`sysfs`] | what the kernel shows of sessions and disks |

pub mod command;
pub mod devices;
pub mod disk;
pub mod disks;
pub mod initiator;
pub mod maps;
pub mod records;
pub mod sysfs;
pub mod tools;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use self::initiator::{Initiator, Printed};
use crate::handover::{Answering, SocketError, receive, send};
use crate::moment::fresh_secret;
use crate::nfs::host;
use crate::nfs::share::Network;
use crate::nfs::tool::Mount;

/// The socket that the stand-ins ask, unless [`SOCKET_VARIABLE`] says otherwise.
pub const SOCKET: &str = "/run/stowage-sim/vpsa/host.sock";

/// Says which socket the stand-ins ask.
pub const SOCKET_VARIABLE: &str = "STOWAGE_SIM_VPSA_SOCKET";

/// A node.
#[derive(clap::Args, Clone, Debug)]
pub struct HostOptions {
    /// Socket that the stand-ins for `mount.nfs`, `iscsiadm` and `multipath` ask
    #[arg(long, value_name = "FILE", env = SOCKET_VARIABLE, default_value = SOCKET)]
    pub socket: PathBuf,

    /// How it reaches them.
    #[command(flatten)]
    pub network: Network,

    /// File with the name of the node's initiator; made if missing, as the package of open-iscsi does
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/iscsi/initiatorname.iscsi"
    )]
    pub initiator_name: PathBuf,

    /// Directory of the records of targets
    #[arg(long, value_name = "DIR", default_value = "/etc/iscsi/nodes")]
    pub records: PathBuf,

    /// Directory of the links to disks
    #[arg(long, value_name = "DIR", default_value = "/dev/disk/by-path")]
    pub by_path: PathBuf,

    /// Directory in which sessions and disks are shown as the kernel does under /sys; without it they are not
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,

    /// Directory of the links to disks with several paths; without it no `multipathd` runs on the node
    #[arg(long, value_name = "DIR")]
    pub mapper: Option<PathBuf>,

    /// Begins the names of the files of disks, which the kernel shows of their loop devices
    #[arg(long, value_name = "TEXT", default_value = "disk")]
    pub label: String,
}

/// What a stand-in asks. It has no `Debug`: an argument may be a secret.
#[derive(Serialize, Deserialize)]
pub enum Question {
    /// `mount.nfs`, as [`nfs::tool`](crate::nfs::tool) asks it.
    Mount(Mount),
    /// `iscsiadm`.
    Iscsiadm(Vec<String>),
    /// `multipath` or `multipathd`.
    Multipath(Vec<String>),
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The name of its initiator.
    #[error("cannot write {}", path.display())]
    InitiatorName {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Its disks.
    #[error("cannot serve disks: is /dev/fuse there?")]
    Disks(#[source] io::Error),
}

/// A node that runs for as long as this is held.
#[derive(Debug)]
pub struct Host {
    answering: Answering,
    initiator: Arc<Initiator>,
}

impl Host {
    /// Starts a node. Must be called inside a tokio runtime.
    pub fn start(options: &HostOptions) -> Result<Self, HostError> {
        let name = &options.initiator_name;
        make_name(name).map_err(|source| HostError::InitiatorName {
            path: name.clone(),
            source,
        })?;
        let initiator = Initiator::start(options, Handle::current()).map_err(HostError::Disks)?;
        let initiator = Arc::new(initiator);
        let shared = Shared {
            network: options.network,
            initiator: Arc::clone(&initiator),
            runtime: Handle::current(),
        };
        let answering = Answering::start(&options.socket, move |stream| shared.answer(stream))?;
        Ok(Self {
            answering,
            initiator,
        })
    }

    /// The socket that the stand-ins ask.
    pub fn socket(&self) -> &Path {
        self.answering.socket()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // First: nobody may begin a session that nobody would end.
        self.answering.stop();
        self.initiator.let_go();
    }
}

struct Shared {
    network: Network,
    initiator: Arc<Initiator>,
    runtime: Handle,
}

/// A name that no other node has, unless there is one. Called twice: it stays.
fn make_name(file: &Path) -> io::Result<()> {
    if file.exists() {
        return Ok(());
    }
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let name = format!(
        "InitiatorName=iqn.2026-01.dev.stowage:{}\n",
        fresh_secret(6)
    );
    std::fs::write(file, name)
}

impl Shared {
    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        match receive(&mut stream)? {
            Question::Iscsiadm(arguments) => {
                let printed: Printed = self.initiator.run(&arguments);
                send(&mut stream, &printed)
            }
            Question::Multipath(arguments) => {
                send(&mut stream, &self.initiator.multipath(&arguments))
            }
            Question::Mount(mount) => host::answer(stream, &mount, self.network, &self.runtime),
        }
    }
}
