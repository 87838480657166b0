//! Work inside the namespaces of a running process.

use std::fs::File;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::Pid;

use crate::error::{Doing, Result};

/// The namespaces of a running process, to start others in.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces {
    of: Pid,
    which: CloneFlags,
}

impl Namespaces {
    /// Only the network of `pid`: the command sees the host's files and processes.
    pub fn network(pid: Pid) -> Self {
        Self {
            of: pid,
            which: CloneFlags::CLONE_NEWNET,
        }
    }

    /// Network and processes of `pid`: what is started ends with it.
    pub fn network_and_processes(pid: Pid) -> Self {
        Self {
            of: pid,
            which: CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID,
        }
    }

    /// Everything: the command runs as if on that node.
    pub fn whole(pid: Pid) -> Self {
        let all = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
        Self {
            of: pid,
            which: all,
        }
    }

    /// Runs `work` on a thread of its own that has entered the namespaces; its children are born there.
    pub fn enter<T: Send>(self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let on_thread = || {
            self.join_all()
                .doing(|| format!("cannot enter the namespaces of process {}", self.of))?;
            work()
        };
        thread::scope(|scope| match scope.spawn(on_thread).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    fn join_all(self) -> std::result::Result<(), Errno> {
        // Opened before the first move: afterwards /proc may be another one.
        let kinds = [
            ("net", CloneFlags::CLONE_NEWNET),
            ("pid", CloneFlags::CLONE_NEWPID),
            ("mnt", CloneFlags::CLONE_NEWNS),
        ];
        let mut open = Vec::new();
        for (name, flag) in kinds {
            if self.which.contains(flag) {
                let file = File::open(format!("/proc/{}/ns/{name}", self.of))
                    .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or_default()))?;
                open.push((file, flag));
            }
        }
        // A mount namespace can only be entered by a thread whose working directory is its own.
        unshare(CloneFlags::CLONE_FS)?;
        for (file, flag) in &open {
            setns(file, *flag)?;
        }
        Ok(())
    }
}
