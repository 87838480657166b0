//! Running the host's own tools (`mkfs`, `mount`, `iscsiadm` ...): the seam [`Exec`].
//!
//! Arguments are visible to every user of the machine in `/proc`, so a secret travels by standard input or by the
//! environment only; neither is ever printed. A tool always has an end: a time limit, after which it and all it
//! started are killed, and a limit to what is kept of its output.

use std::ffi::{OsStr, OsString};
use std::time::Duration;
use std::{fmt, io};

use super::HostFuture;

mod inside;
mod process;
pub mod tools;

#[cfg(test)]
mod fake;

#[cfg(test)]
pub use fake::FakeExec;
pub use inside::{HostProcess, OutsideExec};
pub use process::HostExec;

/// How long a tool may run unless its [`Invocation`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How many bytes are kept of each of standard output and standard error unless the [`Invocation`] says otherwise.
pub const DEFAULT_OUTPUT_LIMIT: usize = 64 * 1024;

/// Runs host tools. The real one is [`HostExec`]; unit tests use `FakeExec`.
pub trait Exec: Send + Sync {
    /// Runs the tool to its end, whatever its exit code; [`Output::checked`] turns a bad one into an error.
    ///
    /// Dropping the future kills the tool.
    fn run(&self, invocation: Invocation) -> HostFuture<'_, Result<Output, ExecError>>;
}

/// A program of the host, and the Debian package that a reader of the error message has to install.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tool {
    /// The name that is looked up in the search path.
    pub name: &'static str,
    /// The Debian package that holds it.
    pub package: &'static str,
}

/// One call of a tool.
#[derive(Clone)]
pub struct Invocation {
    tool: Tool,
    args: Vec<OsString>,
    stdin: Vec<u8>,
    env: Vec<(OsString, OsString)>,
    timeout: Duration,
    output_limit: usize,
    until_gone: bool,
    host: Option<HostProcess>,
}

impl Invocation {
    /// A call without arguments, with the default limits.
    pub fn new(tool: Tool) -> Self {
        Self {
            tool,
            args: Vec::new(),
            stdin: Vec::new(),
            env: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            until_gone: false,
            host: None,
        }
    }

    /// Adds an argument. Never a secret: everybody on the machine can read it.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments. Never a secret: everybody on the machine can read them.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// What the tool reads from its standard input; may be a secret. Without it the input is empty.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets a variable of the tool's environment; its value may be a secret.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// How long the tool may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// A tool that its time limit could not end is waited for, with all it started, however long that takes: what it does
    /// must not be begun a second time beside it.
    pub fn until_gone(mut self) -> Self {
        self.until_gone = true;
        self
    }

    /// Runs it as that process sees the machine: with its files and its network.
    pub fn as_seen_by(mut self, process: HostProcess) -> Self {
        self.host = Some(process);
        self
    }

    /// How many bytes of each output are kept; the rest is read and thrown away.
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// The program to run.
    pub fn tool(&self) -> Tool {
        self.tool
    }

    /// The arguments as they were given.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }
}

impl fmt::Debug for Invocation {
    /// Tool, arguments and limits; of the input only its length, of the environment only the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Invocation")
            .field("tool", &self.tool.name)
            .field("args", &self.args)
            .field("stdin_bytes", &self.stdin.len())
            .field("env_names", &names)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// How a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What a tool left behind.
#[derive(Debug, Clone)]
pub struct Output {
    /// The tool that ran.
    pub tool: Tool,
    /// How it ended.
    pub exit: Exit,
    /// The beginning of its standard output, up to the limit.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error, up to the limit.
    pub stderr: Vec<u8>,
    /// Whether one of the two was longer than the limit.
    pub truncated: bool,
}

impl Output {
    /// A tool that returned `code` and said nothing.
    pub fn exited(tool: Tool, code: i32) -> Self {
        Self {
            tool,
            exit: Exit::Code(code),
            stdout: Vec::new(),
            stderr: Vec::new(),
            truncated: false,
        }
    }

    /// The exit code, unless a signal ended the tool.
    pub fn code(&self) -> Option<i32> {
        match self.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        }
    }

    /// Itself if the tool returned 0, otherwise [`ExecError::Failure`] with what it said.
    pub fn checked(self) -> Result<Self, ExecError> {
        if self.exit == Exit::Code(0) {
            Ok(self)
        } else {
            Err(self.failure())
        }
    }

    /// The error that says how the tool ended, whatever its code.
    pub fn failure(&self) -> ExecError {
        let said = if self.stderr.trim_ascii().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        ExecError::Failure {
            tool: self.tool.name,
            exit: self.exit,
            said: last_words(said),
        }
    }
}

/// The end of what a tool said, on one line: the reason usually comes last.
fn last_words(said: &[u8]) -> String {
    const LONGEST: usize = 512;
    let said = String::from_utf8_lossy(said);
    let line = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    match line.char_indices().rev().nth(LONGEST) {
        Some((start, _)) => format!("...{}", &line[start..]),
        None if line.is_empty() => "no output".to_owned(),
        None => line,
    }
}

/// Why a tool gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The tool is not installed.
    #[error("host tool `{tool}` is missing: install Debian package `{package}`")]
    ToolMissing {
        /// Its name.
        tool: &'static str,
        /// The package to install.
        package: &'static str,
    },
    /// The kernel refused to start it.
    #[error("cannot start host tool `{tool}`")]
    Start {
        /// Its name.
        tool: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Its input or output broke.
    #[error("cannot exchange data with host tool `{tool}`")]
    Pipe {
        /// Its name.
        tool: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It ran longer than allowed and was killed.
    #[error("host tool `{tool}` was killed after {} s", after.as_secs_f32())]
    Timeout {
        /// Its name.
        tool: &'static str,
        /// The limit.
        after: Duration,
    },
    /// It ended badly.
    #[error("host tool `{tool}` ended with {exit}: {said}")]
    Failure {
        /// Its name.
        tool: &'static str,
        /// How it ended.
        exit: Exit,
        /// The end of what it said.
        said: String,
    },
}

#[cfg(test)]
mod tests;
