//! The directory of a volume. Everything is reached from the filesystem's root by descriptors that no `..` and no
//! planted link can lead elsewhere. All functions block, and hang with the filesystem: call them on a thread that can be
//! left.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Gid, Mode, Uid, fchmod, fchown, fstat};
use rustix::io::Errno;
use stowage_host::beneath::{BeneathError, Links, Root};
use stowage_host::{Outcome, PathError};

use crate::dynamic_paths::DynamicPaths;
use crate::error::Error;
use crate::handle::{Handle, SNAPSHOTS};
use crate::parameters::Owner;
pub(crate) use attributes::{CAPACITY, Capacity};

mod attributes;

/// Directories above volumes.
const PARENT_MODE: u32 = 0o750;

/// Where deleted volumes wait for their removal.
pub(crate) const TRASH: &str = ".__internal__wekafs-async-delete";

/// How many volumes of one name may wait in the trash.
const MOST_NAMESAKES: u32 = 1000;

/// A directory, opened.
pub(crate) struct Directory {
    root: Root,
    path: PathBuf,
    pub(crate) inode: u64,
}

/// Where a volume is, and how much its path is trusted.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) links: Links,
}

impl Place {
    /// We made the way to a dynamic volume ourselves, so a link on it was planted. A person who chose a path may have put
    /// links on it, which stay within the filesystem.
    pub(crate) fn of(handle: &Handle, dynamic: &DynamicPaths) -> Self {
        let links = if handle.has_own_path(dynamic) {
            Links::Refused
        } else {
            Links::Confined
        };
        Self {
            path: handle.path(),
            links,
        }
    }
}

