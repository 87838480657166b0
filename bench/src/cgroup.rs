//! A memory cgroup for one process: what the kernel charges to it is what a cluster pays for a container.
//!
//! Linux charges a page of a file to whoever reads it first. So that the pages of the program count, a fresh copy of it is
//! written from within the cgroup: they are in memory when the process starts, and they are its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, process, thread};

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::memory::Memory;

const TOP: &str = "/sys/fs/cgroup";
const PREFIX: &str = "stowage-bench-";

/// Enters the cgroup whose `cgroup.procs` is `$0`, and becomes another program.
const ENTER: &str = r#"echo $$ >"$0" && exec "$@""#;

/// A cgroup of this run, removed when dropped; whatever runs in it must have been killed by then.
pub struct Cgroup {
    version: Version,
    directory: PathBuf,
}

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Version {
    V1,
    V2,
}

impl Cgroup {
    /// Makes one. What killed runs left is removed.
    pub fn make() -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (version, parent) = parent()?;
        remove_left(&parent);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("{PREFIX}{}-{count}", process::id()));
        fs::create_dir(&directory).with_context(|| {
            format!(
                "cannot make the cgroup `{}`: run this as root",
                directory.display()
            )
        })?;
        let cgroup = Self { version, directory };
        ensure!(
            cgroup.file(version.usage_file()).is_file(),
            "the cgroup `{}` does not count memory: enable the memory controller of this machine",
            cgroup.directory.display()
        );
        Ok(cgroup)
    }

    /// A command that runs in it from its first instruction on.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", ENTER])
            .arg(self.file("cgroup.procs"))
            .arg(program);
        command
    }

    /// Writes a copy of a program whose pages are charged to it.
    pub async fn copy(&self, program: &Path, to: &Path) -> anyhow::Result<()> {
        let mut copy = self.command("cp");
        // A copy that shares its blocks would not be in memory yet.
        let copied = copy
            .arg("--reflink=never")
            .args([program, to])
            .status()
            .await?;
        ensure!(
            copied.success(),
            "cannot copy `{}` to `{}`: {copied}",
            program.display(),
            to.display()
        );
        Ok(())
    }

    /// What is charged to it now.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let read = |name: &str| {
            let file = self.file(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))
        };
        Memory::of(
            self.version,
            &read(self.version.usage_file())?,
            &read("memory.stat")?,
        )
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What was killed a moment ago may still be there.
        for _ in 0..400 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Version {
    fn usage_file(self) -> &'static str {
        match self {
            Self::V1 => "memory.usage_in_bytes",
            Self::V2 => "memory.current",
        }
    }
}

/// Where cgroups of this run go.
fn parent() -> anyhow::Result<(Version, PathBuf)> {
    let top = Path::new(TOP);
    if top.join("cgroup.controllers").is_file() {
        // At the top: a group that holds processes, such as our own, may not hand its controllers down. If this is
        // refused, whoever looks for the files of the new group says so.
        let _ = fs::write(top.join("cgroup.subtree_control"), "+memory");
        return Ok((Version::V2, top.to_owned()));
    }
    let hierarchy = top.join("memory");
    let groups =
        fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
    let own = hierarchy.join(own_memory_group(&groups));
    // In a container the path may be one of the machine's.
    Ok((Version::V1, if own.is_dir() { own } else { hierarchy }))
}

/// The path of this process below the memory controller of v1, from `/proc/self/cgroup`.
fn own_memory_group(groups: &str) -> &str {
    let path = |line| {
        let mut parts = str::splitn(line, 3, ':').skip(1);
        let controllers = parts.next()?.split(',').collect::<Vec<_>>();
        parts.next().filter(|_| controllers.contains(&"memory"))
    };
    groups
        .lines()
        .find_map(path)
        .unwrap_or_default()
        .trim_start_matches('/')
}

/// Removes the groups of runs that are gone. One that something runs in stays.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let run = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if run.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn our_own_group_is_found() {
        let groups = "9:name=systemd:/\n4:cpuset,memory:/a/b:c\n1:cpu:/x\n0::/\n";
        assert_eq!(own_memory_group(groups), "a/b:c");
        assert_eq!(own_memory_group("0::/user.slice\n"), "");
    }

    #[tokio::test]
    async fn a_process_is_charged_with_its_memory_and_its_program_and_leaves_nothing() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = directory.path().join("shell");
        let cgroup = Cgroup::make().unwrap();
        cgroup.copy(Path::new("/bin/bash"), &program).await.unwrap();
        #[allow(clippy::cast_precision_loss, reason = "some megabytes")]
        let size = program.metadata().unwrap().len() as f64 / 1e6;
        let mut child = cgroup
            .command(&program)
            .args([
                "-c",
                "x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo ready; sleep 600",
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut ready = [0; 5];
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut ready)
            .await
            .unwrap();
        let memory = cgroup.memory().unwrap();
        let place = cgroup.directory.clone();
        child.kill().await.unwrap();
        // The `sleep` that it had started.
        let left = fs::read_to_string(place.join("cgroup.procs")).unwrap();
        for pid in left.lines() {
            let killed = Command::new("kill").args(["-KILL", pid]).status().await;
            killed.unwrap();
        }
        drop(cgroup);
        assert!(
            memory.anonymous >= 8.0 && memory.working_set >= memory.anonymous,
            "{memory:?}"
        );
        assert!(
            memory.files >= size,
            "{memory:?}, and the program has {size} MB"
        );
        assert!(!place.exists(), "{} is left", place.display());
    }
}
