//! What `mount` asks of its helpers, and how a helper mounts what another process serves.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fuser::{Config, Filesystem, Session, SessionACL};
use rustix::mount::{MountFlags, mount};

/// How many operations of one mount run at once.
const THREADS: usize = 8;

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

/// Where `mount` looks for helpers.
const HELPERS: &str = "/usr/sbin";

/// Lays a directory with these scripts over the one where `mount` looks for helpers, and where other tools are. Only for a
/// process with mounts of its own: whoever shares them would get the scripts, too.
pub fn install(directory: &Path, scripts: &[(&str, &str)]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, script) in scripts {
        let file = directory.join(name);
        std::fs::write(&file, script)?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    }
    let layers = CString::new(format!("lowerdir={}:{HELPERS}", directory.display()))?;
    let flags = MountFlags::empty();
    mount("overlay", HELPERS, "overlay", flags, layers.as_c_str())?;
    Ok(())
}

/// Not how `mount` calls a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMount;

/// What `mount` asks for. It has no `Debug`: an option may be a secret.
#[derive(Clone, Default)]
pub struct Request {
    /// What to mount.
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
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, NotMount> {
        let mut request = Self::default();
        let mut places = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.into_string().map_err(|_| NotMount)?;
            let mut value = || {
                let next = arguments.next().ok_or(NotMount)?;
                next.into_string().map_err(|_| NotMount)
            };
            match text.as_str() {
                "-o" => request.add_options(&value()?),
                "-t" | "-N" => drop(value()?),
                "--" | "--no-canonicalize" => {}
                flags if flags.starts_with('-') => {
                    if !flags[1..].chars().all(|flag| "sfnvwr".contains(flag)) {
                        return Err(NotMount);
                    }
                    request.fake |= flags.contains('f');
                    if flags.contains('r') {
                        request.add_options("ro");
                    }
                }
                _ => places.push(text),
            }
        }
        let [source, target] = <[String; 2]>::try_from(places).map_err(|_| NotMount)?;
        request.source = source;
        request.target = PathBuf::from(target);
        Ok(request)
    }

    fn add_options(&mut self, list: &str) {
        let options = list.split(',').filter(|option| !option.is_empty());
        self.options.extend(options.map(ToOwned::to_owned));
    }

    /// The value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.options.iter().filter_map(|o| o.split_once('='));
        values.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// What of the options the kernel takes for every filesystem.
    pub fn flags(&self) -> MountFlags {
        VFS.iter()
            .filter(|(name, _)| self.options.iter().any(|option| option == name))
            .fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag)
    }
}

/// Mounts something that whoever has the returned descriptor serves. It shows as `kind`.
pub fn mount_served(
    source: &str,
    target: &Path,
    kind: &str,
    flags: MountFlags,
) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd()
    );
    let data = CString::new(data)?;
    mount(source, target, kind, flags, data.as_c_str())?;
    Ok(device)
}

/// Serves what was mounted.
pub fn session<F: Filesystem>(filesystem: F, descriptor: OwnedFd) -> io::Result<Session<F>> {
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    Session::from_fd(filesystem, descriptor, SessionACL::All, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, NotMount> {
        Request::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn arguments_are_those_of_mount() {
        let request = parse("default /mnt -sn -o rw,token=abc,ro -o container_name=c").unwrap();
        assert_eq!(request.source, "default");
        assert_eq!(request.target, Path::new("/mnt"));
        assert_eq!(request.value("container_name"), Some("c"));
        assert_eq!(request.flags(), MountFlags::RDONLY);
        assert!(parse("default /mnt -f").unwrap().fake);
        assert_eq!(
            parse("default /mnt -r").unwrap().flags(),
            MountFlags::RDONLY
        );
        for wrong in ["default", "a b c", "a b -x", "a b -o"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
