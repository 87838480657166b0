//! Extended attributes: those of users.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fuser::INodeNo;
use rustix::fs::{XattrFlags, setxattr};

use super::Tree;

impl Tree {
    /// The value of one.
    pub fn extended(&self, node: INodeNo, name: &OsStr) -> io::Result<Vec<u8>> {
        let node = self.nodes.get(node.0)?;
        let missing = || io::Error::from_raw_os_error(libc::ENODATA);
        if !is_users(name) {
            return Err(missing());
        }
        xattr::get_deref(node.path(), name)?.ok_or_else(missing)
    }

    /// Their names, each with a zero byte behind it.
    pub fn extended_names(&self, node: INodeNo) -> io::Result<Vec<u8>> {
        let node = self.nodes.get(node.0)?;
        Ok(xattr::list_deref(node.path())?
            .filter(|name| is_users(name))
            .flat_map(|name: OsString| {
                let mut bytes = name.into_vec();
                bytes.push(0);
                bytes
            })
            .collect())
    }

    /// Sets one.
    pub fn set_extended(
        &self,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        let node = self.nodes.get(node.0)?;
        node.view.check_writable()?;
        check_users(name)?;
        let flags = XattrFlags::from_bits_retain(u32::try_from(flags).unwrap_or(0));
        Ok(setxattr(node.path(), name, value, flags)?)
    }

    /// Removes one.
    pub fn remove_extended(&self, node: INodeNo, name: &OsStr) -> io::Result<()> {
        let node = self.nodes.get(node.0)?;
        node.view.check_writable()?;
        check_users(name)?;
        xattr::remove_deref(node.path(), name)
    }
}

fn is_users(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"user.")
}

fn check_users(name: &OsStr) -> io::Result<()> {
    if is_users(name) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }
}
