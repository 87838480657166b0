//! The stand-in for `mount.nfs`: asks the process that stands in for the kernel, and mounts what it serves.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, unmount};
use serde::{Deserialize, Serialize};

use crate::handover::{hand_over, receive, send};
use crate::mounting::{NotMount, Request, mount_served};
use crate::selinux::{self, BadLabel};

/// A mount that a host is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// `address:/export`.
    pub source: String,
    /// Options of the mount.
    pub options: Vec<String>,
}

/// What `mount.nfs` asks. Hosts may take other questions beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// For a mount.
    Mount(Mount),
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

/// Why nothing is mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Not how mount(8) calls a helper.
    #[error("usage: mount.nfs ADDRESS:/EXPORT DIRECTORY [-sfnvrw] [-o OPTION,...]")]
    Usage,
    /// Nobody stands in for the kernel.
    #[error("mount.nfs: no simulated host listens on {}", .0.display())]
    NoHost(PathBuf),
    /// The array says no.
    #[error("mount.nfs: {0}")]
    Refused(String),
    /// A label of SELinux that cannot be.
    #[error("mount.nfs: {0}")]
    Label(#[from] BadLabel),
    /// The host, or the kernel.
    #[error("mount.nfs: cannot mount {}", target.display())]
    Failed {
        /// The directory.
        target: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Mounts as mount(8) asks a helper to.
pub fn mount_nfs(
    arguments: impl IntoIterator<Item = OsString>,
    socket: &Path,
) -> Result<(), MountError> {
    let mut request = Request::parse(arguments).map_err(|NotMount| MountError::Usage)?;
    selinux::judge(&mut request, &selinux::OF_NFS)?;
    let failed = |source| MountError::Failed {
        target: request.target.clone(),
        source,
    };
    let mut stream =
        UnixStream::connect(socket).map_err(|_| MountError::NoHost(socket.to_owned()))?;
    let question = Question::Mount(Mount {
        source: request.source.clone(),
        options: request.options.clone(),
    });
    send(&mut stream, &question).map_err(failed)?;
    let read_only = match receive(&mut stream).map_err(failed)? {
        Permission::Granted { read_only } => read_only,
        Permission::Refused(reason) => return Err(MountError::Refused(reason)),
    };
    if request.fake {
        return Ok(());
    }
    let mut flags = request.flags();
    flags.set(
        MountFlags::RDONLY,
        flags.contains(MountFlags::RDONLY) || read_only,
    );
    let device =
        mount_served(&request.source, &request.target, "fuse.nfs", flags).map_err(failed)?;
    hand_over(&stream, &device)
        .and_then(|()| receive::<Permission>(&mut stream))
        .map(drop)
        .map_err(|error| {
            // Nobody serves it: better none than one that hangs.
            let _ = unmount(&request.target, UnmountFlags::DETACH);
            failed(error)
        })
}
