//! Filesystems mounted for the driver's own use, one mount per cluster, filesystem and options: by the Weka client, or by NFS.
//!
//! What is mounted is known from the kernel's table: mounts that an earlier process left are used on. This process only
//! counts its users, so that what nobody uses any more is unmounted after a while. A volume that was published from such
//! a mount does not need it: a bind keeps its filesystem.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::fstat;
use secrecy::ExposeSecret;
use stowage_api::backoff::Backoff;
use stowage_csi::waiting::on_machine;
use stowage_host::beneath::Root;
use stowage_host::mount::{FsMount, MountError, Mounter, Unmount, ensure_unmounted};
use stowage_host::mountinfo::{Device, Mount};
use stowage_host::stat::Health;
use stowage_host::{PathError, blocking, create_directories};
use tokio::time::{sleep, timeout};

use super::client::LocalClient;
use super::filesystem::WekaFilesystem;
use super::nfs::NfsAccess;
use crate::error::{Error, chain};
use crate::name;
use crate::options::{Options, Vocabulary};
use crate::rest::Deadline;
use crate::selinux::Kernel;
use plan::Plan;
pub(crate) use shown::{Shown, is_weka};
use slots::{Mounting, Slot, User};

mod hide;
mod idle;
mod plan;
mod shown;
mod slots;
mod within;

/// Directories to mount on.
const POINT_MODE: u32 = 0o750;

/// How many times as long as a call a mount may take before it is killed; it goes on when its first caller has given up.
const MOUNT_TIME_IN_CALLS: u32 = 2;

/// How long apart a mount by NFS is tried again whose permission is new, and how often one that is not.
const NFS_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(2),
};
const NFS_ATTEMPTS: u32 = 3;

