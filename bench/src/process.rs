//! The process under measurement, in a mount namespace of its own: nothing it mounts outlives it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A driver that runs, killed when dropped.
pub struct Process {
    child: Child,
    metrics_port: u16,
}

impl Process {
    /// Starts `stowage` with `arguments` and a metrics port of its own.
    pub async fn start(stowage: &Path, arguments: &[String], ready: &Path) -> anyhow::Result<Self> {
        let metrics_port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--"])
            .arg(stowage)
            .args(arguments)
            .arg(format!("--http-endpoint=127.0.0.1:{metrics_port}"))
            .arg("--log-level=warn")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start `{}`", stowage.display()))?;
        let mut process = Self {
            child,
            metrics_port,
        };
        for _ in 0..200 {
            if ready.exists() {
                return Ok(process);
            }
            if let Some(status) = process.child.try_wait()? {
                bail!("the driver ended by itself: {status}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!(
            "the driver made no socket `{}` within 10 s",
            ready.display()
        );
    }

    /// Resident memory in MB: its own (anonymous) and mapped files.
    pub fn memory(&self) -> anyhow::Result<String> {
        let pid = self.child.id().context("the driver ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let megabytes = |field: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kilobytes =
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            kilobytes.unwrap_or_default() / 1000.0
        };
        Ok(format!(
            "{:.1} MB resident: {:.1} anonymous, {:.1} of files",
            megabytes("VmRSS:"),
            megabytes("RssAnon:"),
            megabytes("RssFile:"),
        ))
    }

    /// Share of calls of `method` so far whose own overhead was at most `seconds`, and their number.
    pub async fn overhead_within(&self, method: &str, seconds: f64) -> anyhow::Result<(f64, f64)> {
        let text = self.metrics().await?;
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

    async fn metrics(&self) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics_port)).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }
}
