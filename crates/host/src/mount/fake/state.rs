//! The mounts of a [`FakeMounter`](super::FakeMounter), as entries of a list.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::mount::{BindSource, Shown};
use crate::mountinfo::{Device, MountTable};
use crate::stat::Health;

#[derive(Default)]
pub(super) struct State {
    pub(super) mounts: Vec<Entry>,
    pub(super) next_id: u64,
    pub(super) calls: Vec<String>,
    pub(super) health: HashMap<PathBuf, Health>,
    pub(super) refusals: HashMap<&'static str, Errno>,
}

pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) device: Device,
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    pub(super) kind: String,
    pub(super) source: String,
    pub(super) read_only: bool,
}

impl State {
    pub(super) fn add(
        &mut self,
        device: Device,
        root: &Path,
        point: &Path,
        kind: &str,
        source: &str,
        read_only: bool,
    ) {
        self.next_id += 1;
        let (root, point) = (root.to_owned(), point.to_owned());
        let (kind, source) = (kind.to_owned(), source.to_owned());
        self.mounts.push(Entry {
            id: self.next_id,
            device,
            root,
            point,
            kind,
            source,
            read_only,
        });
    }

    /// The topmost mount at or above `path`.
    fn holding(&self, path: &Path) -> Option<&Entry> {
        let holding = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.point));
        holding.max_by_key(|mount| (mount.point.components().count(), mount.id))
    }

    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        for (position, mount) in self.mounts.iter().enumerate() {
            let below = self.mounts[..position]
                .iter()
                .filter(|below| mount.point.starts_with(&below.point));
            let parent = below.max_by_key(|below| (below.point.components().count(), below.id));
            let access = if mount.read_only { "ro" } else { "rw" };
            let (root, source) = mount.fields();
            writeln!(
                text,
                "{} {} {} {} {} {access} - {} {} rw",
                mount.id,
                parent.map_or(0, |parent| parent.id),
                mount.device,
                escape(root.as_os_str().as_bytes()),
                escape(mount.point.as_os_str().as_bytes()),
                escape(mount.kind.as_bytes()),
                escape(source.as_bytes()),
            )?;
        }
        Ok(text)
    }

    pub(super) fn shown(&self, source: &BindSource) -> Result<Shown, Errno> {
        let path = real_path(source)?;
        let mount = self.holding(&path).ok_or(Errno::NOENT)?;
        let below = path.strip_prefix(&mount.point).unwrap_or(Path::new(""));
        let table = self.text().map_err(|_| Errno::INVAL)?;
        let table = MountTable::parse(table).map_err(|_| Errno::INVAL)?;
        let listed = table.with_id(mount.id).ok_or(Errno::NOENT)?;
        let root = if below.as_os_str().is_empty() {
            listed.shown().into_owned()
        } else {
            listed.shown().join(below)
        };
        Ok(Shown {
            device: mount.device,
            root,
        })
    }
}

impl Entry {
    /// Root and source as the kernel shows them: NFS has the path in the source.
    fn fields(&self) -> (&Path, String) {
        let below = self.root.strip_prefix("/").unwrap_or(&self.root);
        if matches!(&*self.kind, "nfs" | "nfs4") && !below.as_os_str().is_empty() {
            (
                Path::new("/"),
                format!("{}/{}", self.source, below.display()),
            )
        } else {
            (&self.root, self.source.clone())
        }
    }
}

pub(super) fn real_path(source: &BindSource) -> Result<PathBuf, Errno> {
    let named = match source {
        BindSource::Path(path) => path.clone(),
        BindSource::Descriptor(descriptor) => {
            PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
        }
    };
    fs::canonicalize(named).map_err(|_| Errno::NOENT)
}

/// As the kernel writes names: what separates fields is an octal number.
fn escape(name: &[u8]) -> String {
    name.iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | 0x80.. => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\{byte:03o}");
            }
            byte => text.push(char::from(byte)),
        }
        text
    })
}
