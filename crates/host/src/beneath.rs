//! Files below a root that neither `..` nor a symbolic link can leave.
//!
//! Volumes are written by pods, which plant links, and named by handles, which anybody may send. So everything below
//! a root is reached from an open descriptor, in one step, by `openat2` or by a walk that looks at each component
//! (kernels before 5.6); and what is used afterwards is the descriptor, not the path again. All functions block.

mod remove;
mod resolve;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::{Calls, Outcome};
use resolve::resolve;

/// What to do about symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// None may be met: for paths that we made ourselves. `..` may not lead above the root, and an absolute path is
    /// refused.
    Refused,
    /// They are followed as if the root were `/`: for paths that a person chose. `..` stops at the root.
    Confined,
}

/// Why a path is not available.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// The path leads out of the root.
    #[error("{} leads out of its root", path.display())]
    Escape {
        /// The path.
        path: PathBuf,
    },
    /// The path has a symbolic link where none may be, or too many of them.
    #[error("{} contains a symbolic link", path.display())]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// The path has no name at its end that could be made or removed.
    #[error("{} does not end in a name", path.display())]
    Nameless {
        /// The path.
        path: PathBuf,
    },
    /// It is not what it should be.
    #[error("{} is not a {wanted}", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
    },
    /// Something is mounted there, and what is in it is not for us to remove.
    #[error("something is mounted below {}", path.display())]
    Mounted {
        /// The path.
        path: PathBuf,
    },
    /// The caller lost interest.
    #[error("removal of {} was stopped", path.display())]
    Stopped {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refuses.
    #[error("cannot {doing} {}", path.display())]
    Refusal {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl BeneathError {
    /// Whether there simply is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refusal { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// An open directory that nothing reached from it can leave.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    calls: Calls,
}

impl Root {
    /// Opens a directory as any other: the way to the root is trusted, symbolic links in it are followed.
    pub fn open(path: &Path) -> Result<Self, BeneathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let directory = opened.map_err(|errno| failure("open", path, errno))?;
        Ok(Self {
            directory,
            calls: Calls::Best,
        })
    }

    /// Restricts the kernel calls that are made.
    pub fn calls(mut self, calls: Calls) -> Self {
        self.calls = calls;
        self
    }

    /// Finds a file or directory without opening it (`O_PATH`): what to bind. The empty path is the root itself.
    ///
    /// A symbolic link at the end is refused or followed like any other.
    pub fn find(&self, path: &Path, links: Links) -> Result<OwnedFd, BeneathError> {
        resolve(self.directory.as_fd(), path, links, self.calls)
            .map_err(|errno| failure("look up", path, errno))
    }

    /// Opens a directory as a root of its own.
    pub fn open_directory(&self, path: &Path, links: Links) -> Result<Self, BeneathError> {
        let found = self.find(path, links)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(&found, c".", flags, Mode::empty()) {
            Ok(directory) => Ok(Self {
                directory,
                calls: self.calls,
            }),
            Err(Errno::NOTDIR) => Err(BeneathError::Kind {
                path: path.to_owned(),
                wanted: "directory",
            }),
            Err(errno) => Err(failure("open", path, errno)),
        }
    }

    /// Opens an existing regular file. Anything else is refused: to open a pipe or a device that a pod planted would
    /// block forever or do something.
    pub fn open_file(&self, path: &Path, links: Links, write: bool) -> Result<File, BeneathError> {
        let found = self.find(path, links)?;
        let stat = fstat(&found).map_err(|errno| failure("open", path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(BeneathError::Kind {
                path: path.to_owned(),
                wanted: "regular file",
            });
        }
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
        let opened = rustix::fs::open(name, access | OFlags::CLOEXEC, Mode::empty());
        opened
            .map(File::from)
            .map_err(|errno| failure("open", path, errno))
    }

    /// Makes a new file, for reading and writing; its parent directory must exist.
    ///
    /// Called twice: the second call fails with `EEXIST`.
    pub fn create_file(&self, path: &Path, mode: u32) -> Result<File, BeneathError> {
        let (parent, name) = self.parent_of(path)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&parent, name, flags, Mode::from_raw_mode(mode));
        opened
            .map(File::from)
            .map_err(|errno| failure("create", path, errno))
    }

    /// Makes a directory, whatever the umask with exactly this mode; its parent must exist.
    ///
    /// Called twice: the second call opens what the first one made and leaves its mode alone.
    pub fn create_directory(
        &self,
        path: &Path,
        mode: u32,
    ) -> Result<(Self, Outcome), BeneathError> {
        let (parent, name) = self.parent_of(path)?;
        let mode = Mode::from_raw_mode(mode);
        let created = match mkdirat(&parent, name, mode) {
            Ok(()) => Outcome::Done,
            Err(Errno::EXIST) => Outcome::Already,
            Err(errno) => return Err(failure("create", path, errno)),
        };
        let directory = self.open_directory(path, Links::Refused)?;
        if created == Outcome::Done {
            fchmod(&directory.directory, mode).map_err(|errno| failure("create", path, errno))?;
        }
        Ok((directory, created))
    }

    /// Makes a directory and all that are missing above it.
    ///
    /// Called twice: the second call opens what the first one made.
    pub fn create_directories(
        &self,
        path: &Path,
        mode: u32,
    ) -> Result<(Self, Outcome), BeneathError> {
        match self.create_directory(path, mode) {
            Err(error) if error.is_missing() => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => {
                    self.create_directories(parent, mode)?;
                    self.create_directory(path, mode)
                }
                _ => Err(error),
            },
            created => created,
        }
    }

    /// Gives a file or directory another name, also in another directory of this root; what has that name is replaced
    /// as by `rename(2)`.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), BeneathError> {
        let (old_parent, old_name) = self.parent_of(from)?;
        let (new_parent, new_name) = self.parent_of(to)?;
        renameat(&old_parent, old_name, &new_parent, new_name)
            .map_err(|errno| failure("rename", from, errno))
    }

    /// Removes a file, a symbolic link or an empty directory.
    ///
    /// Called twice: the second call finds nothing to remove.
    pub fn remove(&self, path: &Path) -> Result<Outcome, BeneathError> {
        let (parent, name) = self.parent_of(path)?;
        let removed = match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(&parent, name, AtFlags::REMOVEDIR),
            removed => removed,
        };
        match removed {
            Ok(()) => Ok(Outcome::Done),
            Err(Errno::NOENT) => Ok(Outcome::Already),
            Err(errno) => Err(failure("remove", path, errno)),
        }
    }

    /// The opened directory above the path's last name. The name itself is not looked at.
    fn parent_of<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), BeneathError> {
        let mut components = path.components();
        let Some(Component::Normal(name)) = components.next_back() else {
            return Err(BeneathError::Nameless {
                path: path.to_owned(),
            });
        };
        Ok((self.find(components.as_path(), Links::Refused)?, name))
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl From<Root> for OwnedFd {
    fn from(root: Root) -> Self {
        root.directory
    }
}

fn failure(doing: &'static str, path: &Path, errno: Errno) -> BeneathError {
    let path = path.to_owned();
    match errno {
        Errno::XDEV => BeneathError::Escape { path },
        Errno::LOOP => BeneathError::Link { path },
        errno => BeneathError::Refusal {
            doing,
            path,
            source: errno.into(),
        },
    }
}

#[cfg(test)]
mod tests;
