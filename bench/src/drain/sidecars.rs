//! What the sidecars of all nodes tell about mounts: that nothing is left, whoever asks. One answers for all of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stowage_api::mounts::MountReport;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// They answer until this is dropped.
pub struct Sidecars {
    asked: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Sidecars {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Where they answer: nobody else on this machine has its ports.
pub fn address() -> IpAddr {
    let [.., third, last] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 80, third, last))
}

impl Sidecars {
    /// Begins to answer for a driver.
    pub async fn start(driver: &str, port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::new(address(), port)).await?;
        let report = MountReport {
            driver: driver.to_owned(),
            mounts: Vec::new(),
        };
        let report = serde_json::to_string(&report)?;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let report = report.clone();
                tokio::spawn(async move { answer(stream, &report).await });
            }
        });
        Ok(Self { asked, serving })
    }

    /// How often somebody asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn answer(mut stream: TcpStream, report: &str) {
    let mut lines = BufReader::new(&mut stream).lines();
    while let Ok(Some(line)) = lines.next_line().await
        && !line.is_empty()
    {}
    let length = report.len();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{report}");
    let _ = stream.write_all(answer.as_bytes()).await;
}
