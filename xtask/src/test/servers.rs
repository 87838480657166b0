//! What tests of one run share while they run: a directory, and in it the pool of API servers (`crates/testing`).

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, bail};
use devcluster::places;
use devcluster::process::append;

use crate::workspace;

/// Where tests find the directory.
const RUN_VARIABLE: &str = "STOWAGE_TEST_RUN";

/// How many servers are lent at a time: as many tests as run beside each other seldom want one each.
const SERVERS: &str = "5";

/// How long servers may take to end.
const ENDING: Duration = Duration::from_secs(20);

/// A run, and its pool; both are gone when it is dropped.
pub struct Servers {
    directory: PathBuf,
    pool: Child,
}

impl Servers {
    /// Starts the pool, which is built with the binary. It starts servers when they are asked for.
    pub fn start() -> anyhow::Result<Self> {
        // A socket's path is short: this is not below the tree.
        let name = format!("stowage-test-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        places::remove(&directory)?;
        places::make(&directory)?;
        let socket = directory.join("pool.sock");
        let logs = logs();
        places::make(&logs)?;
        let said = append(&logs.join("pool.log"))?;
        let pool = Command::new(workspace::target().join("debug/stowage-test-pool"))
            .args(["--servers", SERVERS])
            .arg("--socket")
            .arg(&socket)
            .arg("--logs")
            .arg(&logs)
            // It ends with this process, however that ends, and not before: an interrupt is not for it.
            .stdin(Stdio::piped())
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .context("cannot start the pool of API servers")?;
        let servers = Self { directory, pool };
        let started = Instant::now();
        while !socket.exists() {
            if started.elapsed() > ENDING {
                bail!(
                    "the pool of API servers does not start: see {}",
                    logs.display()
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(servers)
    }

    /// Tells tests where it is, and whether they may mount.
    pub fn share(&self, command: &mut Command) {
        command.env(RUN_VARIABLE, &self.directory);
        if !nix::unistd::geteuid().is_root() {
            command.env("STOWAGE_TEST_LEFT_OUT", self.directory.join("left-out"));
        }
    }

    /// Tests that found that they cannot run here, `program name`, with their reason.
    pub fn left_out(&self) -> BTreeMap<String, String> {
        let notes = fs::read_dir(self.directory.join("left-out"));
        let notes = notes.into_iter().flatten().flatten();
        let read = notes.filter_map(|note| fs::read_to_string(note.path()).ok());
        read.filter_map(|text| {
            let (test, reason) = text.split_once('\n')?;
            Some((test.to_owned(), reason.trim().to_owned()))
        })
        .collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The end of its input tells it to keep its logs and to end.
        drop(self.pool.stdin.take());
        let started = Instant::now();
        while matches!(self.pool.try_wait(), Ok(None)) && started.elapsed() < ENDING {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.pool.kill();
        let _ = self.pool.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Where logs of the pool's servers are.
pub fn logs() -> PathBuf {
    workspace::target().join("test-servers")
}
