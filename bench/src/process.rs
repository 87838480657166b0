//! The process under measurement.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::cgroup::Cgroup;
use crate::memory::{Memory, Most};
use crate::table::Table;

/// Where programs are copied to: a directory on a disk, so that their pages are those of a file.
const PROGRAMS: &str = "/var/tmp";

/// How long a process may take to get ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that runs, killed when dropped.
pub struct Process {
    child: Child,
    started: Instant,
    metrics_port: u16,
    // Goes after the process.
    container: Option<Container>,
}

/// What a process is measured in: a cgroup, and the directory of its program.
struct Container {
    cgroup: Cgroup,
    _directory: TempDir,
}

impl Process {
    /// Starts a fresh copy of `stowage` in a cgroup of its own, with `arguments` and a metrics port of its own.
    pub async fn start(stowage: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        Self::start_measured(stowage, &[], arguments).await
    }

    /// The same in a mount namespace of its own: nothing it mounts outlives it.
    pub async fn start_in_own_mounts(stowage: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let unshare = ["unshare", "--mount", "--propagation", "private", "--"];
        Self::start_measured(stowage, &unshare, arguments).await
    }

    /// Starts something that is not measured itself.
    pub fn start_beside(program: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        Self::spawn(Command::new(program), arguments, None)
    }

    async fn start_measured(
        stowage: &Path,
        through: &[&str],
        arguments: &[String],
    ) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("stowage-bench-")
            .tempdir_in(PROGRAMS)?;
        let program = directory.path().join("stowage");
        let cgroup = Cgroup::make()?;
        cgroup.copy(stowage, &program).await?;
        let program = program.display().to_string();
        let mut words = through.iter().copied().chain([program.as_str()]);
        let mut command = cgroup.command(words.next().unwrap_or_default());
        command.args(words);
        let container = Container {
            cgroup,
            _directory: directory,
        };
        Self::spawn(command, arguments, Some(container))
    }

    fn spawn(
        mut command: Command,
        arguments: &[String],
        container: Option<Container>,
    ) -> anyhow::Result<Self> {
        let metrics_port = free_port()?;
        command
            .args(arguments)
            .arg(format!("--http-endpoint=127.0.0.1:{metrics_port}"))
            .arg("--log-level=warn")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let started = Instant::now();
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {:?}", command.as_std()))?;
        Ok(Self {
            child,
            started,
            metrics_port,
            container,
        })
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits until it has made a file, such as its socket.
    pub async fn wait_for_file(&mut self, file: &Path) -> anyhow::Result<()> {
        let there = async || file.exists();
        self.wait_until(&format!("makes `{}`", file.display()), there)
            .await
    }

    /// Waits until it says that it is ready for its work.
    pub async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let port = self.metrics_port;
        self.wait_until("is ready", async || says_ok(port, "/readyz").await)
            .await
    }

    /// Waits until its liveness port says that the driver is alive, and returns how long that took from the start.
    pub async fn wait_until_serving(&mut self, liveness_port: u16) -> anyhow::Result<Duration> {
        let alive = async || says_ok(liveness_port, "/healthz").await;
        self.wait_until("answers the liveness probe", alive).await?;
        Ok(self.started.elapsed())
    }

    async fn wait_until(
        &mut self,
        what: &str,
        mut happens: impl AsyncFnMut() -> bool,
    ) -> anyhow::Result<()> {
        while self.started.elapsed() < PATIENCE {
            if happens().await {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the process ended by itself before it {what}: {status}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("it takes more than {PATIENCE:?} until the process {what}");
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the process ended")?;
        let asked = Command::new("kill").arg(id.to_string()).status().await?;
        if !asked.success() {
            bail!("cannot ask the process to stop: {asked}");
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended.context("the process does not stop")??;
        if !status.success() {
            bail!("the process was asked to stop and ended with {status}");
        }
        Ok(())
    }

    /// How much memory it has now.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let container = self.container.as_ref();
        container
            .context("this process has no cgroup of its own")?
            .cgroup
            .memory()
    }

    /// The processor time that it has used so far, its own and what the kernel did for it.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let id = self.child.id().context("the process ended")?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // The name may hold blanks; behind its bracket the 12th and 13th field are ticks of a hundredth of a second.
        let (_, fields) = stat.rsplit_once(')').context("no name in /proc/PID/stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|field| field.parse().unwrap_or(0_u64)).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Adds its memory to a table, and stops it.
    pub async fn finish(self, table: &mut Table, when: &str, most: Most) -> anyhow::Result<()> {
        self.memory()?.add_to(table, when, most);
        self.stop().await
    }

    /// Share of calls of `method` so far whose own overhead was at most `seconds`, and their number.
    pub async fn overhead_within(&self, method: &str, seconds: f64) -> anyhow::Result<(f64, f64)> {
        let text = get(self.metrics_port, "/metrics").await?;
        let name = "stowage_csi_server_overhead_seconds";
        let value = |wanted: &dyn Fn(&str) -> bool| -> f64 {
            let line = text
                .lines()
                .find(|line| line.contains(&format!("{method}\"")) && wanted(line));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
                .unwrap_or_default()
        };
        let all = value(&|line| line.starts_with(&format!("{name}_count")));
        let within = value(&|line| {
            line.starts_with(&format!("{name}_bucket"))
                && line.contains(&format!("le=\"{seconds}\""))
        });
        Ok((within, all))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its cgroup can only go after it.
        let _ = self.child.start_kill();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}

async fn says_ok(port: u16, path: &str) -> bool {
    let answer = get(port, path).await.unwrap_or_default();
    answer.split(' ').nth(1) == Some("200")
}

async fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
