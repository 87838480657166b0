//! Volume handles: `<type>/<version>/<filesystem>[:<access point>][/<inner path>]`.
//!
//! They are in PersistentVolumes that live for years, so every form that was ever given out is read, and what was read
//! is written back byte for byte: a repeated CreateVolume must find the handle it gave out before.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::name;

/// Longest handle. The specification says 128, but a handle holds a path.
pub(crate) const LONGEST: usize = 1920;

/// The type of directory volumes.
const DIRECTORY: [&str; 2] = ["dir", "v1"];

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
        "`{}` is not a valid volume handle: use `dir/v1/FILESYSTEM/PATH` or `weka/v2/FILESYSTEM/PATH`",
        shown(.0)
    )]
    Malformed(String),
}

/// What holds the data of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A directory of an existing filesystem.
    Directory,
    /// A whole filesystem.
    Filesystem,
    /// A writable snapshot, or a directory in one.
    Snapshot,
}

/// Whose directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made by CreateVolume: below the dynamic path, with a derived name.
    Dynamic,
    /// Made by a person.
    Static,
}

impl Handle {
    /// The handle of a new directory volume.
    pub(crate) fn directory(filesystem: &str, dynamic_path: &str, name: &str) -> Self {
        // With an empty dynamic path there have always been two slashes.
        let inner = format!("{dynamic_path}/{}", name::directory(name));
        let [kind, version] = DIRECTORY;
        Self {
            text: format!("{kind}/{version}/{filesystem}/{inner}"),
            filesystem: filesystem.to_owned(),
            access_point: None,
            inner: Some(inner.trim_matches('/').to_owned()),
        }
    }

