//! Makes the driver known to the kubelet, and keeps it known.
//!
//! The kubelet finds `<driver>-reg.sock` in its folder, asks what it is, and forgets the driver when the file goes.
//! Some kubelets empty the folder when they start, and a new pod of the same driver puts its own socket there while
//! the old pod still runs: the file is looked after for as long as the process lives. A driver that was refused, because it was not
//! ready to say where it is or a label said otherwise, is refused once and for all as long as the file stays: another one takes its place.

use std::convert::Infallible;
use std::future::pending;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fs, io};

use stowage_api::backoff::Backoff;
use stowage_csi::endpoint::{Endpoint, EndpointError};
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::registration::{DriverRegistration, KubeletVerdict};
use stowage_csi::server::{ServeError, Shutdown, Socket, SocketError, serve};
use stowage_service::health::Check;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::driver::DriverName;

/// How often the file is looked at. One `stat` per second costs nothing that can be measured, sees every way in which
/// a file can go (inotify does not: a folder mounted over ours, a full event queue), and the kubelet's own loop that
/// acts on the file runs once per second too.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a driver stays refused before it is offered again.
const OFFERED_AGAIN: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

/// How long an answer to the kubelet may take at the end.
const GRACE: Duration = Duration::from_secs(2);

/// The driver's socket as the host sees it: the kubelet connects to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSocket(String);

/// Not a path that the kubelet can connect to.
#[derive(Debug, thiserror::Error)]
pub enum HostSocketError {
    /// The kubelet's working directory is not ours.
    #[error(
        "`{0}` is relative: give the absolute path of the driver's socket on the host, such as \
         /var/lib/kubelet/plugins/DRIVER/csi.sock"
    )]
    Relative(String),
    /// Too long, or no path at all.
    #[error(transparent)]
    Unusable(#[from] EndpointError),
}

impl FromStr for HostSocket {
    type Err = HostSocketError;

    fn from_str(text: &str) -> Result<Self, HostSocketError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(HostSocketError::Relative(text.to_owned()));
        }
        text.parse::<Endpoint>()?;
        Ok(Self(text.to_owned()))
    }
}

