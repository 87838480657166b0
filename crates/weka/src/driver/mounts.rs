//! Filesystems mounted for the driver's own use, one mount per cluster, filesystem and options.
//!
//! What is mounted is known from the kernel's table: mounts that an earlier process left are used on. This process only
//! counts its users, so that what nobody uses any more is unmounted after a while. A volume that was published from such
//! a mount does not need it: a bind keeps its filesystem.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::fstat;
use secrecy::ExposeSecret;
use stowage_csi::waiting::on_machine;
use stowage_host::beneath::Root;
use stowage_host::mount::{FsMount, Mounter, Unmount, ensure_unmounted};
use stowage_host::mountinfo::{Device, Mount};
use stowage_host::stat::Health;
use stowage_host::{PathError, blocking, create_directories};
use tokio::time::timeout;

use super::client::{LocalClient, LocalContainer};
use super::filesystem::WekaFilesystem;
use crate::error::Error;
use crate::name;
use crate::options::{Options, Vocabulary};
use crate::rest::Deadline;
use slots::{Mounting, Slot, User};

mod hide;
mod idle;
mod slots;

/// What `mount(8)` calls the filesystem.
const KIND: &str = "wekafs";

/// Directories to mount on.
const POINT_MODE: u32 = 0o750;

/// How many times as long as a call a mount may take before it is killed; it goes on when its first caller has given up.
const MOUNT_TIME_IN_CALLS: u32 = 2;

/// Whether a mount may be one of this driver's: of the client, of its simulation, or by NFS.
pub(crate) fn is_weka(mount: &Mount<'_>) -> bool {
    is_wekafs(mount) || mount.kind() == "nfs" || mount.kind() == "nfs4"
}

fn is_wekafs(mount: &Mount<'_>) -> bool {
    mount.kind() == KIND || mount.kind() == "fuse.wekafs"
}

/// All mounts of the process.
pub(crate) struct Mounts {
    base: PathBuf,
    mounter: Arc<dyn Mounter>,
    client: LocalClient,
    vocabulary: Vocabulary,
    mount_time: Duration,
    slots: Mutex<HashMap<PathBuf, Slot>>,
}

/// A filesystem that stays mounted as long as this lives.
pub(crate) struct Mounted {
    point: PathBuf,
    device: Device,
    filesystem: String,
    user: User,
}

impl Mounted {
    /// Opens the root of the filesystem. Blocks, and may hang with the filesystem.
    ///
    /// Somebody may have unmounted it: then the directory below would be taken for the filesystem.
    pub(crate) fn root(&self) -> Result<Root, Error> {
        let root = Root::open(&self.point)?;
        let stat = fstat(&root).map_err(PathError::at("examine", &self.point))?;
        let device = Device {
            major: rustix::fs::major(stat.st_dev),
            minor: rustix::fs::minor(stat.st_dev),
        };
        if device == self.device {
            Ok(root)
        } else {
            self.user.remember(None);
            Err(Error::MountLost(self.filesystem.clone()))
        }
    }
}

impl Mounts {
    pub(crate) fn new(
        base: PathBuf,
        mounter: Arc<dyn Mounter>,
        client: LocalClient,
        vocabulary: Vocabulary,
        call_time: Duration,
    ) -> Self {
        Self {
            base,
            mounter,
            client,
            vocabulary,
            mount_time: call_time.saturating_mul(MOUNT_TIME_IN_CALLS),
            slots: Mutex::default(),
        }
    }

    /// Makes sure that the filesystem is mounted with these options.
    ///
    /// Called twice: both get the same mount.
    pub(crate) async fn ensure(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        options: &Options,
        deadline: Deadline,
    ) -> Result<Mounted, Error> {
        let container = self.client.container(filesystem, deadline).await?;
        let mut options = options.clone();
        let mut directory = name::mount_point(&filesystem.name, &options.to_string());
        if let Some(LocalContainer { name, .. }) = &container {
            options.add(&format!("container_name={name}"), &self.vocabulary);
            directory = format!("{directory}-{}", name::plain(name));
        }
        // By its uid: organizations of one cluster may have filesystems of the same name.
        let of_filesystem = [filesystem.cluster(), filesystem.uid()].map(name::plain);
        let point = self.base.join(of_filesystem.join("-")).join(directory);
        if let Some(stuck) = self.stuck_at(&point) {
            return Err(stuck);
        }
        let user = self.enter(&point);
        let shared = self.within(deadline, &point, user.gate.read()).await?;
        let seen = match self.unchanged(&user).await {
            Some(device) => Some(device),
            None => self.look(&point, &filesystem.name).await?,
        };
        drop(shared);
        let device = match seen {
            Some(device) => {
                filesystem.check_may_mount().await?;
                device
            }
            None => self
                .mount_unless_there(filesystem, &options, &point, &user, deadline)
                .await
                .map_err(|error| explain(error, filesystem, container.as_ref()))?,
        };
        user.remember(Some(device));
        Ok(Mounted {
            point,
            device,
            filesystem: filesystem.name.clone(),
            user,
        })
    }

