//! [`HostExec`]: tools as processes of this machine.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, io};

use rustix::process::{Pid, Signal, kill_process_group};
use stowage_csi::waiting::on_machine;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};

use super::inside::{NOT_FOUND, NSENTER};
use super::{Exec, ExecError, Exit, HostFuture, Invocation, Output, Tool};
use crate::blocking;

/// How long the outputs of a tool that has ended are still read. A tool that leaves a daemon behind (FUSE mounts do)
/// leaves it the pipes too, and their end would never come.
const AFTERWORDS: Duration = Duration::from_millis(500);

/// How long a killed tool may take to disappear before it is left to the kernel: one that waits for a dead disk
/// cannot be killed, and nobody should wait with it.
const DYING: Duration = Duration::from_secs(2);

/// How often a tool that cannot be killed is looked for.
const GONE_CHECK: Duration = Duration::from_millis(500);

/// Where tools are looked for after the process's own search path: a service's path often lacks the `sbin` ones.
const SBIN: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs tools as processes, each in a process group of its own so that its helpers die with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostExec;

impl Exec for HostExec {
    fn run(&self, invocation: Invocation) -> HostFuture<'_, Result<Output, ExecError>> {
        Box::pin(on_machine(run(invocation)))
    }
}

async fn run(invocation: Invocation) -> Result<Output, ExecError> {
    let tool = invocation.tool;
    let mut child = start(&invocation)?;
    let mut group = Group::of(&child);
    let mut stdout = Capture::new(invocation.output_limit);
    let mut stderr = Capture::new(invocation.output_limit);
    let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let talk = async {
        tokio::try_join!(
            feed(input, &invocation.stdin),
            stdout.collect(out),
            stderr.collect(err)
        )
        .map(|_| ())
    };
    let ended = timeout(invocation.timeout, finish(&mut child, talk)).await;
    let Ok(status) = ended else {
        let killed = group.kill();
        // The result does not matter: either it is gone now, or nobody can end it.
        let _ = timeout(DYING, child.wait()).await;
        if let Some(killed) = killed.filter(|_| invocation.until_gone) {
            gone(killed).await;
        }
        return Err(ExecError::Timeout {
            tool: tool.name,
            after: invocation.timeout,
        });
    };
    let status = status.map_err(|source| ExecError::Pipe {
        tool: tool.name,
        source,
    })?;
    group.release();
    if invocation.host.is_some() && status.code() == Some(NOT_FOUND) {
        return Err(missing(tool));
    }
    Ok(Output {
        tool,
        exit: exit_of(status),
        truncated: stdout.truncated || stderr.truncated,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
    })
}

fn start(invocation: &Invocation) -> Result<Child, ExecError> {
    let tool = match invocation.host {
        Some(_) => NSENTER,
        None => invocation.tool,
    };
    let mut command = Command::new(tool.name);
    if let Some(process) = invocation.host {
        command.args(process.entering()).arg(invocation.tool.name);
    }
    command
        .args(&invocation.args)
        // Messages are read by programs here and by people in any country.
        .env("LC_ALL", "C")
        .env("PATH", search_path())
        .envs(invocation.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => missing(tool),
            _ => ExecError::Start {
                tool: tool.name,
                source,
            },
        })
}

fn missing(tool: Tool) -> ExecError {
    ExecError::ToolMissing {
        tool: tool.name,
        package: tool.package,
    }
}

/// Waits until the tool has ended, and its outputs with it or a little later.
async fn finish(
    child: &mut Child,
    talk: impl Future<Output = io::Result<()>>,
) -> io::Result<ExitStatus> {
    tokio::pin!(talk);
    tokio::select! {
        said = &mut talk => {
            said?;
            child.wait().await
        }
        status = child.wait() => {
            if let Ok(said) = timeout(AFTERWORDS, talk).await {
                said?;
            }
            status
        }
    }
}

async fn feed(stdin: Option<ChildStdin>, bytes: &[u8]) -> io::Result<()> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(bytes).await {
        // A tool may end, or close its input, without reading it all.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The beginning of an output. The rest is read too: a full pipe would stop the tool.
struct Capture {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Capture {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            truncated: false,
        }
    }

    async fn collect(&mut self, from: Option<impl AsyncRead + Unpin>) -> io::Result<()> {
        let Some(mut from) = from else { return Ok(()) };
        let mut chunk = vec![0; 8192];
        loop {
            let read = from.read(&mut chunk).await?;
            if read == 0 {
                return Ok(());
            }
            let kept = read.min(self.limit - self.bytes.len());
            self.bytes.extend_from_slice(&chunk[..kept]);
            self.truncated |= kept < read;
        }
    }
}

/// The process group of a running tool; killed on drop, so that a cancelled call leaves nothing running.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
        )
    }

    /// Lets go of a group whose leader has ended well: its number may be given to others, and what it left running
    /// (a FUSE daemon) is meant to run.
    fn release(&mut self) {
        self.0 = None;
    }

    /// Kills what is left of it, and says what that was.
    fn kill(&mut self) -> Option<Pid> {
        let group = self.0.take()?;
        // It fails only if there is nothing left to kill.
        let _ = kill_process_group(group, Signal::KILL);
        Some(group)
    }
}

/// Waits until no process of a group runs any more. A helper that the tool started may outlive it.
async fn gone(group: Pid) {
    while blocking(move || runs(group)).await {
        sleep(GONE_CHECK).await;
    }
}

/// Whether the kernel still holds a thread of a group. One that has ended but that nobody has asked for does not count.
fn runs(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let processes = entries(Path::new("/proc"));
    let threads = processes.flat_map(|process| entries(&process.join("task")));
    // The first thread of a process may have ended while another is still held.
    threads
        .flat_map(|thread| std::fs::read_to_string(thread.join("stat")))
        .any(|stat| {
            // `id (name) state parent group ...`, and the name may hold anything.
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            let mut fields = fields.split_ascii_whitespace();
            let has_ended = matches!(fields.next(), None | Some("Z" | "X"));
            !has_ended && fields.nth(1) == Some(&group)
        })
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(SBIN);
    path
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
