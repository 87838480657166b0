//! The sidecar of a node pod: tells what is mounted to who shows the key that the pod was given the hash of.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Sidecar {
    /// Where it answers.
    pub(crate) address: SocketAddr,
    /// Paths of mounts.
    mounts: Arc<Mutex<Vec<&'static str>>>,
    serving: JoinHandle<()>,
}

impl Sidecar {
    /// Of a driver. `port` 0: any.
    pub(crate) async fn start(driver: &str, hash: &str, port: u16) -> Self {
        // Nobody else on this machine has its port.
        let [.., third, last] = std::process::id().to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(127, 80, third, last));
        let listener = TcpListener::bind(SocketAddr::new(address, port)).await;
        let listener = listener.unwrap();
        let mounts = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&mounts);
        let address = listener.local_addr().unwrap();
        let (driver, hash) = (driver.to_owned(), hash.to_owned());
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let told = told.lock().clone();
                answer(stream, &driver, &hash, &told).await;
            }
        });
        Self {
            address,
            mounts,
            serving,
        }
    }

    pub(crate) fn mount(&self, paths: &[&'static str]) {
        paths.clone_into(&mut self.mounts.lock());
    }

    /// From now on nobody answers.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, driver: &str, hash: &str, mounts: &[&str]) {
    let mut is_known = false;
    let mut lines = BufReader::new(&mut stream).lines();
    while let Ok(Some(line)) = lines.next_line().await
        && !line.is_empty()
    {
        let key = line.strip_prefix("authorization: Bearer ");
        let shown = key.map(|key| Sha256::digest(key.as_bytes()));
        let shown = shown.map(|it| {
            it.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        });
        is_known |= shown.as_deref() == Some(hash);
    }
    let mounts: Vec<_> = mounts.iter().map(|path| json!({"path": path})).collect();
    let (status, body) = if is_known {
        (
            "200 OK",
            json!({"driver": driver, "mounts": mounts}).to_string(),
        )
    } else {
        ("401 Unauthorized", String::new())
    };
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// What follows a flag of the sidecar in the spec of a pod.
pub(crate) fn flag(pod: &Value, flag: &str) -> Option<String> {
    let containers = pod["containers"].as_array().unwrap();
    let sidecar = containers.iter().find(|it| it["name"] == "csi-sidecar")?;
    let mut flags = sidecar["args"].as_array().unwrap().iter();
    flags.find_map(|it| Some(it.as_str()?.strip_prefix(flag)?.to_owned()))
}
