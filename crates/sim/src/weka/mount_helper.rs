//! `mount.wekafs`: what `mount -t wekafs` calls.
//!
//! Stands in for the kernel's own filesystem: asks the frontend of this node, mounts FUSE in the mount namespace it was
//! called in, and hands the mount over to the frontend. The mount shows as `fuse.wekafs`.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use super::detached;
use super::frontend::wire::{Mount, Verdict, hand_over, receive, send};

/// Where frontends have their sockets, unless [`SOCKETS_VARIABLE`] says otherwise.
pub const SOCKETS: &str = "/run/stowage-sim/weka";

/// Says where frontends have their sockets.
pub const SOCKETS_VARIABLE: &str = "STOWAGE_SIM_WEKA_SOCKETS";

/// After `fuse.`, what a mount shows as.
const SUBTYPE: &str = "wekafs";

/// Where `mount` looks for helpers.
const HELPERS: &str = "/usr/sbin";

/// Options that the kernel takes for every filesystem, and what they do.
const VFS: &[(&str, MountFlags)] = &[
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
];

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

/// What `mount` asks for. It has no `Debug`: one of the options is a secret.
#[derive(Clone, Default)]
pub struct Request {
    /// The name of the filesystem.
    pub source: String,
    /// The directory to mount on.
    pub target: PathBuf,
    /// `-o`.
    pub options: Vec<String>,
    /// `-f`: everything but the mount.
    pub fake: bool,
}

impl Request {
    /// Reads the arguments that `mount` gives a helper, without the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, MountError> {
        let mut request = Self::default();
        let mut places = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.into_string().map_err(|_| MountError::Usage)?;
            let mut value = || {
                let next = arguments.next().ok_or(MountError::Usage)?;
                next.into_string().map_err(|_| MountError::Usage)
            };
            match text.as_str() {
                "-o" => request.add_options(&value()?),
                "-t" | "-N" => drop(value()?),
                flags if flags.starts_with('-') => {
                    if !flags[1..].chars().all(|flag| "sfnv".contains(flag)) {
                        return Err(MountError::Usage);
                    }
                    request.fake |= flags.contains('f');
                }
                _ => places.push(text),
            }
        }
        let [source, target] = <[String; 2]>::try_from(places).map_err(|_| MountError::Usage)?;
        request.source = source;
        request.target = PathBuf::from(target);
        Ok(request)
    }

    fn add_options(&mut self, list: &str) {
        let options = list.split(',').filter(|option| !option.is_empty());
        self.options.extend(options.map(ToOwned::to_owned));
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.options.iter().filter_map(|o| o.split_once('='));
        values.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn flags(&self) -> MountFlags {
        VFS.iter()
            .filter(|(name, _)| self.options.iter().any(|option| option == name))
            .fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag)
    }

    fn question(&self) -> Mount {
        let shown = self.options.iter().filter(|o| !o.starts_with("token="));
        Mount {
            filesystem: self.source.clone(),
            options: shown.cloned().collect(),
            token: self.value("token").map(ToOwned::to_owned),
        }
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
    send(&mut stream, &request.question()).map_err(failed)?;
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
    std::fs::create_dir_all(directory)?;
    let helper = directory.join("mount.wekafs");
    std::fs::write(&helper, script)?;
    std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o755))?;
    let layers = format!("lowerdir={}:{HELPERS}", directory.display());
    let layers = CString::new(layers)?;
    mount(
        "overlay",
        HELPERS,
        "overlay",
        MountFlags::empty(),
        layers.as_c_str(),
    )?;
    Ok(())
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

    fn parse(line: &str) -> Result<Request, MountError> {
        Request::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn arguments_are_those_of_mount() {
        let request = parse("default /mnt -sn -o rw,token=abc,ro -o container_name=c").unwrap();
        assert_eq!(request.source, "default");
        assert_eq!(request.target, Path::new("/mnt"));
        assert_eq!(request.value("container_name"), Some("c"));
        assert_eq!(request.flags(), MountFlags::RDONLY);
        let question = request.question();
        assert_eq!(question.token.as_deref(), Some("abc"));
        assert_eq!(question.options, ["rw", "ro", "container_name=c"]);
        assert!(parse("default /mnt -f").unwrap().fake);
        for wrong in ["default", "a b c", "a b -x", "a b -o"] {
            assert!(matches!(parse(wrong), Err(MountError::Usage)), "{wrong}");
        }
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
