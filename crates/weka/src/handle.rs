//! Volume handles: `<type>/<version>/<filesystem>[:<access point>][/<inner path>]`.
//!
//! They are in PersistentVolumes that live for years, so every form that was ever given out is read, and what was read
//! is written back byte for byte: a repeated CreateVolume must find the handle it gave out before.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::dynamic_paths::DynamicPaths;
use crate::name;

/// Longest handle. The specification says 128, but a handle holds a path.
pub(crate) const LONGEST: usize = 1920;

/// The type of directory volumes.
const DIRECTORY: [&str; 2] = ["dir", "v1"];

/// The type of all other volumes.
const UNIFIED: &str = "weka/v2";

/// Where a filesystem shows its snapshots, each under its access point.
pub(crate) const SNAPSHOTS: &str = ".snapshots";

/// What a handle names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    text: String,
    filesystem: String,
    access_point: Option<String>,
    /// Without slashes at its ends; none is the root.
    inner: Option<String>,
}

/// Why a text is not a handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleError {
    #[error("the volume handle is {0} bytes long: at most {LONGEST} are allowed")]
    TooLong(usize),
    #[error(
        "`{}` is not a valid volume handle: use `dir/v1/FILESYSTEM/PATH`, `weka/v2/FILESYSTEM[/PATH]` or `weka/v2/FILESYSTEM:ACCESS_POINT[/PATH]`",
        shown(.0)
    )]
    Malformed(String),
}

/// What holds the data of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Backing {
    /// A directory of an existing filesystem.
    Directory,
    /// A whole filesystem.
    Filesystem,
    /// A writable snapshot.
    Snapshot,
    /// A directory in a writable snapshot: a copy of a directory.
    Hybrid,
}

/// Who made a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// CreateVolume: it has a derived name, a directory also its place below a dynamic path.
    Dynamic,
    /// A person.
    Static,
}

impl Handle {
    /// The handle of a new directory volume.
    pub(crate) fn directory(filesystem: &str, dynamic_path: &str, name: &str) -> Self {
        // With an empty dynamic path there have always been two slashes.
        let inner = format!("{dynamic_path}/{}", name::directory(name));
        Self::directory_at(filesystem, &inner)
    }

    /// The handle of an existing directory.
    pub(crate) fn directory_at(filesystem: &str, inner: &str) -> Self {
        let [kind, version] = DIRECTORY;
        Self {
            text: format!("{kind}/{version}/{filesystem}/{inner}"),
            filesystem: filesystem.to_owned(),
            access_point: None,
            inner: Some(inner.trim_matches('/').to_owned()),
        }
    }

    /// The handle of a volume that is a whole filesystem.
    pub(crate) fn filesystem_volume(filesystem: &str) -> Self {
        Self {
            text: format!("{UNIFIED}/{filesystem}"),
            filesystem: filesystem.to_owned(),
            access_point: None,
            inner: None,
        }
    }

    /// The handle of a volume that is a snapshot or, with an inner path, a directory in one. The path is as its source
    /// has it after the slash.
    pub(crate) fn in_snapshot(filesystem: &str, access_point: &str, inner: Option<&str>) -> Self {
        // There have always been two slashes, and one more for each copy of a copy.
        let path = inner.map(|inner| format!("//{inner}")).unwrap_or_default();
        Self {
            text: format!("{UNIFIED}/{filesystem}:{access_point}{path}"),
            filesystem: filesystem.to_owned(),
            access_point: Some(access_point.to_owned()),
            inner: inner.map(|inner| inner.trim_matches('/').to_owned()),
        }
    }

    /// The volume that a directory of a filesystem is, if CreateVolume can have made it. The path is from the root.
    pub(crate) fn of_path(filesystem: &str, path: &str, dynamic: &DynamicPaths) -> Option<Self> {
        let path = path.trim_matches('/');
        let handle = if path.is_empty() {
            Self::filesystem_volume(filesystem)
        } else {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let [kind, version] = DIRECTORY;
            Self::parse(&format!("{kind}/{version}/{filesystem}/{parent}/{name}")).ok()?
        };
        (handle.origin(dynamic) == Origin::Dynamic).then_some(handle)
    }

    /// Reads a handle.
    pub(crate) fn parse(text: &str) -> Result<Self, HandleError> {
        if text.len() > LONGEST {
            return Err(HandleError::TooLong(text.len()));
        }
        let malformed = || HandleError::Malformed(text.to_owned());
        let parts = Parts::split(text).ok_or_else(malformed)?;
        let (filesystem, access_point) = match parts.place.split_once(':') {
            Some((filesystem, access_point)) => (filesystem, Some(access_point)),
            None => (parts.place, None),
        };
        let inner = parts.inner.map(|inner| inner.trim_matches('/'));
        let inner = inner.filter(|inner| !inner.is_empty());
        let lacks_path = parts.kind == DIRECTORY && inner.is_none();
        let is_outside = matches!(access_point, Some("" | "." | ".."));
        if filesystem.is_empty() || is_outside || lacks_path {
            return Err(malformed());
        }
        Ok(Self {
            text: text.to_owned(),
            filesystem: filesystem.to_owned(),
            access_point: access_point.map(str::to_owned),
            inner: inner.map(str::to_owned),
        })
    }

