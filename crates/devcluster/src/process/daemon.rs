//! Daemons of a cluster.
//!
//! A daemon is found again by a mark in its environment, never by a pid file: a pid file is wrong after
//! `kill -9` or a reboot, `/proc` is not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Namespaces, append, show, wait_until};
use crate::error::{Doing, Error, Result};

/// The environment variable that marks every process of a cluster: `<cluster directory>/<unit>`.
const MARK: &str = "STOWAGE_UNIT";

/// A long-running process of a cluster, identified by a mark and the name of its program.
#[derive(Clone, Debug)]
pub struct Daemon {
    mark: PathBuf,
    program: String,
    log: PathBuf,
}

impl Daemon {
    /// The daemon `program` of the unit `directory`; it logs to `<directory>/<program>.log`.
    pub fn new(directory: &Path, program: &str) -> Self {
        Self {
            mark: directory.join(program),
            program: program.to_owned(),
            log: directory.join(format!("{program}.log")),
        }
    }

    /// The name of its program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The process, if it runs. Children that inherited the mark have other program names.
    pub fn pid(&self) -> Option<Pid> {
        marked(&self.mark)
            .into_iter()
            .filter(|(pid, _)| program_name(*pid).as_deref() == Some(&self.program))
            // A child between fork and exec looks like its parent but is younger.
            .min_by_key(|(_, born)| *born)
            .map(|(pid, _)| pid)
    }

    /// Starts it unless it runs. Called twice: the second call does nothing and returns `false`.
    pub fn start(
        &self,
        program: &Path,
        arguments: &[String],
        within: Option<Namespaces>,
    ) -> Result<bool> {
        if self.pid().is_some() {
            return Ok(false);
        }
        let out = append(&self.log)?;
        let err = out
            .try_clone()
            .doing(|| "cannot copy a descriptor".to_owned())?;
        // A session of its own, so that Ctrl-C in the terminal does not reach it.
        let mut command = Command::new("setsid");
        command
            .arg(program)
            .args(arguments)
            .env_clear()
            .env(MARK, &self.mark)
            .env("PATH", path_with(program))
            .env("HOME", "/root")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let shown = show(&command);
        let mut spawn = move || command.spawn().doing(|| format!("cannot start `{shown}`"));
        let child = match within {
            Some(namespaces) => namespaces.enter(spawn)?,
            None => spawn()?,
        };
        let started = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        reap_in_background(child);
        // Until `setsid` has become the program, nobody would recognise it.
        wait_until("exec", Duration::from_secs(5), &self.log, || {
            Ok(program_name(started).as_deref() != Some("setsid"))
        })?;
        Ok(true)
    }

    /// Fails, with the end of its log, if it no longer runs.
    pub fn must_run(&self) -> Result<Pid> {
        self.pid().ok_or_else(|| Error::DaemonDied {
            name: self.program.clone(),
            last_words: last_lines(&self.log),
            log: self.log.clone(),
        })
    }

    /// Ends it at once. Called twice: the second call finds nothing.
    pub fn kill(&self) -> Result<()> {
        if let Some(pid) = self.pid() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        wait_until(
            &format!("the end of {}", self.program),
            Duration::from_secs(20),
            &self.log,
            || Ok(self.pid().is_none()),
        )
    }
}

/// All processes whose mark lies below `directory`.
pub fn processes_below(directory: &Path) -> Vec<Pid> {
    let wanted = directory.as_os_str().as_bytes();
    let below = |mark: &[u8]| {
        mark.strip_prefix(wanted)
            .is_some_and(|rest| rest.starts_with(b"/"))
    };
    scan(below).into_iter().map(|(pid, _)| pid).collect()
}

fn marked(mark: &Path) -> Vec<(Pid, u64)> {
    scan(|found| found == mark.as_os_str().as_bytes())
}

fn scan(matches: impl Fn(&[u8]) -> bool) -> Vec<(Pid, u64)> {
    let prefix = format!("{MARK}=");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .filter_map(|variable| variable.strip_prefix(prefix.as_bytes()))
                .any(&matches)
        })
        .filter_map(|pid| Some((Pid::from_raw(pid), born(pid)?)))
        .collect()
}

/// Start time in clock ticks since boot; `None` for a process that is gone or only waits to be reaped.
fn born(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn program_name(pid: Pid) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|byte| *byte == 0).next()?;
    let name = Path::new(OsStr::from_bytes(first)).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// Without this a daemon that ends while we still run would stay a zombie.
fn reap_in_background(mut child: Child) {
    thread::spawn(move || {
        let _ = child.wait();
    });
}

/// What lies beside a program comes first: containerd finds its shim and runc there.
fn path_with(program: &Path) -> String {
    let beside = program.parent().unwrap_or(Path::new("/")).display();
    format!("{beside}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(2000);
    String::from_utf8_lossy(&text[from..]).into_owned()
}
