//! The driver behind the socket: what it is called, what it can do, when it was restarted.
//!
//! A driver may be absent, slow, or be replaced by another version at any time; the sidecar waits and says so. Only a
//! driver without a valid name, or one that comes back under another name, is an error: objects of the cluster and
//! the kubelet know it by that name.
//!
//! ```no_run
//! # use stowage_sidecar::driver::{Change, Driver, DriverError, DriverOptions};
//! # async fn example(options: DriverOptions, shutdown: tokio_util::sync::CancellationToken) -> Result<(), DriverError> {
//! let Some((driver, mut watch)) = Driver::connect(options, &shutdown).await? else {
//!     return Ok(()); // asked to stop before the driver was there
//! };
//! loop {
//!     tokio::select! {
//!         () = shutdown.cancelled() => return Ok(()),
//!         change = watch.next() => match change? {
//!             Change::Lost => {}             // calls wait for it and are UNAVAILABLE after a while
//!             Change::Back => {}             // as it was
//!             Change::Different(driver) => {} // other capabilities: restart what depends on them
//!         },
//!     }
//! }
//! # }
//! ```

mod capabilities;
mod handshake;
mod lifeline;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use stowage_api::termination::Cause;
use stowage_csi::client::Connection;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
pub use stowage_csi::name::{DriverName, InvalidName};
use stowage_service::health::Check;
use tokio_util::sync::CancellationToken;

pub use self::capabilities::Capabilities;
use self::handshake::Handshake;
pub(crate) use self::handshake::refusal;
use self::lifeline::Lifeline;

/// How a driver is reached, and what is asked of it.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Its socket.
    pub endpoint: Endpoint,
    /// Deadline of calls that do not set their own; half of it is the patience with a socket that is not there.
    pub timeout: Duration,
    /// Where calls are counted.
    pub metrics: ClientMetrics,
    /// What to ask.
    pub interest: Interest,
    /// Shows on `/readyz` whether the driver is there.
    pub check: Check,
}

/// What a role needs to know of its driver. What is not asked cannot go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Name and version only; [`Capabilities`] stay empty.
    Name,
    /// Also the capabilities of every service on the socket.
    Capabilities,
}

/// A driver that answered. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Driver {
    connection: Connection,
    about: Arc<About>,
}

/// What a driver says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct About {
    name: DriverName,
    vendor_version: String,
    capabilities: Capabilities,
}

/// Why the process cannot go on with this driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Nothing in the cluster can carry such a name.
    #[error("the name of the driver at `{endpoint}` is not valid")]
    InvalidName {
        /// Its socket.
        endpoint: Endpoint,
        /// What it said.
        #[source]
        source: InvalidName,
    },
    /// Two sidecars or two sockets were mixed up.
    #[error(
        "--driver-name is `{expected}`, but the driver at `{endpoint}` reports the name `{found}`: nothing was done. \
         Correct --driver-name, or --csi-address"
    )]
    Unexpected {
        /// Its socket.
        endpoint: Endpoint,
        /// The flag.
        expected: DriverName,
        /// The name that the driver reports.
        found: DriverName,
    },
    /// Another driver took over the socket.
    #[error(
        "the driver at `{endpoint}` was `{was}` and is `{now}` now: a driver must keep its name for as long as its volumes exist"
    )]
    Renamed {
        /// Its socket.
        endpoint: Endpoint,
        /// The name at the start of this process.
        was: DriverName,
        /// The name after a restart.
        now: DriverName,
    },
}

impl DriverError {
    /// What the operator shows on the instance of this driver.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let mismatch = |expected: &DriverName, reported: &DriverName| Cause::DriverNameMismatch {
            expected: expected.to_string(),
            reported: reported.to_string(),
        };
        match self {
            Self::InvalidName { .. } => None,
            Self::Unexpected {
                expected, found, ..
            } => Some(mismatch(expected, found)),
            Self::Renamed { was, now, .. } => Some(mismatch(was, now)),
        }
    }
}

/// What became of a driver.
#[derive(Clone, Debug)]
pub enum Change {
    /// Its process ended or closed the connection. Calls reconnect by themselves.
    Lost,
    /// It answers again and can do what it could before.
    Back,
    /// It answers again and its capabilities are others: this is the driver from now on.
    Different(Driver),
}

