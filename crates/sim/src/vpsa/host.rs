//! What the kernel of a node does with shares and disks of VPSAs, in a process beside it and outside of any pod.
//!
//! The stand-ins for `mount.nfs` and `iscsiadm` ask it on a socket. Shares are FUSE, mounted by the stand-in where it was
//! called; disks are loop devices over files that FUSE serves from an iSCSI session. Arrays see the node's address, its
//! initiator and its secrets as they would see those of a kernel, and refuse as much.
//!
//! | module | holds |
//! |---|---|
//! | [`tools`] | the stand-ins themselves |
//! | [`share`] | a mounted share, and the permission behind it |
//! | [`command`] | what can be said to `iscsiadm` (pure) |
//! | [`records`] | the files in which open-iscsi keeps what it knows of targets |
//! | [`initiator`] | sessions: log in, find disks, log out |
//! | [`disk`] | a disk in a session, found again when the session is lost |
//! | [`disks`] | disks as files, for loop devices |

pub mod command;
pub mod disk;
pub mod disks;
pub mod initiator;
pub mod records;
pub mod share;
pub mod tools;

use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::initiator::{Initiator, Printed};
use self::share::Share;
use crate::handover::{receive, send, take_over};
use crate::moment::fresh_secret;

/// The socket that the stand-ins ask, unless [`SOCKET_VARIABLE`] says otherwise.
pub const SOCKET: &str = "/run/stowage-sim/vpsa/host.sock";

/// Says which socket the stand-ins ask.
pub const SOCKET_VARIABLE: &str = "STOWAGE_SIM_VPSA_SOCKET";

/// A node.
#[derive(clap::Args, Clone, Debug)]
pub struct HostOptions {
    /// Socket that the stand-ins for `mount.nfs` and `iscsiadm` ask
    #[arg(long, value_name = "FILE", env = SOCKET_VARIABLE, default_value = SOCKET)]
    pub socket: PathBuf,

    /// Address of the node that arrays see [default: whichever leads to them]
    #[arg(long, value_name = "IP")]
    pub ip: Option<IpAddr>,

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

    /// Begins the names of the files of disks, which the kernel shows of their loop devices
    #[arg(long, value_name = "TEXT", default_value = "disk")]
    pub label: String,

    /// Port for shares, unless a mount names another
    #[arg(long, value_name = "PORT", default_value_t = 2049)]
    pub nfs_port: u16,
}

/// What a stand-in asks. It has no `Debug`: an argument may be a secret.
#[derive(Serialize, Deserialize)]
pub enum Question {
    /// `mount.nfs`.
    Mount {
        /// `address:/export/name`.
        source: String,
        /// Options of the mount.
        options: Vec<String>,
    },
    /// `iscsiadm`.
    Iscsiadm(Vec<String>),
}

/// What `mount.nfs` is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Permission {
    /// Mount it.
    Granted {
        /// It can only be read.
        read_only: bool,
    },
    /// Do not; here is why.
    Refused(String),
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its socket.
    #[error("cannot listen on {}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
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
    socket: PathBuf,
    initiator: Arc<Initiator>,
    stop: CancellationToken,
}

impl Host {
    /// Starts a node. Must be called inside a tokio runtime.
    pub fn start(options: HostOptions) -> Result<Self, HostError> {
        let socket = options.socket.clone();
        let listener = listen(&socket).map_err(|source| HostError::Socket {
            path: socket.clone(),
            source,
        })?;
        let name = &options.initiator_name;
        make_name(name).map_err(|source| HostError::InitiatorName {
            path: name.clone(),
            source,
        })?;
        let initiator = Initiator::start(&options, Handle::current()).map_err(HostError::Disks)?;
        let initiator = Arc::new(initiator);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            options,
            initiator: Arc::clone(&initiator),
            runtime: Handle::current(),
        });
        thread::spawn({
            let stop = stop.clone();
            move || accept(&listener, &shared, &stop)
        });
        Ok(Self {
            socket,
            initiator,
            stop,
        })
    }

    /// The socket that the stand-ins ask.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
        // Wakes the thread that waits for the next question, which then sees that it is over.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
        self.initiator.let_go();
    }
}

struct Shared {
    options: HostOptions,
    initiator: Arc<Initiator>,
    runtime: Handle,
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = socket.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(socket)
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

fn accept(listener: &UnixListener, shared: &Arc<Shared>, stop: &CancellationToken) {
    for stream in listener.incoming() {
        if stop.is_cancelled() {
            return;
        }
        let Ok(stream) = stream else {
            continue;
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            if let Err(error) = shared.answer(stream) {
                tracing::warn!(%error, "A tool went away before it was answered.");
            }
        });
    }
}

impl Shared {
    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        match receive(&mut stream)? {
            Question::Iscsiadm(arguments) => {
                let printed: Printed = self.initiator.run(&arguments);
                send(&mut stream, &printed)
            }
            Question::Mount { source, options } => self.mount(stream, &source, &options),
        }
    }

    /// One mount, from the question to the end of serving it.
    fn mount(&self, mut stream: UnixStream, source: &str, options: &[String]) -> io::Result<()> {
        let asked = Share::ask(source, options, &self.options);
        let share = match self.runtime.block_on(asked) {
            Ok(share) => share,
            Err(reason) => return send(&mut stream, &Permission::Refused(reason)),
        };
        let read_only = share.is_read_only();
        send(&mut stream, &Permission::Granted { read_only })?;
        let session = share.serve(take_over(&stream)?, &self.runtime)?;
        send(&mut stream, &Permission::Granted { read_only })?;
        drop(stream);
        tracing::info!(source, "Mounted.");
        // Ends with an error when it is unmounted by force: that is an end, too.
        let _ = session.run();
        tracing::info!(source, "Unmounted.");
        Ok(())
    }
}
