//! The wire between a role and the API server, which can go silent: nothing is passed on, and nobody is told.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes bytes on until it is dropped.
pub struct Wire {
    /// Who uses it goes through the wire.
    pub kubeconfig: PathBuf,
    /// Connections of this age or older are silent.
    silent: watch::Sender<usize>,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Wire {
    /// A wire to the server of `kubeconfig`, which is given by its address; another kubeconfig is written into
    /// `directory`.
    pub async fn to_server_of(kubeconfig: &Path, directory: &Path) -> Self {
        let text = fs::read_to_string(kubeconfig).unwrap();
        let (_, rest) = text.split_once("https://").expect("a server with TLS");
        let end = rest.find(|letter: char| !(letter.is_ascii_digit() || ".:".contains(letter)));
        let address = &rest[..end.unwrap_or(rest.len())];
        let server: SocketAddr = address.parse().unwrap();
        // The same address as the server's own, for which its certificate is good.
        let listener = TcpListener::bind((server.ip(), 0)).await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let path = directory.join("wire.kubeconfig");
        fs::write(&path, text.replace(address, &own)).unwrap();
        let silent = watch::Sender::new(0);
        let connections = Arc::new(AtomicUsize::new(0));
        let (of_task, count) = (silent.clone(), Arc::clone(&connections));
        let serving = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                let Ok(far) = TcpStream::connect(server).await else {
                    continue;
                };
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(pass_on(near_in, far_out, number, of_task.subscribe()));
                tokio::spawn(pass_on(far_in, near_out, number, of_task.subscribe()));
            }
        });
        Self {
            kubeconfig: path,
            silent,
            connections,
            serving,
        }
    }

    /// From now on nothing passes on the connections that there are; new ones work.
    pub fn fall_silent(&self) {
        let there_are = self.connections.load(Ordering::Relaxed);
        self.silent.send_replace(there_are);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns when the connection of this number falls silent.
async fn silence(
    silent: &mut watch::Receiver<usize>,
    number: usize,
) -> Result<(), watch::error::RecvError> {
    silent.wait_for(|until| *until >= number).await.map(|_| ())
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: usize,
    mut silent: watch::Receiver<usize>,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            biased;
            Ok(()) = silence(&mut silent, number) => None,
            read = from.read(&mut bytes) => Some(read),
        };
        match read {
            // Both ends stay open.
            None => return std::future::pending().await,
            Some(Ok(0) | Err(_)) => return,
            Some(Ok(length)) => {
                if to.write_all(&bytes[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