/// All mounts of the process.
pub(crate) struct Mounts {
    base: PathBuf,
    mounter: Arc<dyn Mounter>,
    client: LocalClient,
    pub(crate) nfs: NfsAccess,
    vocabulary: Vocabulary,
    /// What the kernel says about SELinux, where mounts are labelled for it.
    selinux: Option<Kernel>,
    /// The address of the cluster, for a machine whose client starts with the mount.
    backend: Option<String>,
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
        nfs: NfsAccess,
        vocabulary: Vocabulary,
        call_time: Duration,
    ) -> Self {
        Self {
            base,
            mounter,
            client,
            nfs,
            vocabulary,
            selinux: None,
            backend: None,
            mount_time: call_time.saturating_mul(MOUNT_TIME_IN_CALLS),
            slots: Mutex::default(),
        }
    }

    /// Makes sure that the filesystem is mounted with these options, in the best way that works.
    ///
    /// Called twice: both get the same mount.
    pub(crate) async fn ensure(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        options: &Options,
        deadline: Deadline,
    ) -> Result<Mounted, Error> {
        let mut plans = self.plans(filesystem, options, deadline).await?.into_iter();
        let mut failure = Error::MountLost(filesystem.name.clone());
        while let Some(plan) = plans.next() {
            let time = plan.time(deadline, plans.len());
            let is_skipped = |error: &Error| plans.len() > 0 && plan.is_silence(error);
            failure = match self.ensure_plan(filesystem, &plan, time).await {
                Err(error) if error.is_of_mount() || is_skipped(&error) => error,
                outcome => return outcome,
            };
            if let Some(server) = plan.server {
                self.nfs.avoid(server, filesystem);
            }
            if plans.len() > 0 {
                let error = chain(&failure);
                tracing::warn!(
                    error,
                    source = plan.source,
                    "Cannot mount; trying another way."
                );
            }
        }
        Err(failure)
    }

    async fn ensure_plan(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        plan: &Plan,
        deadline: Deadline,
    ) -> Result<Mounted, Error> {
        let point = &plan.point;
        if let Some(stuck) = self.stuck_at(point) {
            return Err(stuck);
        }
        let user = self.enter(point);
        let shared = self.await_gate(deadline, point, user.gate.read()).await?;
        let seen = match self.unchanged(&user).await {
            Some(device) => Some(device),
            None => self.look(plan).await?,
        };
        drop(shared);
        let device = match seen {
            Some(device) => {
                filesystem.check_may_mount().await?;
                device
            }
            None => self
                .mount_unless_there(filesystem, plan, &user, deadline)
                .await
                .map_err(|error| self.explain(error, filesystem, plan))?,
        };
        user.remember(Some(device));
        Ok(Mounted {
            point: point.clone(),
            device,
            filesystem: filesystem.name.clone(),
            user,
        })
    }

    /// Whether a mount is one of the driver's own, through which it reaches a whole filesystem. Nobody is published there.
    pub(crate) fn is_own(&self, mount: &Mount<'_>) -> bool {
        mount.point().starts_with(&self.base)
    }

    /// Where the mounts of a filesystem are. By its uid: organizations of one cluster may have filesystems of the same
    /// name.
    fn place(&self, filesystem: &WekaFilesystem) -> PathBuf {
        let of_filesystem = [filesystem.cluster(), filesystem.uid()].map(name::plain);
        self.base.join(of_filesystem.join("-"))
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
        plan: &Plan,
        user: &User,
        deadline: Deadline,
    ) -> Result<Device, Error> {
        let gate = user.gate.clone().write_owned();
        let gate = self.await_gate(deadline, &plan.point, gate).await?;
        if let Some(device) = self.look(plan).await? {
            return Ok(device);
        }
        self.mount_in_task(filesystem, plan, user, gate, deadline)
            .await?;
        let found = self.look(plan).await?;
        found.ok_or_else(|| Error::MountLost(filesystem.name.clone()))
    }

    /// What is mounted there already. A mount whose client is gone for good is taken away.
    async fn look(&self, plan: &Plan) -> Result<Option<Device>, Error> {
        let point = &plan.point;
        let view = self.mounter.look(point).await?;
        let Some(mount) = view.mount() else {
            return Ok(None);
        };
        if !is_weka(&mount) || !plan.is_shown_by(&mount) {
            return Err(Error::ForeignMount {
                path: point.clone(),
                kind: mount.kind().to_string_lossy().into_owned(),
            });
        }
        match self.mounter.health(&view.point).await {
            Health::Alive => Ok(Some(mount.device())),
            Health::Hung => Err(Error::MountHung(point.clone())),
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
        plan: &Plan,
        user: &User,
        gate: tokio::sync::OwnedRwLockWriteGuard<()>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let token = match &filesystem.managed {
            Some(managed) if !plan.is_by_nfs() || managed.filesystem.auth_required => {
                managed.api.mount_token(&managed.filesystem).await?
            }
            _ => None,
        };
        let token = token.filter(|_| !plan.is_by_nfs());
        let mount = FsMount {
            kind: plan.kind.to_owned(),
            source: plan.source.clone().into(),
            target: plan.point.clone(),
            options: plan.options.to_words(),
            timeout: self.mount_time,
        };
        let (mounter, retries) = (self.mounter.clone(), plan.retries());
        let mounting = Mounting::begin(user.clone(), &filesystem.name);
        let task = tokio::spawn(async move {
            let place = mount.target.clone();
            blocking(move || create_directories(&place, POINT_MODE)).await?;
            let secret = token.map(|token| format!("token={}", token.expose_secret()));
            mount_patiently(&*mounter, &mount, secret.as_deref(), retries).await?;
            drop((gate, mounting));
            Ok::<_, Error>(())
        });
        match on_machine(timeout(deadline.remaining(), task)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::MountLost(filesystem.name.clone())),
            Err(_) => Err(self
                .under_way(&plan.point)
                .unwrap_or(Error::DeadlineExceeded)),
        }
    }

    /// Waits for the gate of a mount point, which is closed for long only where a mount or unmount hangs.
    async fn await_gate<T>(
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

/// How often a mount is tried.
#[derive(Debug, Clone, Copy)]
struct Retries {
    attempts: u32,
    /// As often as it takes, until then.
    until: Option<Instant>,
}

/// Mounts, and tries again where the other side may need a moment.
async fn mount_patiently(
    mounter: &dyn Mounter,
    mount: &FsMount,
    secret: Option<&str>,
    retries: Retries,
) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let tried = match secret {
            Some(secret) => mounter.mount_with_secret(mount, secret).await,
            None => mounter.mount(mount).await,
        };
        let is_hopeful =
            attempt < retries.attempts || retries.until.is_some_and(|until| Instant::now() < until);
        match tried {
            Err(MountError::Helper { .. }) if is_hopeful => {
                sleep(NFS_PAUSES.after(attempt)).await;
            }
            tried => return Ok(tried?),
        }
    }
}
