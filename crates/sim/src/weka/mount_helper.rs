//! `mount.wekafs`: what `mount -t wekafs` calls.
//!
//! Stands in for the kernel's own filesystem: asks the frontend of this node, mounts FUSE in the mount namespace it was
//! called in, and hands the mount over to the frontend. The mount shows as `fuse.wekafs`.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::detached;
use crate::handover::{Verdict, hand_over, receive, send};
use crate::mounting::{self, NotMount};
use crate::selinux::{self, BadLabel};

pub use crate::mounting::Request;

/// Where frontends have their sockets, unless [`SOCKETS_VARIABLE`] says otherwise.
pub const SOCKETS: &str = "/run/stowage-sim/weka";

/// Says where frontends have their sockets.
pub const SOCKETS_VARIABLE: &str = "STOWAGE_SIM_WEKA_SOCKETS";

/// After `fuse.`, what a mount shows as.
const SUBTYPE: &str = "wekafs";

/// Why nothing is mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Not how `mount` calls a helper.
    #[error("usage: mount.wekafs FILESYSTEM DIRECTORY [-sfnv] [-o OPTION,...]")]
    Usage,
    /// No frontend, or not the one that is asked for.
    #[error("{0}: no Weka client is running")]
    NoClient(String),
    /// Several frontends, and none is named.
    #[error("several Weka clients are running, choose one with container_name: {}", .0.join(", "))]
    SeveralClients(Vec<String>),
    /// The cluster says no.
    #[error("mount refused: {0}")]
    Refused(String),
    /// A label of SELinux that cannot be.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// The kernel says no, or the frontend fell silent.
    #[error("cannot mount on `{}`", target.display())]
    Failed {
        /// Where.
        target: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A mount that a frontend is asked for. It has no `Debug`: the token is nobody's business.
#[derive(Serialize, Deserialize)]
pub struct Mount {
    /// The name of the filesystem.
    pub filesystem: String,
    /// Options, without the token.
    pub options: Vec<String>,
    /// The token.
    pub token: Option<String>,
}

/// What `mount` asks a helper for.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, MountError> {
    let mut request = Request::parse(arguments).map_err(|NotMount| MountError::Usage)?;
    selinux::judge(&mut request, &selinux::OF_WEKAFS)?;
    Ok(request)
}

/// What the frontend is asked: everything but where to mount, and the token apart.
fn question(request: &Request) -> Mount {
    let shown = request.options.iter().filter(|o| !o.starts_with("token="));
    // A client that is not up yet is given the address of a backend before the filesystem.
    let filesystem = request.source.rsplit('/').next();
    Mount {
        filesystem: filesystem.unwrap_or_default().to_owned(),
        options: shown.cloned().collect(),
        token: request.value("token").map(ToOwned::to_owned),
    }
}

/// Mounts through one of the frontends that have their sockets in a directory.
pub fn run(request: &Request, sockets: &Path) -> Result<(), MountError> {
    let socket = choose(sockets, request.value("container_name"))?;
    let failed = |source| MountError::Failed {
        target: request.target.clone(),
        source,
    };
    let mut stream = UnixStream::connect(&socket)
        .map_err(|_| MountError::NoClient(socket.display().to_string()))?;
    send(&mut stream, &question(request)).map_err(failed)?;
    if let Verdict::Refused(why) = receive(&mut stream).map_err(failed)? {
        return Err(MountError::Refused(why));
    }
    if request.fake {
        return Ok(());
    }
    let device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(failed)?;
    let mounted =
        detached::make(&request.source, SUBTYPE, request.flags(), &device).map_err(failed)?;
    hand_over(&stream, &device)
        .and_then(|()| receive::<Verdict>(&mut stream))
        .map_err(failed)?;
    // Whoever serves it has its own.
    drop(device);
    detached::attach(&mounted, &request.target).map_err(failed)
}

/// Lays a directory with this script as `mount.wekafs` over the one where `mount` looks for helpers. Only for a process with
/// mounts of its own: whoever shares them would get the helper, too.
pub fn install(directory: &Path, script: &str) -> io::Result<()> {
    mounting::install(directory, &[("mount.wekafs", script)])
}

/// The frontend that is asked for, or the only one.
fn choose(sockets: &Path, container: Option<&str>) -> Result<PathBuf, MountError> {
    if let Some(container) = container {
        let socket = sockets.join(format!("{container}.sock"));
        return if socket.exists() && !container.contains('/') {
            Ok(socket)
        } else {
            Err(MountError::NoClient(format!("container `{container}`")))
        };
    }
    let found: Vec<PathBuf> = std::fs::read_dir(sockets)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "sock"))
        .collect();
    match found.as_slice() {
        [] => Err(MountError::NoClient(sockets.display().to_string())),
        [only] => Ok(only.clone()),
        several => Err(MountError::SeveralClients(
            several
                .iter()
                .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
                .collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_told_apart() {
        let line = "default /mnt -o rw,token=abc,ro -o container_name=c";
        let request = parse(line.split(' ').map(OsString::from)).unwrap();
        let question = question(&request);
        assert_eq!(question.token.as_deref(), Some("abc"));
        assert_eq!(question.options, ["rw", "ro", "container_name=c"]);
        let wrong = parse(["default".into()]);
        assert!(matches!(wrong, Err(MountError::Usage)));
    }

    #[test]
    fn one_client_is_taken_and_of_several_the_named_one() {
        let sockets = tempfile::tempdir().unwrap();
        let choose = |name| choose(sockets.path(), name);
        assert!(matches!(choose(None), Err(MountError::NoClient(_))));
        std::fs::write(sockets.path().join("one.sock"), "").unwrap();
        assert!(choose(None).unwrap().ends_with("one.sock"));
        std::fs::write(sockets.path().join("two.sock"), "").unwrap();
        assert!(matches!(choose(None), Err(MountError::SeveralClients(_))));
        assert!(choose(Some("two")).unwrap().ends_with("two.sock"));
        assert!(matches!(choose(Some("none")), Err(MountError::NoClient(_))));
    }
}