/// Why the driver cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Nothing is mounted there.
    #[error(
        "--plugin-registration-path `{}` is not a directory: mount the kubelet's plugins_registry there (on the host \
         usually /var/lib/kubelet/plugins_registry)",
        .0.display()
    )]
    DirectoryMissing(PathBuf),
    /// The socket's path cannot be one.
    #[error(
        "cannot use the path of the registration socket of `{name}` in --plugin-registration-path"
    )]
    Path {
        /// The driver.
        name: DriverName,
        /// What is wrong.
        #[source]
        source: EndpointError,
    },
    /// The socket cannot be made.
    #[error("cannot make the registration socket")]
    Socket(#[from] SocketError),
    /// The server gave up.
    #[error("cannot serve the registration socket")]
    Serve(#[from] ServeError),
}

/// Is there a folder for the registration socket? To be asked before the long wait for a driver.
pub fn check_directory(path: &Path) -> Result<(), RegisterError> {
    if path.is_dir() {
        Ok(())
    } else {
        Err(RegisterError::DirectoryMissing(path.to_owned()))
    }
}

/// Registers one driver.
#[derive(Debug)]
pub struct Registrar {
    name: DriverName,
    driver_socket: HostSocket,
    endpoint: Endpoint,
    check: Check,
}

impl Registrar {
    /// `directory` is the kubelet's folder as this process sees it; `check` shows what the kubelet thinks.
    pub fn new(
        directory: &Path,
        name: DriverName,
        driver_socket: HostSocket,
        check: Check,
    ) -> Result<Self, RegisterError> {
        check_directory(directory)?;
        let path = directory.join(format!("{name}-reg.sock"));
        match Endpoint::try_from(path.as_path()) {
            Ok(endpoint) => Ok(Self {
                name,
                driver_socket,
                endpoint,
                check,
            }),
            Err(source) => Err(RegisterError::Path { name, source }),
        }
    }

    /// Answers the kubelet until `shutdown`; then, or when it is dropped, takes the driver off the node.
    ///
    /// At the start another socket of this name is replaced, as a new pod must replace an old one. Later the file is
    /// put back whenever it goes, except that a live socket of another process is left alone: two that replace each
    /// other every second would register and unregister the driver endlessly.
    ///
    /// A driver that is refused is offered again with another file, after pauses that grow.
    pub async fn run(self, shutdown: &CancellationToken) -> Result<(), RegisterError> {
        let mut socket = Socket::bind(&self.endpoint)?;
        let mut refusals = Refusals::default();
        loop {
            let file = FileIdentity::of(self.endpoint.path());
            tracing::info!(driver = %self.name, path = %self.path(), "The kubelet can register the driver.");
            let registration = DriverRegistration::new(self.name.as_str(), &self.driver_socket.0);
            let verdict = registration.verdict();
            tokio::select! {
                ended = self.answer(socket, registration, &refusals.last, shutdown) => return ended,
                () = self.gone(file) => {
                    refusals = Refusals::default();
                    tracing::warn!(path = %self.path(), "The registration socket was removed or replaced.");
                }
                reason = stays_refused(verdict, refusals.count) => {
                    refusals.count = refusals.count.saturating_add(1);
                    refusals.last = reason;
                    tracing::info!(driver = %self.name, "The driver is offered to the kubelet again.");
                }
            }
            match shutdown.run_until_cancelled(self.bind_again()).await {
                Some(again) => socket = again,
                None => return Ok(()),
            }
        }
    }

    fn path(&self) -> std::path::Display<'_> {
        self.endpoint.path().display()
    }

    async fn answer(
        &self,
        socket: Socket,
        registration: DriverRegistration,
        refused_before: &str,
        shutdown: &CancellationToken,
    ) -> Result<(), RegisterError> {
        let verdict = registration.verdict();
        let shutdown = Shutdown {
            token: shutdown.clone(),
            grace: GRACE,
        };
        let serving = serve(
            socket,
            Routes::new(registration.into_service()),
            ServerMetrics::default(),
            shutdown,
        );
        tokio::select! {
            ended = serving => Ok(ended?),
            never = self.show(verdict, refused_before) => match never {},
        }
    }

    /// Shows what the kubelet says, or said before it was asked again.
    async fn show(
        &self,
        mut verdict: watch::Receiver<KubeletVerdict>,
        refused_before: &str,
    ) -> Infallible {
        let refused = |reason: &str| {
            (self.check).not_ready(format!("the kubelet refused the driver: {reason}"));
        };
        loop {
            match &*verdict.borrow_and_update() {
                KubeletVerdict::Pending if refused_before.is_empty() => {
                    self.check.not_ready("the kubelet has not asked yet");
                }
                KubeletVerdict::Pending => refused(refused_before),
                KubeletVerdict::Registered => self.check.ready(),
                KubeletVerdict::Refused(reason) => refused(reason),
            }
            if verdict.changed().await.is_err() {
                // The server that hears it has ended, and its caller ends this.
                return pending().await;
            }
        }
    }

    /// Waits until the file is not there or not ours any more.
    async fn gone(&self, ours: io::Result<FileIdentity>) {
        let ours = ours.ok();
        loop {
            sleep(INTERVAL).await;
            if ours.is_none() || FileIdentity::of(self.endpoint.path()).ok() != ours {
                return;
            }
        }
    }

    /// Puts the socket back, as soon as that hurts nobody.
    async fn bind_again(&self) -> Socket {
        let mut said = String::new();
        loop {
            let reason = if UnixStream::connect(self.endpoint.path()).await.is_ok() {
                format!("another process serves `{}`", self.path())
            } else {
                match Socket::bind(&self.endpoint) {
                    Ok(socket) => return socket,
                    Err(error) => error.to_string(),
                }
            };
            self.check.not_ready(&reason);
            if said != reason {
                tracing::warn!(driver = %self.name, reason, "Waiting to put the registration socket back.");
                said = reason;
            }
            sleep(INTERVAL).await;
        }
    }
}

/// How often in a row the kubelet has refused the driver, and why.
#[derive(Debug, Default)]
struct Refusals {
    count: u32,
    last: String,
}

/// Waits until the kubelet has refused the driver and not thought better of it for a while; returns its reason.
async fn stays_refused(mut verdict: watch::Receiver<KubeletVerdict>, before: u32) -> String {
    let pause = OFFERED_AGAIN.after(before.saturating_add(1));
    let is_refused = |it: &KubeletVerdict| matches!(it, KubeletVerdict::Refused(_));
    loop {
        let refused = verdict.wait_for(is_refused).await.map(|it| it.clone());
        let Ok(KubeletVerdict::Refused(reason)) = refused else {
            // The server that hears it has ended, and its caller ends this.
            return pending().await;
        };
        let other = verdict.wait_for(|it| !is_refused(it));
        if timeout(pause, other).await.is_err() {
            return reason;
        }
    }
}

/// Tells one file from another of the same name. Filesystems use an inode again at once, hence the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_gets_an_absolute_path_that_fits() {
        assert!(
            "/var/lib/kubelet/plugins/x/csi.sock"
                .parse::<HostSocket>()
                .is_ok()
        );
        for (text, reason) in [
            ("plugins/x/csi.sock", "is relative"),
            ("unix:///csi/csi.sock", "is relative"),
            ("", "names no socket path"),
            (&*format!("/{}", "x".repeat(107)), "108 bytes long"),
        ] {
            let error = text.parse::<HostSocket>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
