//! The process under measurement.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long a process may take to get ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of ours that runs, killed when dropped.
pub struct Process {
    child: Child,
    started: Instant,
    metrics_port: u16,
}

impl Process {
    /// Starts `stowage` with `arguments` and a metrics port of its own.
    pub fn start(stowage: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        Self::spawn(Command::new(stowage), stowage, arguments)
    }

    /// The same in a mount namespace of its own: nothing it mounts outlives it.
    pub fn start_in_own_mounts(stowage: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--"])
            .arg(stowage);
        Self::spawn(command, stowage, arguments)
    }

    fn spawn(mut command: Command, stowage: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let metrics_port = free_port()?;
        let started = Instant::now();
        let child = command
            .args(arguments)
            .arg(format!("--http-endpoint=127.0.0.1:{metrics_port}"))
            .arg("--log-level=warn")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start `{}`", stowage.display()))?;
        Ok(Self {
            child,
            started,
            metrics_port,
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
        let told = Command::new("kill").arg(id.to_string()).status().await?;
        if !told.success() {
            bail!("the process cannot be told to stop: {told}");
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
        let pid = self.child.id().context("the process ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let megabytes = |field: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kilobytes =
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            kilobytes.unwrap_or_default() * 1024.0 / 1e6
        };
        Ok(Memory {
            resident: megabytes("VmRSS:"),
            anonymous: megabytes("RssAnon:"),
            files: megabytes("RssFile:"),
        })
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

/// Resident memory in MB (of 1,000,000 bytes): its own (anonymous) and mapped files.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All of it.
    pub resident: f64,
    /// What nobody else has.
    pub anonymous: f64,
    /// Pages of files: the program itself and its libraries.
    pub files: f64,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MB resident: {:.1} anonymous, {:.1} of files",
            self.resident, self.anonymous, self.files
        )
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