impl Driver {
    /// Waits until a driver at the socket says that it is ready, and asks what it is. None if `shutdown` came first.
    ///
    /// An absent or failing driver is asked again every second, without end; log and `/readyz` name the reason.
    pub async fn connect(
        options: DriverOptions,
        shutdown: &CancellationToken,
    ) -> Result<Option<(Self, DriverWatch)>, DriverError> {
        let mut handshake = Handshake::new(options);
        match shutdown.run_until_cancelled(handshake.make()).await {
            None => Ok(None),
            Some(Err(error)) => Err(error),
            Some(Ok((driver, lifeline))) => {
                let watch = DriverWatch::new(handshake, driver.clone(), lifeline);
                Ok(Some((driver, watch)))
            }
        }
    }

    /// Refuses a driver of another name than the expected one, if one is expected.
    pub(crate) fn expect(
        &self,
        expected: Option<&DriverName>,
        endpoint: &Endpoint,
    ) -> Result<(), DriverError> {
        match expected.filter(|expected| *expected != self.name()) {
            None => Ok(()),
            Some(expected) => Err(DriverError::Unexpected {
                endpoint: endpoint.clone(),
                expected: expected.clone(),
                found: self.name().clone(),
            }),
        }
    }

    /// What the driver is called.
    pub fn name(&self) -> &DriverName {
        &self.about.name
    }

    /// Its vendor's version, for people only. Empty if it has none.
    pub fn vendor_version(&self) -> &str {
        &self.about.vendor_version
    }

    /// What it can do.
    pub fn capabilities(&self) -> Capabilities {
        self.about.capabilities
    }

    /// The same driver, whose volumes are taken to be reachable from everywhere, whatever it says.
    pub(crate) fn without_topology(self) -> Self {
        let about = About {
            capabilities: self.about.capabilities.without_topology(),
            ..About::clone(&self.about)
        };
        Self {
            about: about.into(),
            ..self
        }
    }

    /// For calls: hand a clone to a generated client. They are counted under the driver's name.
    pub fn connection(&self) -> Connection {
        self.connection.clone()
    }
}

/// Follows a driver through its restarts.
pub struct DriverWatch(BoxStream<'static, Result<Change, DriverError>>);

/// Between two changes.
struct Watching {
    handshake: Handshake,
    driver: Driver,
    lifeline: Option<Lifeline>,
}

impl DriverWatch {
    fn new(handshake: Handshake, driver: Driver, lifeline: Lifeline) -> Self {
        let watching = Watching {
            handshake,
            driver,
            lifeline: Some(lifeline),
        };
        let changes = stream::unfold(watching, |mut watching| async move {
            let change = watching.change().await;
            Some((change, watching))
        });
        Self(changes.boxed())
    }

    /// Waits for the next change: a [`Change::Lost`] and what follows it take turns. May be cancelled at any time,
    /// nothing is lost. An error means that the process should end.
    pub async fn next(&mut self) -> Result<Change, DriverError> {
        self.0.next().await.expect("the stream has no end")
    }
}

impl fmt::Debug for DriverWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverWatch").finish_non_exhaustive()
    }
}

impl Watching {
    async fn change(&mut self) -> Result<Change, DriverError> {
        if let Some(lifeline) = &mut self.lifeline {
            lifeline.ended().await;
            self.lifeline = None;
            self.handshake.lost(&self.driver);
            return Ok(Change::Lost);
        }
        let (driver, lifeline) = self.handshake.make_again().await?;
        if driver.name() != self.driver.name() {
            return Err(DriverError::Renamed {
                endpoint: self.handshake.endpoint().clone(),
                was: self.driver.name().clone(),
                now: driver.name().clone(),
            });
        }
        self.lifeline = Some(lifeline);
        if driver.capabilities() == self.driver.capabilities() {
            // Clones of the old one are in use and serve as well.
            return Ok(Change::Back);
        }
        self.driver = driver.clone();
        Ok(Change::Different(driver))
    }
}

/// At most `length` characters of something that a driver said.
fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
