//! A driver in memory in a process of its own, for tests that kill it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use stowage_csi::endpoint::Endpoint;

use super::control::{Command, SOCKET};
use super::driver::rpc_named;
use super::{Fault, MemoryDriver, Mishap, Profile};

const PROGRAM: &str = "stowage-memory-driver";
/// It starts in milliseconds, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `stowage-memory-driver`. It is killed when dropped, and ends when this process does.
pub struct DriverProcess {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    child: Option<Child>,
}

/// Why a process cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be built.
    #[error("`{0}` failed")]
    Build(String),
    /// It was told to do something and did not answer.
    #[error("the driver's control socket `{path}`")]
    Control {
        /// The socket.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The program could not be run.
    #[error("`{program}`")]
    Run {
        /// The program.
        program: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It answered something else.
    #[error("the driver was told `{command}` and answered `{answer}`")]
    Answer {
        /// What it was told.
        command: String,
        /// What it said.
        answer: String,
    },
}

impl DriverProcess {
    /// Starts the program of this workspace; see [`start_program`](Self::start_program). The first call in a process
    /// builds it: no test runs against yesterday's.
    pub fn start(directory: &Path, arguments: &[&str]) -> Result<Self, ProcessError> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        match BUILT.get_or_init(build) {
            Ok(program) => Self::start_program(program, directory, arguments),
            Err(why) => Err(ProcessError::Build(why.clone())),
        }
    }

    /// Starts `program` with its state and sockets in `directory`, and further arguments, and waits until it answers.
    pub fn start_program(
        program: &Path,
        directory: &Path,
        arguments: &[&str],
    ) -> Result<Self, ProcessError> {
        let mut process = Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            directory: directory.to_owned(),
            child: None,
        };
        process.start_again()?;
        Ok(process)
    }

    /// Starts it again with the same arguments. Called twice: the first process is killed.
    pub fn start_again(&mut self) -> Result<(), ProcessError> {
        self.kill();
        let child = Program::new(&self.program)
            .arg("--tied")
            .arg("--state")
            .arg(&self.directory)
            .arg("--endpoint")
            .arg(self.directory.join("csi.sock"))
            .args(&self.arguments)
            // The other end is ours for as long as we live.
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|source| ProcessError::Run {
                program: self.program.clone(),
                source,
            })?;
        self.child = Some(child);
        let give_up = Instant::now() + PATIENCE;
        while let Err(error) = self.tell(&Command::Calls("Probe")) {
            if Instant::now() > give_up || self.has_ended() {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Ends it at once, with SIGKILL. Called twice: it is dead already.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            _ = child.kill();
            _ = child.wait();
        }
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Where it listens.
    pub fn endpoint(&self) -> Endpoint {
        let path = self.directory.join("csi.sock");
        Endpoint::try_from(path.as_path()).expect("a directory with a short path")
    }

    /// What it has, read from its directory, running or not.
    pub fn look(&self) -> io::Result<MemoryDriver> {
        MemoryDriver::open(Profile::default(), &self.directory)
    }

    /// Lets something happen to calls of an RPC.
    pub fn upset(&self, rpc: &str, mishap: Mishap) -> Result<(), ProcessError> {
        self.tell(&Command::Upset(Some(rpc_named(rpc)), mishap))
            .map(drop)
    }

    /// Breaks a promise.
    pub fn set(&self, fault: Fault) -> Result<(), ProcessError> {
        self.tell(&Command::Set(fault)).map(drop)
    }

    /// Ends all faults and mishaps.
    pub fn mend(&self) -> Result<(), ProcessError> {
        self.tell(&Command::Mend).map(drop)
    }

    /// How often an RPC was called since this process started.
    pub fn calls(&self, rpc: &str) -> Result<u64, ProcessError> {
        let answer = self.tell(&Command::Calls(rpc_named(rpc)))?;
        Ok(answer.unwrap_or_default())
    }

    /// Sends any command; a number comes back if one was asked for.
    pub fn tell(&self, command: &Command) -> Result<Option<u64>, ProcessError> {
        let path = self.directory.join(SOCKET);
        let answer = converse(&path, command);
        let answer = answer.map_err(|source| ProcessError::Control { path, source })?;
        match answer.strip_prefix("ok").map(str::trim) {
            Some("") => Ok(None),
            Some(number) if number.parse::<u64>().is_ok() => Ok(number.parse().ok()),
            _ => Err(ProcessError::Answer {
                command: command.to_string(),
                answer,
            }),
        }
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn converse(path: &Path, command: &Command) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

/// Builds the program with the cargo that runs this test, in the same profile, and says where it is.
fn build() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile = own
        .ancestors()
        .skip(1)
        .find(|directory| !directory.ends_with("deps"))
        .ok_or("a program without a directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Program::new(cargo);
    command
        .args(["build", "--quiet", "--package", PROGRAM])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    match command.status() {
        Ok(status) if status.success() => Ok(profile.join(PROGRAM)),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
