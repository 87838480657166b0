//! What a device holds.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::superblock::{self, HEAD};
use super::{FsError, FsKind};
use crate::blocking;
use crate::exec::{Exec, Invocation, Output, tools};

/// How much of a device's end is read: software RAID and partition tables keep a copy there.
const TAIL: usize = 64 * 1024;

/// `blkid` found nothing, or could not even open the device.
const NOTHING: i32 = 2;
/// `blkid` found several things that cannot all be true.
const AMBIVALENT: i32 = 8;

/// What a device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// No signature of anything; it could be read.
    Empty,
    /// A filesystem whose `mkfs` was interrupted. It never held anything.
    Unfinished(FsKind),
    /// A filesystem.
    Filesystem {
        /// Its type, in `blkid`'s words.
        kind: String,
        /// Its identity.
        uuid: Option<String>,
    },
    /// Something else: a partition table, a RAID member, an encrypted disk.
    Other {
        /// In `blkid`'s words.
        kind: String,
    },
    /// Signatures of several things.
    Ambivalent,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing"),
            Self::Unfinished(kind) => write!(f, "an unfinished {kind}"),
            Self::Filesystem { kind, .. } | Self::Other { kind } => f.write_str(kind),
            Self::Ambivalent => f.write_str("signatures of several things"),
        }
    }
}

/// Looks at a device.
///
/// `blkid` returns the same code for "nothing on it" and for "cannot be opened or read", so the device is opened and
/// read here first and stays open meanwhile: an I/O error must never pass for emptiness.
pub async fn probe(exec: &dyn Exec, device: &Path) -> Result<Content, FsError> {
    let (_open, head) = read_ends(device).await?;
    let invocation = Invocation::new(tools::BLKID)
        .args(["-p", "-o", "export", "--"])
        .arg(device);
    let output = exec.run(invocation).await?;
    match output.code() {
        Some(0) if superblock::is_unfinished_xfs(&head) => Ok(Content::Unfinished(FsKind::Xfs)),
        Some(0) => Ok(found(&output)),
        Some(NOTHING) if output.stdout.is_empty() && output.stderr.is_empty() => Ok(Content::Empty),
        Some(AMBIVALENT) => Ok(Content::Ambivalent),
        _ => Err(output.failure().into()),
    }
}

/// The beginning of a device.
pub(super) async fn read_head(device: &Path) -> Result<Vec<u8>, FsError> {
    read_ends(device).await.map(|(_, head)| head)
}

async fn read_ends(device: &Path) -> Result<(File, Vec<u8>), FsError> {
    let path = device.to_owned();
    let read = blocking(move || {
        let mut file = File::open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        let head = read_at(&mut file, 0, HEAD)?;
        read_at(&mut file, size.saturating_sub(TAIL as u64), TAIL)?;
        Ok((file, head))
    });
    read.await.map_err(|source| FsError::Unreadable {
        device: device.to_owned(),
        source,
    })
}

fn read_at(file: &mut File, start: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    file.seek(SeekFrom::Start(start))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the lines `KEY=value` say.
fn found(output: &Output) -> Content {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        let values = text.lines().filter_map(|line| line.split_once('='));
        values
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
            .next()
    };
    match (value("TYPE"), value("USAGE").as_deref()) {
        (Some(kind), Some("filesystem")) => Content::Filesystem {
            kind,
            uuid: value("UUID"),
        },
        (Some(kind), _) => Content::Other { kind },
        (None, _) => match value("PTTYPE") {
            Some(table) => Content::Other {
                kind: format!("a partition table ({table})"),
            },
            None => Content::Other {
                kind: "something unknown".to_owned(),
            },
        },
    }
}
