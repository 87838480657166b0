//! Waiting for a driver that starts.

use std::time::Duration;
use std::{fmt, io};

use stowage_csi::client::Connection;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::Sockets;
use crate::check::describe;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// One unanswered probe must not use up the time in which the next one could be answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no driver to test.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The socket is missing, or nobody listens on it.
    #[error(
        "nothing answers at `{endpoint}` ({reason}): start the driver, or correct the endpoint"
    )]
    Unreachable {
        /// Where.
        endpoint: String,
        /// What the system said.
        reason: io::Error,
    },
    /// It listens, and was not ready in time.
    #[error(
        "the driver at `{endpoint}` is not ready after {waited:?} ({reason}): \
         look at its log, or wait longer with --ready-timeout"
    )]
    NotReady {
        /// Where.
        endpoint: String,
        /// How long.
        waited: Duration,
        /// The last answer to `Probe`.
        reason: String,
    },
}

/// The answer to a question about readiness, if not "yes".
enum NotYet {
    Unreachable(io::Error),
    NotReady(String),
}

impl NotYet {
    fn into_error(self, endpoint: &Endpoint, waited: Duration) -> DriverError {
        let endpoint = endpoint.to_string();
        match self {
            Self::Unreachable(reason) => DriverError::Unreachable { endpoint, reason },
            Self::NotReady(reason) => DriverError::NotReady {
                endpoint,
                waited,
                reason,
            },
        }
    }
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => reason.fmt(f),
            Self::NotReady(reason) => f.write_str(reason),
        }
    }
}

impl Sockets {
    /// Waits for every socket. Says once if there is something to wait for: a person would wonder.
    pub(super) async fn wait_until_ready(
        &self,
        timeout: Duration,
        mut waiting: impl FnMut(String),
    ) -> Result<(), DriverError> {
        let give_up = Instant::now() + timeout;
        let mut is_waiting = false;
        for (endpoint, connection) in [&self.controller].into_iter().chain(&self.node) {
            while let Err(not_yet) = ask_ready(endpoint, connection).await {
                if is_final(&not_yet) || Instant::now() + PAUSE > give_up {
                    return Err(not_yet.into_error(endpoint, timeout));
                }
                if !is_waiting {
                    waiting(format!(
                        "Waiting up to {timeout:?} for the driver: {not_yet}."
                    ));
                    is_waiting = true;
                }
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

/// A socket that is not there yet may come; one that we may not open will not.
fn is_final(not_yet: &NotYet) -> bool {
    match not_yet {
        NotYet::Unreachable(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock
        ),
        NotYet::NotReady(_) => false,
    }
}

/// Any answer but "not yet" lets the cases run: if it is a wrong one, the case about `Probe` says so.
async fn ask_ready(endpoint: &Endpoint, connection: &Connection) -> Result<(), NotYet> {
    // Asked by hand first, because the system's own words ("no such file") help more than a gRPC code.
    UnixStream::connect(endpoint.path())
        .await
        .map_err(NotYet::Unreachable)?;
    let connection = connection.clone().with_timeout(PROBE_TIMEOUT);
    match IdentityClient::new(connection).probe(ProbeRequest {}).await {
        Ok(answer) if answer.get_ref().ready == Some(false) => Err(NotYet::NotReady(
            "Probe answers OK with ready = false".to_owned(),
        )),
        Err(status)
            if matches!(
                status.code(),
                Code::FailedPrecondition | Code::Unavailable | Code::DeadlineExceeded
            ) =>
        {
            let answer = describe(&status);
            Err(NotYet::NotReady(format!("Probe answers {answer}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
