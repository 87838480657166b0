//! Roles of the binary as processes that can be killed.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Twice what the process allows itself.
const LONGEST_END: Duration = Duration::from_secs(40);

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Sidecar,
    SnapshotController,
}

impl Role {
    /// In logs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::SnapshotController => "snapshot-controller",
        }
    }

    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Sidecar => &["sidecar", "controller"],
            Self::SnapshotController => &["snapshot-controller"],
        }
    }
}

/// One replica. It is killed when dropped, and also when this process ends in any other way.
pub struct Replica {
    role: Role,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Replica {
    /// Not started yet. All its lives write to one log.
    pub fn new(role: Role, arguments: Vec<String>, log: PathBuf) -> Self {
        Self {
            role,
            arguments,
            log,
            child: None,
        }
    }

    /// Starts it. It belongs to the calling thread: with that it ends.
    pub fn start(&mut self, more: &[&str]) {
        assert!(self.child.is_none(), "it runs already");
        let mut options = OpenOptions::new();
        let log = options.create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(env!("CARGO_BIN_EXE_stowage"))
            .args(self.role.command())
            .args(&self.arguments)
            .args(more)
            .env_clear();
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null());
        self.child = Some(streams.stderr(log).spawn().unwrap());
    }

    /// `kill -9`. Called twice: it is dead.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            _ = child.kill();
            _ = child.wait();
        }
    }

    /// SIGTERM.
    pub fn terminate(&mut self) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("/bin/kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it ends, which it must.
    pub async fn ended(&mut self) -> ExitStatus {
        let give_up = Instant::now() + LONGEST_END;
        loop {
            if let Some(status) = self.has_ended() {
                return status;
            }
            let name = self.role.name();
            assert!(Instant::now() < give_up, "the {name} does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How it ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().unwrap();
        if status.is_some() {
            self.child = None;
        }
        status
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Whether it has ever led under this name.
    pub fn has_led_as(&self, identity: &str) -> bool {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let mut lines = text.lines();
        lines.any(|line| line.contains("This process is the leader.") && line.contains(identity))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}
