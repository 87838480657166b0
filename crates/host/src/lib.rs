//! What a driver does to the machine it runs on: host tools, mounts, loop devices, filesystems, files.
//!
//! - [`exec`]: runs a host tool; the seam [`exec::Exec`].
//! - [`mount`]: binds, mounts and unmounts; the seam [`mount::Mounter`].
//! - [`mountinfo`]: the kernel's table of mounts, parsed and indexed.
//! - [`kubelet`]: which volumes of a driver the kubelet has mounted.
//! - [`loopdev`]: loop devices, found by the inode of their backing file.
//! - [`filesystem`]: probe, format, check, grow, freeze.
//! - [`flush`]: what is only in memory of a block device, written out.
//! - [`stat`]: usage of a filesystem, asked in a way that a hung mount cannot block.
//! - [`usage`]: the same in the words of CSI.
//! - [`beneath`]: files below a root that neither `..` nor a symbolic link can leave.
//! - [`copy`]: reflink or sparse copies, and small files that are written as a whole or not at all.
//! - [`workers`]: threads for calls that may never come back.
//!
//! Nothing here logs secrets, keeps state that a restart would forget, or knows of a certain driver. Functions that
//! are `async` may be awaited anywhere. The others block: call them through [`blocking`].

#![allow(
    clippy::disallowed_methods,
    reason = "here is where programs are run; loop devices are waited for on threads that may block"
)]

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;

use stowage_csi::waiting::on_machine;
use tokio::task::JoinError;

pub mod beneath;
pub mod copy;
pub mod exec;
pub mod filesystem;
pub mod flush;
mod ioctl;
pub mod kubelet;
pub mod loopdev;
pub mod mount;
pub mod mountinfo;
mod paths;
pub mod stat;
pub mod usage;
pub mod workers;

pub use paths::{PathError, create_directories};

/// What the methods of the seams return: they are called through `dyn`, which `async fn` cannot be.
pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Which kernel calls to make.
///
/// Old kernels are met in the field and not on the machines where tests run, so each module that has an older way
/// can be made to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Calls {
    /// The best the kernel has, found out by trying: the older way is taken where a call is unknown.
    #[default]
    Best,
    /// Only those that Linux 4.18 has.
    Old,
}

/// Whether there was something to do, from functions that make something so and may be called twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has been done now.
    Done,
    /// It was so before.
    Already,
}

/// Runs work that blocks on a thread where it may.
///
/// Dropping the future does not stop work that has started. A panic in the work is a panic of the caller.
pub async fn blocking<T, W>(work: W) -> T
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    joined(on_machine(tokio::task::spawn_blocking(work))).await
}

/// What a task ended with. A panic of the task is a panic of the caller.
pub async fn joined<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await {
        Ok(value) => value,
        Err(lost) => match lost.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is going down and so is this future: there is nobody to answer.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests;