/// The directory at a place, if there is one.
pub(crate) fn find(root: &Root, place: &Place) -> Result<Option<Directory>, Error> {
    match root.open_directory(&place.path, place.links) {
        Ok(directory) => Directory::new(directory, &place.path).map(Some),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What to bind to show a directory to a pod.
pub(crate) fn to_bind(root: &Root, place: &Place) -> Result<Option<OwnedFd>, Error> {
    let found = match root.find(&place.path, place.links) {
        Ok(found) => found,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&found).map_err(PathError::at("examine", &place.path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(BeneathError::Kind {
            path: place.path.clone(),
            wanted: "directory",
        }
        .into());
    }
    Ok(Some(found))
}

/// A directory that is there after [`make`].
pub(crate) struct Made {
    pub(crate) is_new: bool,
    /// The directory, if it could be given to its owner.
    pub(crate) directory: Result<Directory, Error>,
}

/// Makes the directory of a volume and gives it to its owner. An error is that it could not be made.
///
/// Called twice: the second call finds what the first one made and sets the owner again.
pub(crate) fn make(root: &Root, path: &Path, owner: Owner) -> Result<Made, Error> {
    let (directory, outcome) = root.create_directories(path, PARENT_MODE)?;
    let given = give(&directory, path, owner);
    Ok(Made {
        is_new: outcome == Outcome::Done,
        directory: given.and_then(|()| Directory::new(directory, path)),
    })
}

/// Gives an existing directory, such as the root of a filesystem, to the owner of a volume.
///
/// Called twice: the owner is set again.
pub(crate) fn adopt(root: &Root, path: &Path, owner: Owner) -> Result<Directory, Error> {
    let directory = root.open_directory(path, Links::Refused)?;
    give(&directory, path, owner)?;
    Directory::new(directory, path)
}

/// Something that is in a directory, but for the snapshots in the root of a filesystem.
pub(crate) fn any_entry(root: &Root, path: &Path) -> Result<Option<String>, Error> {
    let directory = root.open_directory(path, Links::Refused)?;
    let fails = |errno: Errno| PathError::at("list", path)(errno);
    for entry in Dir::read_from(&directory).map_err(fails)? {
        let entry = entry.map_err(fails)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !matches!(&*name, "." | ".." | SNAPSHOTS) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn give(directory: &Root, path: &Path, owner: Owner) -> Result<(), Error> {
    let set = |errno: Errno| PathError::at("set owner and permissions of", path)(errno);
    if owner.uid.is_some() || owner.gid.is_some() {
        fchown(
            directory,
            owner.uid.map(Uid::from_raw),
            owner.gid.map(Gid::from_raw),
        )
        .map_err(set)?;
    }
    // Afterwards: a change of owner takes the set-id bits away.
    fchmod(directory, Mode::from_raw_mode(owner.permissions)).map_err(set)?;
    Ok(())
}

/// Takes away a directory that nobody has used; one with something in it stays.
pub(crate) fn discard(root: &Root, path: &Path) -> Result<(), Error> {
    root.remove(path)?;
    Ok(())
}

/// Moves the directory of a volume into the trash. Returns whether there was one.
///
/// Called twice: the second call finds nothing to move.
pub(crate) fn move_to_trash(root: &Root, path: &Path) -> Result<bool, Error> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(BeneathError::Nameless {
            path: path.to_owned(),
        }
        .into());
    };
    // Only a directory can be a volume.
    match root.open_directory(path, Links::Refused) {
        Ok(_) => {}
        Err(error) if error.is_missing() => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let trash = Path::new(TRASH);
    root.create_directory(trash, PARENT_MODE)?;
    for namesake in 0..MOST_NAMESAKES {
        let name = match namesake {
            0 => name.to_owned(),
            number => format!("{name}.{number}"),
        };
        match root.rename(path, &trash.join(name)) {
            Ok(()) => return Ok(true),
            Err(error) if error.is_missing() => return Ok(false),
            // A volume of the same name was deleted before and still lies there.
            Err(BeneathError::Refusal { source, .. })
                if matches!(
                    Errno::from_io_error(&source),
                    Some(Errno::NOTEMPTY | Errno::EXIST)
                ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let full = PathError::at("find a free name in the trash for", path);
    Err(full(Errno::EXIST).into())
}

impl Directory {
    fn new(root: Root, path: &Path) -> Result<Self, Error> {
        let stat = fstat(&root).map_err(PathError::at("examine", path))?;
        Ok(Self {
            root,
            path: path.to_owned(),
            inode: stat.st_ino,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    const OWNER: Owner = Owner {
        permissions: 0o2770,
        uid: Some(1001),
        gid: Some(1002),
    };

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        (directory, root)
    }

    #[test]
    fn a_directory_gets_mode_and_owner_whatever_the_umask() {
        let (temp, root) = root();
        let path = Path::new("csi-volumes/a");
        let made = make(&root, path, OWNER).unwrap();
        let again = make(&root, path, OWNER).unwrap();
        assert!(made.is_new && !again.is_new);
        let (made, again) = (made.directory.unwrap(), again.directory.unwrap());
        assert_eq!(made.inode, again.inode);
        let metadata = std::fs::metadata(temp.path().join(path)).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o2770);
        assert_eq!((metadata.uid(), metadata.gid()), (1001, 1002));
        assert_eq!(metadata.ino(), made.inode);
        let parent = std::fs::metadata(temp.path().join("csi-volumes")).unwrap();
        assert_eq!(parent.mode() & 0o7777, 0o750);
    }

    #[test]
    fn the_trash_takes_namesakes_and_nothing_twice() {
        let (temp, root) = root();
        let path = Path::new("csi-volumes/a");
        for content in ["one", "two", "three"] {
            make(&root, path, OWNER).unwrap();
            std::fs::write(temp.path().join(path).join(content), "").unwrap();
            assert!(move_to_trash(&root, path).unwrap());
            assert!(!move_to_trash(&root, path).unwrap());
        }
        let trash = temp.path().join(TRASH);
        assert!(
            trash.join("a/one").exists()
                && trash.join("a.1/two").exists()
                && trash.join("a.2/three").exists()
        );
    }

    #[test]
    fn planted_links_lead_nowhere() {
        let (temp, root) = root();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("csi-volumes")).unwrap();
        symlink(outside.path(), temp.path().join("csi-volumes/evil")).unwrap();
        symlink(outside.path(), temp.path().join("static")).unwrap();
        let dynamic = Place {
            path: "csi-volumes/evil".into(),
            links: Links::Refused,
        };
        assert!(find(&root, &dynamic).is_err());
        assert!(to_bind(&root, &dynamic).is_err());
        assert!(move_to_trash(&root, &dynamic.path).is_err());
        assert!(make(&root, &dynamic.path.join("x"), OWNER).is_err());
        let chosen = Place {
            path: "static".into(),
            links: Links::Confined,
        };
        assert!(
            to_bind(&root, &chosen).unwrap().is_none(),
            "the link ends within the filesystem, where nothing is"
        );
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_no_volume() {
        let (temp, root) = root();
        std::fs::write(temp.path().join("file"), "data").unwrap();
        let place = Place {
            path: "file".into(),
            links: Links::Refused,
        };
        assert!(to_bind(&root, &place).is_err());
        assert!(move_to_trash(&root, &place.path).is_err());
        assert!(temp.path().join("file").exists());
    }
}