    /// What was mounted there last, if a mount is there that answers. Whether it is the same shows when it is opened. The
    /// table is long on a busy node, and changes with every pod: it is not read each time.
    async fn unchanged(&self, user: &User) -> Option<Device> {
        let device = self.slots.lock().get(&user.point)?.device?;
        let mounted = self.mounter.is_mounted(&user.point).await.ok()?;
        let alive = mounted && self.mounter.health(&user.point).await == Health::Alive;
        alive.then_some(device)
    }

    /// Mounts it, if nobody else has since it was looked at.
    async fn mount_unless_there(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        options: &Options,
        point: &Path,
        user: &User,
        deadline: Deadline,
    ) -> Result<Device, Error> {
        let gate = user.gate.clone().write_owned();
        let gate = self.within(deadline, point, gate).await?;
        if let Some(device) = self.look(point, &filesystem.name).await? {
            return Ok(device);
        }
        self.mount_in_task(filesystem, options, point, user, gate, deadline)
            .await?;
        let found = self.look(point, &filesystem.name).await?;
        found.ok_or_else(|| Error::MountLost(filesystem.name.clone()))
    }

    /// What is mounted there already. A mount whose client is gone for good is taken away.
    async fn look(&self, point: &Path, filesystem: &str) -> Result<Option<Device>, Error> {
        let view = self.mounter.look(point).await?;
        let Some(mount) = view.mount() else {
            return Ok(None);
        };
        if !is_wekafs(&mount) || mount.source() != filesystem {
            return Err(Error::ForeignMount {
                path: point.to_owned(),
                kind: mount.kind().to_string_lossy().into_owned(),
            });
        }
        match self.mounter.health(&view.point).await {
            Health::Alive => Ok(Some(mount.device())),
            Health::Hung => Err(Error::MountHung(point.to_owned())),
            Health::Corrupted(_) | Health::Missing => {
                ensure_unmounted(&*self.mounter, point, Unmount::Lazy).await?;
                Ok(None)
            }
        }
    }

    /// Mounts in a task of its own: a caller's deadline must not kill a mount half-way, and the next one joins it.
    async fn mount_in_task(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        options: &Options,
        point: &Path,
        user: &User,
        gate: tokio::sync::OwnedRwLockWriteGuard<()>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let token = match &filesystem.managed {
            None => None,
            Some(managed) => managed.api.mount_token(&managed.filesystem).await?,
        };
        let mount = FsMount {
            kind: KIND.to_owned(),
            source: filesystem.name.clone().into(),
            target: point.to_owned(),
            options: options.to_words(),
            timeout: self.mount_time,
        };
        let mounter = self.mounter.clone();
        let mounting = Mounting::begin(user.clone(), &filesystem.name);
        let task = tokio::spawn(async move {
            let place = mount.target.clone();
            blocking(move || create_directories(&place, POINT_MODE)).await?;
            match token {
                Some(token) => {
                    let secret = format!("token={}", token.expose_secret());
                    mounter.mount_with_secret(&mount, &secret).await?;
                }
                None => mounter.mount(&mount).await?,
            }
            drop((gate, mounting));
            Ok::<_, Error>(())
        });
        match on_machine(timeout(deadline.remaining(), task)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::MountLost(filesystem.name.clone())),
            Err(_) => Err(self.under_way(point).unwrap_or(Error::DeadlineExceeded)),
        }
    }

    /// Waits for the gate of a mount point, which is closed for long only where a mount or unmount hangs.
    async fn within<T>(
        &self,
        deadline: Deadline,
        point: &Path,
        gate: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let gate = on_machine(timeout(deadline.remaining(), gate)).await;
        let hung = || Error::MountHung(point.to_owned());
        gate.map_err(|_| self.under_way(point).unwrap_or_else(hung))
    }
}

/// A mount that is refused where it is not certain that this node is a client of the cluster.
fn explain(error: Error, filesystem: &WekaFilesystem, container: Option<&LocalContainer>) -> Error {
    match (error, container, &filesystem.managed) {
        (error @ Error::Mount(_), Some(container), Some(managed)) if container.is_unconfirmed => {
            Error::UnconfirmedContainer {
                cluster: managed.facts.name.clone(),
                container: container.name.clone(),
                source: Box::new(error),
            }
        }
        (error, ..) => error,
    }
}
