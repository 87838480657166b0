//! The stand-ins for `mount.nfs` and `iscsiadm`: they ask the process that stands in for the kernel.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, unmount};

use super::initiator::Printed;
use super::{Permission, Question};
use crate::handover::{hand_over, receive, send};
use crate::mounting::{NotMount, Request, mount_served};

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
    let request = Request::parse(arguments).map_err(|NotMount| MountError::Usage)?;
    let failed = |source| MountError::Failed {
        target: request.target.clone(),
        source,
    };
    let mut stream =
        UnixStream::connect(socket).map_err(|_| MountError::NoHost(socket.to_owned()))?;
    let question = Question::Mount {
        source: request.source.clone(),
        options: request.options.clone(),
    };
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

/// Runs `iscsiadm`; what it prints, and its exit code.
pub fn iscsiadm(arguments: Vec<String>, socket: &Path) -> Printed {
    let asked = UnixStream::connect(socket).and_then(|mut stream| {
        send(&mut stream, &Question::Iscsiadm(arguments))?;
        receive(&mut stream)
    });
    // What iscsiadm says when its daemon does not answer.
    asked.unwrap_or_else(|_| Printed {
        code: 20,
        out: String::new(),
        err: "iscsiadm: can not connect to iSCSI daemon (111)!\n".to_owned(),
    })
}
