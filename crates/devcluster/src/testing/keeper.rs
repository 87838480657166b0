//! Processes that live as long as a test does, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::running::Running;
use crate::error::{Doing, Error, Result};
use crate::process::append;

/// Owns processes on a thread of its own. They are tied to the life of that thread, not to the thread of whichever
/// test happened to start them; dropped, it ends them, the last one first.
pub(super) struct Keeper {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Something to be done on the keeper's thread.
type Order = Box<dyn FnOnce(&mut Vec<Kept>) + Send>;

struct Kept {
    name: String,
    log: PathBuf,
    command: Command,
    /// `None` while it is stopped on purpose.
    child: Option<Child>,
}

impl Keeper {
    pub(super) fn new() -> Self {
        let (orders, received) = mpsc::channel::<Order>();
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            while let Ok(order) = received.recv() {
                order(&mut kept);
            }
            kept.iter_mut().rev().for_each(Kept::end);
        });
        Self {
            orders: Some(orders),
            thread: Some(thread),
        }
    }

    /// Starts a program that logs to `log`.
    pub(super) fn run(
        &self,
        name: &str,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<()> {
        let mut new = Kept {
            name: name.to_owned(),
            log: log.to_owned(),
            command: tied(program, arguments, log)?,
            child: None,
        };
        self.ask(move |kept| {
            new.begin()?;
            kept.push(new);
            Ok(())
        })
    }

    /// Ends a process at once. Called twice: it is not there.
    pub(super) fn stop(&self, name: &str) -> Result<()> {
        self.with(name, |kept| {
            kept.end();
            Ok(())
        })
    }

    /// Starts a stopped process again, with the same arguments. Called twice: it runs.
    pub(super) fn start_again(&self, name: &str) -> Result<()> {
        self.with(name, |kept| match kept.child {
            Some(_) => Ok(()),
            None => kept.begin(),
        })
    }

    /// Sends a signal to a process.
    pub(super) fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        self.with(name, move |kept| {
            let id = kept.child.as_ref().map(Child::id);
            let id = id.and_then(|id| i32::try_from(id).ok());
            match id.map(|id| kill(Pid::from_raw(id), signal)) {
                Some(Ok(())) => Ok(()),
                _ => Err(kept.died()),
            }
        })
    }

    /// The id of a process that runs.
    pub(super) fn id(&self, name: &str) -> Result<u32> {
        let (tell, told) = mpsc::channel();
        self.with(name, move |kept| {
            let id = kept.child.as_ref().map(Child::id);
            let _ = tell.send(id.ok_or_else(|| kept.died())?);
            Ok(())
        })?;
        told.recv()
            .map_err(|_| Error::Refused(format!("no `{name}` runs for this test")))
    }

    /// Fails if a process has ended by itself.
    pub(super) fn check(&self) -> Result<()> {
        self.ask(|kept| {
            for one in kept {
                if let Some(child) = &mut one.child
                    && !matches!(child.try_wait(), Ok(None))
                {
                    return Err(one.died());
                }
            }
            Ok(())
        })
    }

    fn with(
        &self,
        name: &str,
        work: impl FnOnce(&mut Kept) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let name = name.to_owned();
        self.ask(
            move |kept| match kept.iter_mut().find(|one| one.name == name) {
                Some(one) => work(one),
                None => Err(Error::Refused(format!("no `{name}` runs for this test"))),
            },
        )
    }

    fn ask(&self, work: impl FnOnce(&mut Vec<Kept>) -> Result<()> + Send + 'static) -> Result<()> {
        let (answer, answered) = mpsc::channel();
        let order: Order = Box::new(move |kept| {
            let _ = answer.send(work(kept));
        });
        let gone = || Error::Refused("the keeper of this test's processes is gone".to_owned());
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send(order).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Kept {
    fn begin(&mut self) -> Result<()> {
        let child = self.command.spawn();
        self.child = Some(child.doing(|| format!("cannot start `{}`", self.name))?);
        Ok(())
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn died(&self) -> Error {
        Error::DaemonDied {
            name: self.name.clone(),
            last_words: String::new(),
            log: self.log.clone(),
        }
    }
}

/// A command that is killed when the thread that started it ends.
fn tied(program: &Path, arguments: &[String], log: &Path) -> Result<Command> {
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

/// Removes a directory when this process is gone. One that is shared by all tests of a process is never dropped, and
/// one of a process that was killed is not either: an etcd of 120 MB would stay for each.
///
/// Whoever drops it has removed the directory.
pub(super) struct Sweeper {
    _process: Running,
}

impl Sweeper {
    pub(super) fn of(directory: &Path) -> Result<Self> {
        // The shell reads until we are gone. A second later those who wrote there are gone too. The session of its
        // own keeps Ctrl-C away from it.
        let script = r#"cat > /dev/null; sleep 1; rm -rf -- "$1""#;
        let child = Command::new("setsid")
            .args(["sh", "-c", script, "sweeper"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child
            .map(|child| Self {
                _process: Running(child),
            })
            .doing(|| "cannot run `setsid sh`".to_owned())
    }
}
