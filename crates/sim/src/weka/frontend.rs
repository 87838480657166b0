//! The frontend of a node: serves filesystems over FUSE to whoever mounts them there.
//!
//! A process of its own, outside of any pod of a driver, so that mounts outlive the driver. The mount helper asks it on a
//! socket; it asks the cluster's control API whether the mount is allowed; the helper mounts in its own mount namespace
//! and hands the descriptor of the mount over.
//!
//! - [`stage`]: stand-ins of the kernel's files.

pub mod stage;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::stage::StageFiles;
use super::args::FrontendOptions;
use super::backing::Backing;
use super::control::frontends::{Report, Stage};
use super::control::{Control, ControlError};
use super::mount_helper::Mount;
use super::state::mounts::MountRequest;
use crate::files::served::Served;
use crate::handover::{Answering, SocketError, Verdict, receive, send, take_over};
use crate::mounting;

/// How often the frontend reports to the cluster.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// Why a frontend does not start.
#[derive(Debug, thiserror::Error)]
pub enum FrontendError {
    /// Its socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Its stand-ins of kernel files.
    #[error("cannot write the stand-ins of the kernel's files")]
    Stage(#[source] io::Error),
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ControlError),
}

/// A frontend that takes mounts for as long as this is held. What is mounted is served until it is unmounted.
#[derive(Debug)]
pub struct Frontend {
    answering: Answering,
    container: String,
    files: StageFiles,
    stage: watch::Receiver<Stage>,
    mounts: Arc<AtomicUsize>,
    stop: CancellationToken,
}

struct Shared {
    container: String,
    backing: Backing,
    control: Control,
    runtime: Handle,
    mounts: Arc<AtomicUsize>,
}

impl Frontend {
    /// Starts a frontend of the cluster with this control API. Must be called inside a tokio runtime.
    pub async fn start(options: &FrontendOptions) -> Result<Self, FrontendError> {
        let control = Control::new(&options.array);
        let report = Report {
            container: options.node.container.clone(),
            hostname: options.hostname(),
            ip: options.node.ip.to_string(),
        };
        let files = StageFiles {
            modules: options.node.proc_modules.clone(),
            interface: options.node.proc_interface.clone(),
        };
        let stage = control.report(&report).await?;
        files
            .show(&report.container, stage)
            .map_err(FrontendError::Stage)?;
        let stop = CancellationToken::new();
        let mounts = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            container: report.container.clone(),
            backing: Backing::new(&options.data),
            control: control.clone(),
            runtime: Handle::current(),
            mounts: Arc::clone(&mounts),
        };
        let answering = Answering::start(&options.socket(), move |stream| shared.mount(stream))?;
        let (shown, stage) = watch::channel(stage);
        let frontend = Self {
            answering,
            container: report.container.clone(),
            files: files.clone(),
            stage,
            mounts,
            stop: stop.clone(),
        };
        tokio::spawn(report_on(control, report, files, shown, stop));
        Ok(frontend)
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        self.answering.socket()
    }

    /// What the cluster wants of it, as that changes.
    pub fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.clone()
    }

    /// How many mounts it serves.
    pub fn mounts(&self) -> usize {
        self.mounts.load(Ordering::SeqCst)
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        self.stop.cancel();
        self.answering.stop();
        // Here and not in a task, which the end of the process may overtake.
        let _ = self.files.hide(&self.container);
    }
}

/// Says again and again that it is there, and lets the stand-ins say what the cluster wants them to.
async fn report_on(
    control: Control,
    report: Report,
    files: StageFiles,
    shown: watch::Sender<Stage>,
    stop: CancellationToken,
) {
    loop {
        let heard = control.report(&report).await;
        if stop.is_cancelled() {
            return;
        }
        match heard {
            Ok(stage) if *shown.borrow() != stage => match files.show(&report.container, stage) {
                Ok(()) => {
                    shown.send_replace(stage);
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot update the stand-ins of the kernel's files.");
                }
            },
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "Cannot report this frontend to the cluster."),
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(HEARTBEAT) => {}
        }
    }
}

impl Shared {
    /// One mount, from the question to the end of serving it.
    fn mount(&self, mut stream: UnixStream) -> io::Result<()> {
        let mount: Mount = receive(&mut stream)?;
        let name = mount.filesystem.clone();
        let granted = self.runtime.block_on(self.control.mount(&MountRequest {
            filesystem: mount.filesystem,
            container: self.container.clone(),
            options: mount.options,
            token: mount.token,
        }));
        let grant = match granted {
            Ok(grant) => grant,
            Err(error) => return send(&mut stream, &Verdict::Refused(error.to_string())),
        };
        let tree = match self.backing.open(&grant.filesystem) {
            Ok(tree) => tree,
            Err(error) => return send(&mut stream, &Verdict::Refused(error.to_string())),
        };
        send(&mut stream, &Verdict::Granted)?;
        let session = mounting::session(Served::new(tree), take_over(&stream)?)?;
        // Before anybody sees the mount.
        self.mounts.fetch_add(1, Ordering::SeqCst);
        send(&mut stream, &Verdict::Granted).inspect_err(|_| {
            self.mounts.fetch_sub(1, Ordering::SeqCst);
        })?;
        drop(stream);
        tracing::info!(filesystem = %name, "Mounted.");
        // Ends with an error when it is unmounted by force: that is an end, too.
        let _ = session.run();
        self.mounts.fetch_sub(1, Ordering::SeqCst);
        tracing::info!(filesystem = %name, "Unmounted.");
        Ok(())
    }
}
