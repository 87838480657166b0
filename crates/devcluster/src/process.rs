//! Commands that end, and daemons that do not.
//!
//! A daemon is found again by a mark in its environment, never by a pid file: a pid file lies after
//! `kill -9` or a reboot, `/proc` does not.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Doing, Error, Result};

/// The environment variable that marks every process of a cluster: `<cluster directory>/<unit>`.
const MARK: &str = "STOWAGE_UNIT";

/// Runs a command to its end and returns what it printed on standard output.
pub fn capture(command: &mut Command) -> Result<String> {
    capture_with_stdin(command.stdin(Stdio::null()))
}

/// Like [`capture`], for a command whose standard input the caller has set.
pub fn capture_with_stdin(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().doing(|| format!("cannot run `{shown}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ended_badly(shown, output.status, said))
}

/// Runs a command with `input` on its standard input.
pub fn feed(command: &mut Command, input: &str) -> Result<String> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing(|| format!("cannot run `{shown}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read to the end says why in its own output.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .doing(|| format!("cannot wait for `{shown}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ended_badly(shown, output.status, said))
}

/// Runs a command whose output goes to `log`, line by line; each line is also shown to `on_line`.
pub fn logged(command: &mut Command, log: &Path, mut on_line: impl FnMut(&str)) -> Result<()> {
    let shown = show(command);
    let mut file = append(log)?;
    let (reader, writer) = std::io::pipe().doing(|| "cannot make a pipe".to_owned())?;
    let both = writer
        .try_clone()
        .doing(|| "cannot copy a pipe".to_owned())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(both)
        .spawn()
        .doing(|| format!("cannot run `{shown}`"))?;
    // The command keeps its ends of the pipe: ours must go, or the loop below never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _ = writeln!(file, "$ {shown}");
    let mut last = String::new();
    for line in BufReader::new(reader).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        let _ = writeln!(file, "{line}");
        on_line(&line);
        if !line.trim().is_empty() {
            last = line.into_owned();
        }
    }
    let status = child
        .wait()
        .doing(|| format!("cannot wait for `{shown}`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(ended_badly(shown, status, last))
    }
}

/// Opens a log for appending, making its directory.
pub fn append(log: &Path) -> Result<File> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent)
            .doing(|| format!("cannot make directory `{}`", parent.display()))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .doing(|| format!("cannot open log `{}`", log.display()))
}

/// Polls `condition` until it holds. For things that no watch tells: a process, a socket, a cgroup.
pub fn wait_until(
    what: &str,
    limit: Duration,
    log: &Path,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !condition()? {
        if started.elapsed() > limit {
            return Err(Error::Timeout {
                what: what.to_owned(),
                after: limit,
                log: log.to_owned(),
            });
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

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
    let name = Path::new(std::ffi::OsStr::from_bytes(first)).file_name()?;
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

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

fn ended_badly(command: String, status: ExitStatus, output: String) -> Error {
    Error::Command {
        command,
        outcome: match status.code() {
            Some(code) => format!("ended with code {code}"),
            None => "was killed".to_owned(),
        },
        output,
    }
}
