//! Names and attributes: make, link, rename, remove, change.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use fuser::{FileAttr, INodeNo};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, RenameFlags, Stat, Timespec, Timestamps, Uid, chmod, chownat,
    fstat, linkat, mkdirat, mknodat, renameat_with, symlinkat, unlinkat, utimensat,
};

use super::{Tree, behind, shown, stat_in};
use crate::files::ledger::charge_of;
use crate::files::nodes::Node;

/// Who makes a file.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group, unless the directory hands its own down.
    pub gid: u32,
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Times of access and modification.
    pub times: Option<(Timespec, Timespec)>,
}

impl Tree {
    /// Makes a directory.
    pub fn make_directory(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        owner: Owner,
    ) -> io::Result<FileAttr> {
        let parent = self.changeable(parent, name)?;
        mkdirat(&*parent, Path::new(name), Mode::from_raw_mode(0o700))?;
        let inherited = fstat(&*parent)?.st_mode & libc::S_ISGID;
        self.finish(&parent, name, mode | inherited, owner)
    }

    /// Makes a file that is neither directory nor link.
    pub fn make_node(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
        owner: Owner,
    ) -> io::Result<FileAttr> {
        let parent = self.changeable(parent, name)?;
        let kind = FileType::from_raw_mode(mode);
        let private = Mode::from_raw_mode(0o600);
        mknodat(&*parent, Path::new(name), kind, private, device.into())?;
        self.finish(&parent, name, mode, owner)
    }

    /// Makes a symbolic link.
    pub fn make_symlink(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        owner: Owner,
    ) -> io::Result<FileAttr> {
        let parent = self.changeable(parent, name)?;
        symlinkat(target, &*parent, Path::new(name))?;
        let descriptor = behind(&parent, name)?;
        give(&descriptor, &parent, owner)?;
        self.add_lookup(&parent, descriptor, parent.view)
    }

    /// Gives a file another name. Not into or out of a directory with a quota or a snapshot: bytes would change sides.
    pub fn link(&self, node: INodeNo, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let node = self.nodes.get(node.0)?;
        let parent = self.changeable(parent, name)?;
        self.check_domains(node.parent(), parent.id)?;
        let path = node.path();
        let here = rustix::fs::CWD;
        linkat(
            here,
            &path,
            &*parent,
            Path::new(name),
            AtFlags::SYMLINK_FOLLOW,
        )?;
        self.add_lookup(&parent, behind(&parent, name)?, parent.view)
    }

    /// Removes a file.
    pub fn unlink(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let parent = self.changeable(parent, name)?;
        self.accounts.charge(&self.nodes, parent.id, |charge| {
            let freed = last_bytes(&stat_in(&parent, name)?);
            unlinkat(&*parent, Path::new(name), AtFlags::empty())?;
            charge(-freed)
        })
    }

    /// Removes an empty directory, and its quota.
    pub fn remove_directory(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let parent = self.changeable(parent, name)?;
        let inode = shown(&stat_in(&parent, name)?).ino.0;
        unlinkat(&*parent, Path::new(name), AtFlags::REMOVEDIR)?;
        self.accounts.forget(inode)
    }

    /// Gives something another name, which may be taken. Not into or out of a directory with a quota or a snapshot.
    pub fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: fuser::RenameFlags,
    ) -> io::Result<()> {
        let old = self.changeable(from.0, from.1)?;
        let new = self.changeable(to.0, to.1)?;
        self.check_domains(old.id, new.id)?;
        let moved = shown(&stat_in(&old, from.1)?).ino.0;
        let flags = RenameFlags::from_bits_retain(flags.bits());
        let exchanged = flags.contains(RenameFlags::EXCHANGE);
        let replaced = self.accounts.charge(&self.nodes, new.id, |charge| {
            let replaced = stat_in(&new, to.1).ok();
            renameat_with(&*old, Path::new(from.1), &*new, Path::new(to.1), flags)?;
            let replaced = replaced.filter(|stat| shown(stat).ino.0 != moved);
            if let Some(stat) = replaced.filter(|_| !exchanged) {
                charge(-last_bytes(&stat))?;
            }
            Ok(replaced.map(|stat| shown(&stat).ino.0))
        })?;
        self.nodes.moved(moved, new.id);
        match replaced {
            Some(inode) if exchanged => self.nodes.moved(inode, old.id),
            Some(inode) => self.accounts.forget(inode)?,
            None => {}
        }
        Ok(())
    }

    /// Changes attributes.
    pub fn set_attributes(&self, node: INodeNo, changed: &Attributes) -> io::Result<FileAttr> {
        let node = self.nodes.get(node.0)?;
        node.view.check_writable()?;
        if let Some(size) = changed.size {
            self.resize(&node, size)?;
        }
        if changed.uid.is_some() || changed.gid.is_some() {
            let (uid, gid) = (
                changed.uid.map(Uid::from_raw),
                changed.gid.map(Gid::from_raw),
            );
            chownat(&*node, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = changed.mode {
            chmod(node.path(), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if let Some((last_access, last_modification)) = changed.times {
            let times = Timestamps {
                last_access,
                last_modification,
            };
            utimensat(rustix::fs::CWD, node.path(), &times, AtFlags::empty())?;
        }
        Ok(shown(&fstat(&*node)?))
    }

    fn resize(&self, node: &Node, size: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(node.path())?;
        self.accounts.charge(&self.nodes, node.parent(), |charge| {
            let had = fstat(&file)?;
            let more = delta(&had, size);
            if more > 0 {
                charge(more)?;
            }
            file.set_len(size)?;
            if more < 0 {
                charge(more)?;
            }
            Ok(())
        })
    }

    /// What was made gets its owner and, last, its permissions.
    fn finish(&self, parent: &Node, name: &OsStr, mode: u32, owner: Owner) -> io::Result<FileAttr> {
        let descriptor = behind(parent, name)?;
        give(&descriptor, parent, owner)?;
        let attributes = self.add_lookup(parent, descriptor, parent.view)?;
        let node = self.nodes.get(attributes.ino.0)?;
        chmod(node.path(), Mode::from_raw_mode(mode & 0o7777))?;
        Ok(shown(&fstat(&*node)?))
    }

    fn check_domains(&self, old: u64, new: u64) -> io::Result<()> {
        let views = [self.nodes.get(old)?.view, self.nodes.get(new)?.view];
        let same = views[0] == views[1]
            && self.accounts.domain(&self.nodes, old)? == self.accounts.domain(&self.nodes, new)?;
        if same {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EXDEV))
        }
    }
}

/// A directory with the set-group-ID bit hands its group down.
pub(super) fn give(
    descriptor: &impl std::os::fd::AsFd,
    parent: &Node,
    owner: Owner,
) -> io::Result<()> {
    let directory = fstat(parent)?;
    let gid = match directory.st_mode & libc::S_ISGID {
        0 => owner.gid,
        _ => directory.st_gid,
    };
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(gid));
    Ok(chownat(
        descriptor,
        "",
        Some(uid),
        Some(gid),
        AtFlags::EMPTY_PATH,
    )?)
}

/// Bytes that more (or fewer) are charged for when a file gets another size; none for one that has no name any more.
pub(super) fn delta(had: &Stat, size: u64) -> i64 {
    if had.st_nlink == 0 {
        return 0;
    }
    let before = charge_of(u64::try_from(had.st_size).unwrap_or(0));
    i64::try_from(charge_of(size)).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX)
}

/// Bytes that go with the last name of a file.
fn last_bytes(stat: &Stat) -> i64 {
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if regular && stat.st_nlink == 1 {
        -delta(stat, 0)
    } else {
        0
    }
}
