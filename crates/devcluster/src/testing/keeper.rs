//! Processes that live as long as a test does.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::error::{Doing, Error, Result};
use crate::process::append;

/// Owns the two processes on a thread of its own. They are tied to the life of that thread, not to the thread of
/// whichever test happened to start them.
pub(super) struct Keeper {
    stop: mpsc::Sender<()>,
    died: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(commands: Vec<Command>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let died = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&died);
        let thread = thread::spawn(move || keep(commands, &stopped, &seen));
        Self {
            stop,
            died,
            thread: Some(thread),
        }
    }

    pub(super) fn check(&self, log: &Path) -> Result<()> {
        if self.died.load(Ordering::Relaxed) {
            return Err(Error::DaemonDied {
                name: "an API server or its etcd".to_owned(),
                last_words: String::new(),
                log: log.to_owned(),
            });
        }
        Ok(())
    }
}

fn keep(commands: Vec<Command>, stopped: &mpsc::Receiver<()>, died: &AtomicBool) {
    let spawned: Vec<_> = commands
        .into_iter()
        .map(|mut command| command.spawn())
        .collect();
    let missing = spawned.iter().any(std::result::Result::is_err);
    let mut children: Vec<Child> = spawned.into_iter().flatten().collect();
    died.store(missing, Ordering::Relaxed);
    while stopped.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if children.iter_mut().any(ended) {
            died.store(true, Ordering::Relaxed);
        }
    }
    for child in children.iter_mut().rev() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A command that is killed when the thread that started it ends.
pub(super) fn tied(program: &Path, arguments: &[String], log: &Path) -> Result<Command> {
    let out = append(log)?;
    let err = out
        .try_clone()
        .doing(|| "cannot copy a descriptor".to_owned())?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(arguments);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(command)
}