    /// Reads a handle.
    pub(crate) fn parse(text: &str) -> Result<Self, HandleError> {
        if text.len() > LONGEST {
            return Err(HandleError::TooLong(text.len()));
        }
        let malformed = || HandleError::Malformed(text.to_owned());
        if text.contains('\0') {
            return Err(malformed());
        }
        let mut segments = text.splitn(4, '/');
        let (kind, version) = (segments.next(), segments.next());
        let (Some(kind), Some(version), Some(place)) = (kind, version, segments.next()) else {
            return Err(malformed());
        };
        if kind.is_empty() || !version.starts_with('v') {
            return Err(malformed());
        }
        let (filesystem, access_point) = match place.split_once(':') {
            Some((filesystem, access_point)) => (filesystem, Some(access_point)),
            None => (place, None),
        };
        let inner = segments.next().map(|inner| inner.trim_matches('/'));
        let inner = inner.filter(|inner| !inner.is_empty());
        let lacks_path = [kind, version] == DIRECTORY && inner.is_none();
        if filesystem.is_empty() || access_point == Some("") || lacks_path {
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

    /// What the handle begins with: `dir/v1`, as a rule.
    pub(crate) fn kind(&self) -> &str {
        let mut slashes = self.text.match_indices('/').map(|(at, _)| at);
        &self.text[..slashes.nth(1).unwrap_or(self.text.len())]
    }

    /// The name of the filesystem.
    pub(crate) fn filesystem(&self) -> &str {
        &self.filesystem
    }

    /// What holds the data of the volume.
    pub(crate) fn backing(&self) -> Backing {
        match (&self.access_point, &self.inner) {
            (Some(_), _) => Backing::Snapshot,
            (None, Some(_)) => Backing::Directory,
            (None, None) => Backing::Filesystem,
        }
    }

    /// The inner path as the handle has it, without slashes at its ends.
    pub(crate) fn inner(&self) -> &str {
        self.inner.as_deref().unwrap_or_default()
    }

    /// Where the volume is, from the root of the filesystem. `..` stops at the root.
    pub(crate) fn path(&self) -> PathBuf {
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

    /// Whether CreateVolume can have made this directory. There is no other mark, so nothing else may be deleted.
    pub(crate) fn origin(&self, dynamic_path: &str) -> Origin {
        let path = self.path();
        let below = path.parent() == Some(Path::new(dynamic_path.trim_matches('/')));
        let derived = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(name::is_directory);
        // A path with `..` in it was never given out.
        let plain = Path::new(self.inner())
            .components()
            .all(|component| matches!(component, Component::Normal(_)));
        if below && derived && plain {
            Origin::Dynamic
        } else {
            Origin::Static
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text of unknown origin, fit for a message.
fn shown(text: &str) -> String {
    text.chars()
        .flat_map(char::escape_debug)
        .take(120)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380";
    const DIR: &str = "csi-volumes/pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c";

    #[test]
    fn a_new_volume_gets_the_handle_it_always_got() {
        let handle = Handle::directory("default", "csi-volumes", NAME);
        assert_eq!(handle.as_str(), format!("dir/v1/default/{DIR}"));
        assert_eq!(handle.path(), Path::new(DIR));
        let handle = Handle::directory("default", "", "x");
        assert!(
            handle.as_str().starts_with("dir/v1/default//x-"),
            "{handle}"
        );
        assert_eq!(handle.path().components().count(), 1);
    }

    #[test]
    fn every_form_in_use_is_read_and_written_back() {
        use Backing::{Directory, Filesystem, Snapshot};
        for (text, filesystem, backing, path) in [
            (format!("dir/v1/default/{DIR}"), "default", Directory, DIR),
            (
                "weka/v2/fs/some/dir".to_owned(),
                "fs",
                Directory,
                "some/dir",
            ),
            ("weka/v2/fs".to_owned(), "fs", Filesystem, ""),
            ("weka/v2/fs/".to_owned(), "fs", Filesystem, ""),
            ("fs/v1/filesystem".to_owned(), "filesystem", Filesystem, ""),
            ("weka/v1/fs:snap/dir".to_owned(), "fs", Snapshot, "dir"),
            ("weka/v2/fs:ap".to_owned(), "fs", Snapshot, ""),
            (
                format!("weka/v2/default:pvc-11111111-OGDMYFOFOZKD//{DIR}"),
                "default",
                Snapshot,
                DIR,
            ),
            ("dir/v1/fs//x".to_owned(), "fs", Directory, "x"),
            ("dir/v1/fs/a//b/./c".to_owned(), "fs", Directory, "a/b/c"),
        ] {
            let handle = Handle::parse(&text).unwrap();
            assert_eq!(handle.to_string(), text);
            assert_eq!(handle.filesystem(), filesystem, "{text}");
            assert_eq!(handle.backing(), backing, "{text}");
            assert_eq!(handle.path(), Path::new(path), "{text}");
        }
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        for text in [
            "",
            "x",
            "/dir/v1/fs/x",
            "dir/v1",
            "dir/v1/fs",
            "dir/v1/fs/",
            "dir/v1//x",
            "dir/1/fs/x",
            "weka/v2/",
            "weka/v2/:ap",
            "weka/v2/fs:",
            "dir/v1/fs/a\0b",
        ] {
            let refused = Handle::parse(text);
            assert_eq!(refused, Err(HandleError::Malformed(text.to_owned())));
        }
        let long = format!("dir/v1/fs/{}", "x".repeat(1911));
        assert_eq!(Handle::parse(&long), Err(HandleError::TooLong(1921)));
        assert!(Handle::parse(&long[..1920]).is_ok());
    }

    #[test]
    fn no_path_leads_above_the_root() {
        for (text, path) in [
            ("dir/v1/fs/../../etc", "etc"),
            ("dir/v1/fs/a/../../../b", "b"),
            ("dir/v1/fs/..", ""),
            ("weka/v2/fs/csi-volumes/../../x", "x"),
        ] {
            let handle = Handle::parse(text).unwrap();
            assert_eq!(handle.path(), Path::new(path), "{text}");
        }
    }

    #[test]
    fn only_derived_names_below_the_dynamic_path_are_ours() {
        let origin = |text: &str| Handle::parse(text).unwrap().origin("csi-volumes");
        assert_eq!(origin(&format!("dir/v1/fs/{DIR}")), Origin::Dynamic);
        assert_eq!(origin(&format!("weka/v2/fs/{DIR}")), Origin::Dynamic);
        assert_eq!(origin(&format!("dir/v1/fs//{DIR}/")), Origin::Dynamic);
        for text in [
            "dir/v1/fs/csi-volumes".to_owned(),
            "dir/v1/fs/csi-volumes/data".to_owned(),
            format!("dir/v1/fs/other/{}", name::directory(NAME)),
            format!("dir/v1/fs/csi-volumes/x/../{}", name::directory(NAME)),
            format!("dir/v1/fs/{DIR}/below"),
            format!("dir/v1/fs/{}", name::directory(NAME)),
        ] {
            assert_eq!(origin(&text), Origin::Static, "{text}");
        }
    }
}
