//! Snapshot handles: `[<type>/<version>/]<filesystem>:<name>:<access point>[/<inner path>]`.
//!
//! They are in VolumeSnapshotContents, and as old as those: what was ever given out is read and written back.

use std::fmt;

use crate::handle::{Handle, LONGEST, Parts, shown};
use crate::name;
use crate::rest::wire::Snapshot;

const KIND: &str = "wekasnap/v2";

/// What a snapshot handle names: a snapshot of a whole filesystem, and which directory of it was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotId {
    text: String,
    filesystem: String,
    name: String,
    access_point: String,
    /// As it is after the slash.
    inner: Option<String>,
}

/// Why a text is not a snapshot handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a valid snapshot handle: use `wekasnap/v2/FILESYSTEM:NAME:ACCESS_POINT[/PATH]`",
    shown(.0)
)]
pub(crate) struct SnapshotIdError(String);

impl SnapshotId {
    /// The handle of a snapshot with this name of Kubernetes.
    pub(crate) fn new(snapshot: &str, volume: &Handle) -> Self {
        let (filesystem, name) = (volume.filesystem(), name::object(snapshot));
        let access_point = name::of_snapshot(snapshot, volume.as_str());
        let inner = volume.written_inner();
        let path = inner.map(|inner| format!("/{inner}")).unwrap_or_default();
        Self {
            text: format!("{KIND}/{filesystem}:{name}:{access_point}{path}"),
            filesystem: filesystem.to_owned(),
            name,
            access_point,
            inner: inner.map(str::to_owned),
        }
    }

    /// Reads a handle.
    pub(crate) fn parse(text: &str) -> Result<Self, SnapshotIdError> {
        let error = || SnapshotIdError(text.to_owned());
        let (place, inner) = split(text).ok_or_else(error)?;
        let names: Vec<_> = place.split(':').collect();
        let [filesystem, name, access_point] = names[..] else {
            return Err(error());
        };
        let is_outside = matches!(access_point, "." | "..");
        if names.iter().any(|name| name.is_empty()) || is_outside || text.len() > LONGEST {
            return Err(error());
        }
        let inner = inner.filter(|inner| !inner.trim_matches('/').is_empty());
        Ok(Self {
            text: text.to_owned(),
            filesystem: filesystem.to_owned(),
            name: name.to_owned(),
            access_point: access_point.to_owned(),
            inner: inner.map(str::to_owned),
        })
    }

    pub(crate) fn filesystem(&self) -> &str {
        &self.filesystem
    }

    /// The access point of the snapshot on the array.
    pub(crate) fn access_point(&self) -> &str {
        &self.access_point
    }

    /// Whether only a directory of the filesystem was meant.
    pub(crate) fn is_of_directory(&self) -> bool {
        self.inner.is_some()
    }

    /// Whether a snapshot with this name on the array is the one: it has a prefix that people change, or none.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        name.ends_with(&self.name)
    }

    /// Whether a snapshot of the filesystem is the one.
    pub(crate) fn is_at(&self, snapshot: &Snapshot) -> bool {
        snapshot.access_point == self.access_point && self.is_called(&snapshot.name)
    }

    /// The volume that it may have been taken of: what is known where nothing else is.
    pub(crate) fn source(&self) -> Handle {
        match &self.inner {
            None => Handle::filesystem_volume(&self.filesystem),
            Some(inner) => Handle::directory_at(&self.filesystem, inner),
        }
    }

    /// The handle of a volume that is restored from the snapshot.
    pub(crate) fn restored(&self, access_point: &str) -> Handle {
        Handle::in_snapshot(&self.filesystem, access_point, self.inner.as_deref())
    }

    /// What was meant, in the snapshot itself.
    pub(crate) fn view(&self) -> Handle {
        self.restored(&self.access_point)
    }
}

/// Place and inner path. Handles that people wrote may lack type and version: then the first part is the place.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let (first, rest) = match text.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    if first.contains(':') {
        return (!text.contains('\0')).then_some((first, rest));
    }
    let parts = Parts::split(text)?;
    Some((parts.place, parts.inner))
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: &str = "csi-volumes/pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c";
    const SNAPSHOT: &str = "snapshot-0b2c6b5e-1111-2222-3333-444455556666";

    #[test]
    fn a_new_snapshot_gets_the_handle_it_always_got() {
        for (volume, id) in [
            (
                format!("dir/v1/default/{DIR}"),
                format!("wekasnap/v2/default:snapshot-0b2-QPKWBUIATYGF:33LX4HAPRTX5/{DIR}"),
            ),
            (
                "weka/v2/csivol-pvc-d00ba0fe-UFSZZCT55U6D".to_owned(),
                "wekasnap/v2/csivol-pvc-d00ba0fe-UFSZZCT55U6D:snapshot-0b2-QPKWBUIATYGF:IMKK6EKBHN3F"
                    .to_owned(),
            ),
        ] {
            let made = SnapshotId::new(SNAPSHOT, &Handle::parse(&volume).unwrap());
            assert_eq!(made.to_string(), id);
            assert_eq!(SnapshotId::parse(&id), Ok(made));
        }
    }

    #[test]
    fn what_is_restored_is_where_the_original_was() {
        let of_directory = format!("wekasnap/v2/default:snap:POINT/{DIR}");
        let id = SnapshotId::parse(&of_directory).unwrap();
        let restored = id.restored("new").to_string();
        assert_eq!(restored, format!("weka/v2/default:new//{DIR}"));
        let id =
            SnapshotId::parse("wekasnap/v2/testfs:testfs-snap:testfs-snap-access-point").unwrap();
        assert_eq!(id.restored("new").as_str(), "weka/v2/testfs:new");
        assert!(id.is_called("csisnp-testfs-snap") && id.is_called("testfs-snap"));
        assert!(!id.is_called("testfs-snap-2"));
    }

    #[test]
    fn a_handle_without_type_and_version_names_the_same_snapshot() {
        for rest in [
            "fs:name:POINT",
            "fs:name:POINT/v1/dir",
            "fs:name:POINT//dir",
        ] {
            let short = SnapshotId::parse(rest).unwrap();
            let long = SnapshotId::parse(&format!("wekasnap/v2/{rest}")).unwrap();
            assert_eq!(short.view(), long.view(), "{rest}");
            assert!(short.is_called("csisnp-name"));
            assert_eq!(short.to_string(), rest, "it is given back as it was");
        }
    }

    #[test]
    fn what_is_no_snapshot_handle_is_refused() {
        for text in [
            "",
            "x",
            "wekasnap/v2/fs",
            "wekasnap/v2/fs:name",
            "wekasnap/v2/fs:name:",
            "wekasnap/v2/:name:point",
            "wekasnap/v2/fs:name:..",
            "wekasnap/v2/fs:a:b:c",
            "/v2/fs:name:point",
            "fs:name",
            "fs:name:",
            "fs:name:..",
            "fs:a:b:c",
            ":name:point",
        ] {
            assert!(SnapshotId::parse(text).is_err(), "{text}");
        }
    }
}
