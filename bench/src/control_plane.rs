//! A control plane of this run, with one user whose requests are counted.

use std::path::{Path, PathBuf};

use devcluster::testing::{ControlPlane, Rule};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use stowage_service::client;
use tempfile::TempDir;

use crate::requests::{AuditLog, USER};

/// A control plane, gone when dropped.
pub struct Measured {
    pub plane: ControlPlane,
    pub audit: AuditLog,
    /// The administrator: prepares and looks.
    pub admin: Client,
    /// How the user under measurement connects.
    pub kubeconfig: PathBuf,
    /// For files of the run.
    pub directory: TempDir,
}

impl Measured {
    /// Starts it and lets the caller prepare it, which may block.
    pub async fn start(
        prepare: impl FnOnce(&ControlPlane) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("stowage-bench-")
            .tempdir()?;
        let (audit, arguments) = AuditLog::in_directory(directory.path())?;
        let start = move || -> anyhow::Result<_> {
            let plane = ControlPlane::start_with(&arguments)?;
            let everything = Rule {
                groups: &["*"],
                resources: &["*"],
                verbs: &["*"],
            };
            let kubeconfig = plane.user(USER, &[everything])?;
            prepare(&plane)?;
            Ok((plane, kubeconfig))
        };
        let (plane, kubeconfig) = tokio::task::spawn_blocking(start).await??;
        Ok(Self {
            audit,
            admin: connect(plane.kubeconfig()).await?,
            kubeconfig,
            plane,
            directory,
        })
    }
}

/// Reads a kubeconfig and connects, as what is measured does.
pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(client::connect(config)?)
}
