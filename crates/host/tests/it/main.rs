//! The host side against the real kernel and the real tools. Needs root.
//!
//! Each test runs in a process with mounts of its own ([`devcluster::isolated`]), so that nothing stays mounted however
//! it ends.
//!
//! - `binds`, `unmounts`, `mount_table`: the mounts of this machine.
//! - `hung`: mounts that answer with errors or not at all.
//! - `loops`: loop devices.
//! - `formats`, `copies`: filesystems on loop devices, and copies of them.
#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod binds;
mod copies;
mod formats;
mod hung;
mod loops;
mod mount_table;
mod support;
mod unmounts;
