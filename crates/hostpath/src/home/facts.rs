//! What there is to know before it is decided where volumes live. Everything here blocks.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::statfs;
use rustix::process::geteuid;
use stowage_host::mountinfo::MountTable;

use super::{Directory, OpenTo, Surroundings, TEMPORARY, USUAL};

/// Files that engines put into every container.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Variables that only containers have: the kubelet's, and that of systemd's convention.
const VARIABLES: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "container"];

/// Where volumes, and what goes with them, are in a state directory.
const SHELVES: [&str; 4] = ["volumes", "snapshots", "groups", "inline"];

/// Those who may write into a directory beside its owner.
const GROUP_WRITES: u32 = 0o020;
const ANYBODY_WRITES: u32 = 0o002;

/// Everything that [`super::decide`] wants to know.
pub(crate) fn look_around(asked: Option<&Path>, mounts: &MountTable) -> io::Result<Surroundings> {
    Ok(Surroundings {
        in_container: in_container(mounts),
        usual: examine(Path::new(USUAL), mounts)?,
        temporary: examine(Path::new(TEMPORARY), mounts)?,
        asked: asked.map(|path| examine(path, mounts)).transpose()?,
    })
}

/// A directory that has been made meanwhile.
pub(crate) fn look_again(path: &Path, mounts: &MountTable) -> io::Result<Directory> {
    examine(path, mounts)
}

fn in_container(mounts: &MountTable) -> bool {
    let layered = mounts.at(Path::new("/"));
    layered.is_some_and(|root| root.kind() == "overlay")
        || MARKS.iter().any(|mark| Path::new(mark).exists())
        || VARIABLES
            .iter()
            .any(|name| std::env::var_os(name).is_some())
}

fn examine(path: &Path, mounts: &MountTable) -> io::Result<Directory> {
    let place = existing(path)?;
    let mut covering = mounts.iter().map(|mount| mount.point());
    let own_mount = covering.any(|point| point != Path::new("/") && place.starts_with(point));
    // By the kernel's numbers for them.
    let memory = match statfs(&place)?.f_type {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58F6 => Some("ramfs"),
        _ => None,
    };
    Ok(Directory {
        path: path.to_owned(),
        own_mount,
        memory,
        open_to: open_to(path)?,
        holds_volumes: SHELVES.iter().any(|shelf| holds_files(&path.join(shelf))),
    })
}

/// The directory, or the next above that is there, without links.
fn existing(path: &Path) -> io::Result<PathBuf> {
    for place in path.ancestors() {
        match fs::canonicalize(place) {
            Err(error) if is_missing(&error) => {}
            found => return found,
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A directory that is not there is nobody's: it is made for the driver alone.
fn open_to(path: &Path) -> io::Result<Option<OpenTo>> {
    let own = geteuid().as_raw();
    // The link first: whoever owns it decides which directory it is.
    for seen in [fs::symlink_metadata(path), fs::metadata(path)] {
        let found = match seen {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.uid() != own {
            return Ok(Some(OpenTo::Owner(found.uid())));
        }
        let shared = ANYBODY_WRITES | if found.gid() == 0 { 0 } else { GROUP_WRITES };
        let mode = found.mode() & 0o7777;
        if found.is_dir() && mode & shared != 0 {
            return Ok(Some(OpenTo::Mode(mode)));
        }
    }
    Ok(None)
}

fn holds_files(shelf: &Path) -> bool {
    let names = fs::read_dir(shelf).into_iter().flatten().flatten();
    let mut names = names.map(|entry| PathBuf::from(entry.file_name()));
    names.any(|name| {
        name.extension()
            .is_some_and(|end| end == "img" || end == "json")
    })
}

/// Also what is below a file is not there; what comes of that is said when the directory is made.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mounts(points: &[&str]) -> MountTable {
        let lines = points.iter().enumerate().map(|(number, point)| {
            format!(
                "{} 1 8:{number} / {point} rw - ext4 /dev/disk rw\n",
                number + 20
            )
        });
        MountTable::parse(lines.collect::<String>()).unwrap()
    }

    #[test]
    fn a_directory_is_known_by_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let missing = home.join("not/yet");
        let found = examine(&missing, &mounts(&["/"])).unwrap();
        assert_eq!(found.path, missing);
        assert!(!found.own_mount && !found.holds_volumes && found.open_to.is_none());
        let found = examine(&missing, &mounts(&["/", home.to_str().unwrap()])).unwrap();
        assert!(found.own_mount, "what is made there is on that mount");
        let found = examine(
            &missing,
            &mounts(&["/", missing.join("x").to_str().unwrap()]),
        );
        assert!(
            !found.unwrap().own_mount,
            "what is mounted below says nothing"
        );

        let state = home.join("state");
        fs::create_dir_all(state.join("volumes")).unwrap();
        assert!(!examine(&state, &mounts(&["/"])).unwrap().holds_volumes);
        fs::write(state.join("volumes/key.json"), "").unwrap();
        assert!(examine(&state, &mounts(&["/"])).unwrap().holds_volumes);
    }

    #[test]
    fn who_else_may_write_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        for (mode, expected) in [
            (0o700, None),
            (0o755, None),
            (0o1777, Some(OpenTo::Mode(0o1777))),
            (0o757, Some(OpenTo::Mode(0o757))),
        ] {
            fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_to(&state).unwrap(), expected, "{mode:o}");
        }
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let link = home.path().join("link");
        symlink(&state, &link).unwrap();
        assert_eq!(open_to(&link).unwrap(), None);
    }

    #[test]
    fn a_layered_root_is_a_containers() {
        let table = MountTable::parse("20 1 0:5 / / rw - overlay overlay rw\n").unwrap();
        assert!(in_container(&table));
    }
}
