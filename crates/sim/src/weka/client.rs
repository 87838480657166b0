//! The client container of a node, as an operator starts it: joins the cluster at one of its addresses, serves its files to
//! the node, and leaves when it is told to, or when it pleases.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::args::{ClientOptions, FrontendOptions};
use super::control::frontends::{Stage, Stop};
use super::frontend::{Frontend, FrontendError};

/// How long an address is given to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often one that must not stop yet looks whether it may.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a client has not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The cluster does not answer.
    #[error("no address of the cluster answers: {}", shown(.0))]
    NoAnswer(Vec<SocketAddr>),
    /// It answers, and cannot be joined.
    #[error(transparent)]
    Frontend(#[from] FrontendError),
}

fn shown(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}

/// A client that has joined. What is mounted is served until it is unmounted.
#[derive(Debug)]
pub struct Client {
    frontend: Frontend,
}

impl Client {
    /// Joins at the first address that answers. Must be called inside a tokio runtime.
    pub async fn join(options: &ClientOptions) -> Result<Self, JoinError> {
        for address in &options.join {
            let answer = timeout(PATIENCE, TcpStream::connect(address)).await;
            if matches!(answer, Ok(Ok(_))) {
                let control = SocketAddr::new(address.ip(), options.control_port);
                let options = FrontendOptions {
                    data: options.data.clone(),
                    array: format!("http://{control}"),
                    node: options.node.clone(),
                };
                let frontend = Frontend::start(&options).await?;
                return Ok(Self { frontend });
            }
        }
        Err(JoinError::NoAnswer(options.join.clone()))
    }

    /// What the cluster wants of it, as that changes.
    pub fn stage(&self) -> watch::Receiver<Stage> {
        self.frontend.stage()
    }

    /// Stops serving, when the cluster lets it.
    pub async fn leave(self) {
        loop {
            let stop = self.frontend.stage().borrow().stop;
            match stop {
                Stop::AtOnce => return,
                Stop::After(millis) => {
                    return tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                Stop::WhenUnmounted if self.frontend.mounts() == 0 => return,
                Stop::WhenUnmounted => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
