//! A simulated array with its files on this machine, and the driver beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::mount::{UnmountFlags, unmount};
use stowage_host::mountinfo::Reader;
use stowage_sim::weka::Control;
use stowage_sim::weka::mount_helper::{self, Request, SOCKETS_VARIABLE};
use tempfile::TempDir;

use crate::process::{Process, free_port};

/// The filesystem that a new array has.
pub const FILESYSTEM: &str = "default";

/// Where the driver puts what was deleted.
const TRASH: &str = ".__internal__wekafs-async-delete";

/// How long the removal of what was deleted may take.
const PATIENCE: Duration = Duration::from_secs(120);

const CONTAINER: &str = "client";

/// Everything that the rounds share. What is first goes first.
pub struct Stage {
    pub driver: Process,
    array: Process,
    pub control: Control,
    /// Where the array answers: address and port.
    pub endpoint: String,
    scratch: Scratch,
}

impl Stage {
    /// Starts array and driver, and mounts the filesystem for the bare client.
    pub async fn set(stowage: &Path, simulator: &Path, directory: &Path) -> anyhow::Result<Self> {
        let scratch = Scratch::in_directory(directory)?;
        let endpoint = format!("127.0.0.1:{}", free_port()?);
        let control = format!("127.0.0.1:{}", free_port()?);
        let place = |name: &str| scratch.path(name).display().to_string();
        let mut array = Process::start_beside(
            simulator,
            &[
                "sim".to_owned(),
                "weka".to_owned(),
                format!("--data={}", place("array")),
                format!("--listen={endpoint}"),
                "--plain-http".to_owned(),
                format!("--control={control}"),
                format!("--sockets={}", place("sockets")),
                format!("--container={CONTAINER}"),
                format!("--proc-modules={}", place("modules")),
                format!("--proc-interface={}", place("interface")),
                // What a quota takes to be in effect is the array's business, and would hide ours.
                "--quota-delay=0s".to_owned(),
                "--creation-delay=0s".to_owned(),
            ],
        )?;
        let socket = scratch.path("sockets").join(format!("{CONTAINER}.sock"));
        array.wait_for_file(&socket).await?;
        let script = format!(
            "#!/bin/sh\n{SOCKETS_VARIABLE}={} exec {} sim mount.wekafs \"$@\"\n",
            place("sockets"),
            simulator.display()
        );
        mount_helper::install(&scratch.path("sbin"), &script)
            .context("cannot install the mount helper: this needs root")?;
        mount(scratch.path("bare"), scratch.path("sockets")).await?;

        let mut driver = Process::start(
            stowage,
            &[
                "driver".to_owned(),
                "weka".to_owned(),
                "--nodeid=bench".to_owned(),
                format!("--endpoint={}", place("csi.sock")),
                format!("--mount-base={}", place("mounts")),
                format!("--legacy-volume-access={}", place("no-secret")),
                format!("--proc-modules={}", place("modules")),
                format!("--proc-wekafs-interface={}", place("interface")),
                "--allowautofscreation".to_owned(),
            ],
        )
        .await?;
        driver.wait_for_file(&scratch.path("csi.sock")).await?;
        Ok(Self {
            driver,
            array,
            control: Control::new(format!("http://{control}")),
            endpoint,
            scratch,
        })
    }

    /// The driver's socket.
    pub fn socket(&self) -> PathBuf {
        self.scratch.path("csi.sock")
    }

    /// The filesystem, mounted for the bare client.
    pub fn bare(&self) -> PathBuf {
        self.scratch.path("bare")
    }

    /// Where the helper asks for mounts.
    pub fn sockets(&self) -> PathBuf {
        self.scratch.path("sockets")
    }

    /// Where volumes are published.
    pub fn pods(&self) -> PathBuf {
        self.scratch.path("pods")
    }

    /// Waits until the driver has removed what was deleted.
    pub async fn until_trash_is_empty(&self) -> anyhow::Result<()> {
        let trash = self.bare().join(TRASH);
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if std::fs::read_dir(&trash)?.next().is_none() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("deleted volumes are still there after {PATIENCE:?}");
    }

    /// Stops the driver as a kubelet does, and then the rest.
    pub async fn end(self) -> anyhow::Result<()> {
        self.driver.stop().await?;
        // Before its directory goes: it would go on writing there.
        self.array.stop().await
    }
}

async fn mount(target: PathBuf, sockets: PathBuf) -> anyhow::Result<()> {
    std::fs::create_dir(&target)?;
    let request = Request {
        source: FILESYSTEM.to_owned(),
        target,
        ..Request::default()
    };
    tokio::task::spawn_blocking(move || mount_helper::run(&request, &sockets)).await??;
    Ok(())
}

/// A directory that is gone afterwards, and with it what is mounted there.
struct Scratch(TempDir);

impl Scratch {
    fn in_directory(directory: &Path) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("stowage-bench-")
            .tempdir_in(directory)?;
        Ok(Self(scratch))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Ok(table) = Reader::default().table() else {
            return;
        };
        for mount in table.under(self.0.path()) {
            // Not waited for: its server may be gone already.
            let _ = unmount(mount.point(), UnmountFlags::DETACH);
        }
    }
}
