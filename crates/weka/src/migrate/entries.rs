//! What is found on the filesystem. All functions block, and hang with it.

use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use stowage_host::PathError;
use stowage_host::beneath::{Links, Root};

use crate::driver::directory::{self, Capacity, Directory, Place};
use crate::error::Error;

/// Something in the directory of volumes.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) is_directory: bool,
}

/// What is in a directory, by name. What begins with a dot is Weka's own.
pub(super) fn entries(directory: &Root, path: &Path) -> Result<Vec<Entry>, Error> {
    let fails = |errno: Errno| PathError::at("list", path)(errno);
    let mut found = Vec::new();
    for entry in Dir::read_from(directory).map_err(fails)? {
        let entry = entry.map_err(fails)?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        let is_directory = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            // It was deleted meanwhile.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(fails(errno).into()),
        };
        let name = name.to_string_lossy().into_owned();
        found.push(Entry { name, is_directory });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The directory of a volume, if it is still there.
pub(super) fn open(root: &Root, parent: &Path, name: &str) -> Result<Option<Directory>, Error> {
    let place = Place {
        path: parent.join(name),
        links: Links::Refused,
    };
    directory::find(root, &place)
}

/// What is written at it as its size. A filesystem without attributes is an error: every volume would seem to have none.
pub(super) fn capacity(directory: &Directory, path: &Path) -> Result<Capacity, Error> {
    let read = directory.capacity();
    Ok(read.map_err(PathError::at("read the capacity of a volume in", path))?)
}