    /// The handle as it was given out.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What the handle begins with: `dir/v1` or `weka/v2`, as a rule.
    pub(crate) fn kind(&self) -> &str {
        let mut slashes = self.text.match_indices('/').map(|(at, _)| at);
        &self.text[..slashes.nth(1).unwrap_or(self.text.len())]
    }

    /// The name of the filesystem.
    pub(crate) fn filesystem(&self) -> &str {
        &self.filesystem
    }

    /// The access point of the snapshot that the volume is, or is in.
    pub(crate) fn access_point(&self) -> Option<&str> {
        self.access_point.as_deref()
    }

    /// What holds the data of the volume.
    pub(crate) fn backing(&self) -> Backing {
        match (&self.access_point, &self.inner) {
            (Some(_), Some(_)) => Backing::Hybrid,
            (Some(_), None) => Backing::Snapshot,
            (None, Some(_)) => Backing::Directory,
            (None, None) => Backing::Filesystem,
        }
    }

    /// The inner path as the handle has it, without slashes at its ends.
    pub(crate) fn inner(&self) -> &str {
        self.inner.as_deref().unwrap_or_default()
    }

    /// The inner path as the handle has it after the slash: what a copy of the volume is called by.
    pub(crate) fn written_inner(&self) -> Option<&str> {
        self.inner.as_ref()?;
        Parts::split(&self.text)?.inner
    }

    /// Where the volume is, from the root of the filesystem. `..` stops at the root of the filesystem or snapshot.
    pub(crate) fn path(&self) -> PathBuf {
        let snapshot = self.access_point.as_ref();
        let snapshot = snapshot.map(|access_point| Path::new(SNAPSHOTS).join(access_point));
        snapshot.unwrap_or_default().join(self.path_within())
    }

    fn path_within(&self) -> PathBuf {
        let mut path = PathBuf::new();
        for component in Path::new(self.inner()).components() {
            match component {
                Component::Normal(name) => path.push(name),
                Component::ParentDir => {
                    path.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        path
    }

    /// Whether CreateVolume can have made this volume. There is no other mark, so nothing else may be deleted.
    pub(crate) fn origin(&self, dynamic: &DynamicPaths) -> Origin {
        let derived = match (self.backing(), &self.access_point) {
            (_, Some(access_point)) => name::is_object(access_point),
            (Backing::Directory, None) => self.has_own_path(dynamic),
            (_, None) => name::ends_like_object(&self.filesystem),
        };
        if derived {
            Origin::Dynamic
        } else {
            Origin::Static
        }
    }

    /// Whether the inner path leads to a directory that CreateVolume made, or there is none: a person who chose a path
    /// may have put links on it.
    pub(crate) fn has_own_path(&self, dynamic: &DynamicPaths) -> bool {
        let parent = self.derived_parent();
        self.inner.is_none() || parent.is_some_and(|parent| dynamic.contain(&parent))
    }

    /// Where the directory is, if it is called as CreateVolume calls directories. It can have made it if it made volumes there.
    pub(crate) fn derived_parent(&self) -> Option<PathBuf> {
        let path = self.path_within();
        // A path with `..` in it was never given out.
        let plain = Path::new(self.inner())
            .components()
            .all(|component| matches!(component, Component::Normal(_)));
        let derived = name::is_directory(path.file_name()?.to_str()?);
        (plain && derived).then(|| path.parent().map(Path::to_owned))?
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the slashes of an identifier separate.
pub(crate) struct Parts<'a> {
    /// Type and version.
    pub(crate) kind: [&'a str; 2],
    pub(crate) place: &'a str,
    /// All that follows the third slash.
    pub(crate) inner: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(crate) fn split(text: &'a str) -> Option<Self> {
        let mut segments = text.splitn(4, '/');
        let kind = [segments.next()?, segments.next()?];
        let place = segments.next()?;
        let [name, version] = kind;
        let is_whole = !name.is_empty() && version.starts_with('v') && !text.contains('\0');
        is_whole.then(|| Self {
            kind,
            place,
            inner: segments.next(),
        })
    }
}

/// A text of unknown origin, fit for a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .flat_map(char::escape_debug)
        .take(120)
        .collect()
}

#[cfg(test)]
mod tests;
