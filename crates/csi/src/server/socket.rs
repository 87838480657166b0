//! The listening socket: who may connect, and what happens to a file that is in the way.

use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::endpoint::Endpoint;

/// The kubelet, the sidecar and probes connect at the same moment after a restart of the node.
const BACKLOG: i32 = 128;

/// Temporary names are drawn at random; a name that is taken is drawn again this often.
const NAME_ATTEMPTS: u32 = 8;

/// A bound socket that already listens. Dropped, it removes its file, unless somebody else's socket is
/// there by now (a new pod of the same driver may start before the old one has gone).
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket, removed on drop if it still is the same file.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Removing it could destroy somebody's data.
    #[error("`{}` exists and is not a socket: remove it, or choose another endpoint", .0.display())]
    NotASocket(PathBuf),
    /// The directory is missing or read-only, or something like it.
    #[error("cannot {action} socket `{}`", path.display())]
    Io {
        /// The socket's final name.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Socket {
    /// Listens at `endpoint` for processes of the same user.
    ///
    /// The socket gets mode 0600 before it is bound, is bound under a hidden temporary name (which the
    /// kubelet ignores) and renamed once it listens: whoever sees the name can connect, and nobody else
    /// could at any time. A stale socket is replaced by the rename; any other file is refused.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, SocketError> {
        let path = endpoint.path();
        let failed = |action| {
            move |source| SocketError::Io {
                path: path.to_owned(),
                action,
                source,
            }
        };
        refuse_other_files(path)?;

        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(|errno| failed("open")(errno.into()))?;
        // Linux takes the mode of the file from the descriptor, so there is no moment with a wider one,
        // and the process-wide umask is left alone.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failed("set the mode of")(errno.into()))?;
        let mut file = bind_temporary(&socket, path).map_err(failed("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed("listen on")(errno.into()))?;
        fs::rename(&file.path, path).map_err(failed("rename a new file to"))?;
        path.clone_into(&mut file.path);

        Ok(Self {
            listener: UnixListener::from(socket),
            file,
        })
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "Cannot remove the socket.");
        }
    }
}

fn refuse_other_files(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(()),
        Ok(_) => Err(SocketError::NotASocket(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SocketError::Io {
            path: path.to_owned(),
            action: "look for an existing",
            source,
        }),
    }
}

/// Binds under a hidden name in the directory of `path`, because a rename works within a filesystem only.
fn bind_temporary(socket: &rustix::fd::OwnedFd, path: &Path) -> io::Result<SocketFile> {
    let mut attempts = 0;
    loop {
        let temporary = path.with_file_name(hidden_name());
        match rustix::net::bind(socket, &SocketAddrUnix::new(&temporary)?) {
            Ok(()) => {
                let found = fs::symlink_metadata(&temporary)?;
                return Ok(SocketFile {
                    path: temporary,
                    device: found.dev(),
                    inode: found.ino(),
                });
            }
            Err(rustix::io::Errno::ADDRINUSE) if attempts < NAME_ATTEMPTS => attempts += 1,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Six characters, as many as the shortest name that ends in `.sock` has: a path that fits, fits with this
/// name too. Random, because process ids repeat across containers that share the directory.
fn hidden_name() -> OsString {
    let random = iter::repeat_with(fastrand::alphanumeric).take(5);
    iter::once('.').chain(random).collect::<String>().into()
}
