//! Copies of images, also of volumes that are in use.
//!
//! A volume in use is copied in one moment where the state directory's filesystem can share blocks (reflink), after
//! everything was written out. Elsewhere its filesystem is frozen for as long as the copy takes. To reach the
//! filesystem from a process that does not see the pods' mounts, its device is mounted once more, at a scratch
//! directory: that is the same filesystem, and freezing it there freezes it everywhere.

use std::fs::File;
use std::path::{Path, PathBuf};

use stowage_host::copy::{CopyError, FileCopy, copy_file};
use stowage_host::filesystem::{Content, FsKind, freeze, probe, renew_identity, sync, thaw};
use stowage_host::loopdev::LoopDevice;
use stowage_host::mount::{FsMount, MountError, Unmount, ensure_unmounted};
use stowage_host::{Outcome, PathError, blocking};

use crate::device::{self, is_mounted};
use crate::driver::{Driver, Host};
use crate::error::{Error, chain};
use crate::id::Key;
use crate::state::{Area, Image, StateError, Store, VolumeRecord};
use crate::usage::Access;

mod together;

pub(crate) use together::Copy;

/// The mount itself is quick: the filesystem is mounted already.
const MOUNT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Lets `mount(8)` find out, where the record that knows may be damaged.
const ANY_KIND: &str = "auto";

impl Driver {
    /// Copies a volume as it is at one moment. The caller holds both images.
    ///
    /// Called twice: the second copy replaces the first.
    pub(crate) async fn copy_volume(
        &self,
        from: &Image,
        record: &VolumeRecord,
        to: &Image,
    ) -> Result<(), Error> {
        let devices = self.host.devices(from).await?;
        let Some(device) = devices.first() else {
            return copy_idle(from, to).await;
        };
        match record.access {
            Access::Block => copy_live_block(from, to, &devices, record).await,
            Access::Filesystem if is_mounted(device).await? => {
                self.copy_mounted(from, to, device, record.filesystem).await
            }
            Access::Filesystem => {
                flush(&devices).await?;
                copy_idle(from, to).await
            }
        }
    }

    async fn copy_mounted(
        &self,
        from: &Image,
        to: &Image,
        device: &LoopDevice,
        kind: FsKind,
    ) -> Result<(), Error> {
        let scratch = Scratch::mount(&self.host, &self.store, from, device, kind.name()).await?;
        let copied = copy_frozen(&self.store, from, to, &scratch.point).await;
        // Whatever became of the copy, the extra mount must go: it would keep the volume in use.
        let unmounted = scratch.unmount(&self.host).await;
        copied?;
        unmounted
    }

    /// Gives the copy of a filesystem a new identity, if its kind cannot live beside its twin.
    ///
    /// Called twice: it gets another one. If it fails, the copy is to be made again.
    pub(crate) async fn renew_copy(&self, image: &Image) -> Result<(), Error> {
        // A regular file can be examined as well as a device, and most copies need no device.
        let kind = match probe(&*self.host.exec, image.path()).await? {
            Content::Filesystem { kind, .. } if kind == FsKind::Xfs.name() => FsKind::Xfs,
            Content::Filesystem { kind, .. } if kind == FsKind::Btrfs.name() => FsKind::Btrfs,
            _ => return Ok(()),
        };
        let scratch = self.store.scratch(image.key())?;
        let device = self.host.attach(image, device::FILESYSTEM).await?;
        let (exec, mounter) = (&*self.host.exec, &*self.host.mounter);
        let renewed = renew_identity(exec, mounter, device.path(), kind, &scratch).await;
        let removed = Scratch { point: scratch }.unmount(&self.host).await;
        flush(&[device]).await?;
        renewed?;
        removed
    }

    /// Thaws what a process that died left frozen, and unmounts what it left mounted. Takes only what it can lock.
    ///
    /// Called twice: there is nothing left to thaw.
    pub(crate) async fn thaw_all(&self) -> Result<(), StateError> {
        let noted = self.store.frozen()?;
        for key in noted.iter().chain(&self.store.scratches()?) {
            let tidied = match self.store.lock(Area::Volumes, key) {
                // Its owner lives and will thaw it.
                Err(StateError::Locked { .. }) => continue,
                Ok(image) => self.tidy(key, image).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = tidied {
                // One volume's trouble is not everybody's. It is tried again at the next start.
                let error = chain(&error);
                tracing::error!(%key, error, "A filesystem may be frozen: thaw it with `fsfreeze -u`.");
            }
        }
        Ok(())
    }

    async fn tidy(&self, key: &Key, image: Option<Image>) -> Result<(), Error> {
        if let Some(image) = image {
            self.thaw(&image).await?;
        }
        self.store.note_thaw(key)?;
        let point = self.store.scratch(key)?;
        Scratch { point }.unmount(&self.host).await
    }

    async fn thaw(&self, image: &Image) -> Result<(), Error> {
        for device in self.host.devices(image).await? {
            if !is_mounted(&device).await? {
                continue;
            }
            let scratch = Scratch::mount(&self.host, &self.store, image, &device, ANY_KIND).await?;
            let point = scratch.point.clone();
            let thawed = blocking(move || thaw(&point)).await;
            scratch.unmount(&self.host).await?;
            if thawed? == Outcome::Done {
                tracing::warn!(image = %image.path().display(), "Thawed a filesystem that a driver left frozen when it died.");
            }
        }
        Ok(())
    }
}

/// Copies an image that nobody can be writing to: one of a snapshot, or of a volume that is locked and not in use.
pub(crate) async fn copy_idle(from: &Image, to: &Image) -> Result<(), Error> {
    copy_file(from.reopen()?, to.reopen()?, |_| {}).await?;
    Ok(())
}

/// What was written to a device of ours but is still in its cache goes to the image.
pub(crate) async fn flush(devices: &[LoopDevice]) -> Result<(), Error> {
    for device in devices {
        let path = device.path().to_owned();
        let synced = blocking(move || File::open(&path).and_then(|node| node.sync_all()));
        let failed = PathError::at("sync", device.path());
        synced.await.map_err(failed)?;
    }
    Ok(())
}

async fn copy_live_block(
    from: &Image,
    to: &Image,
    devices: &[LoopDevice],
    record: &VolumeRecord,
) -> Result<(), Error> {
    flush(devices).await?;
    let (from, to) = (from.reopen()?, to.reopen()?);
    let copied = blocking(move || reflink(from, to)).await?;
    if copied {
        return Ok(());
    }
    Err(Error::LiveBlock {
        id: record.id.clone(),
    })
}

/// Copies the image of the filesystem that is mounted at `point`.
async fn copy_frozen(store: &Store, from: &Image, to: &Image, point: &Path) -> Result<(), Error> {
    let (store, key, point) = (store.clone(), from.key().clone(), point.to_owned());
    let (source, target) = (from.reopen()?, to.reopen()?);
    let (source_again, target_again) = (from.reopen()?, to.reopen()?);
    // In one piece on one thread: nothing can stop it between freeze and thaw but the end of the process.
    blocking(move || {
        sync(&point)?;
        if reflink(source, target)? {
            return Ok(());
        }
        store.note_freeze(&key)?;
        let frozen = freeze(&point).inspect_err(|_| {
            // A note too many does no harm.
            let _ = store.note_thaw(&key);
        })?;
        let copied = copy_all(source_again, target_again);
        frozen.thaw()?;
        store.note_thaw(&key)?;
        Ok(copied?)
    })
    .await
}

/// Whether the whole file could be shared; nothing was copied if not.
fn reflink(from: File, to: File) -> Result<bool, CopyError> {
    let mut copy = FileCopy::start(from, to)?;
    if !is_shared(&copy) {
        return Ok(false);
    }
    copy.step()?;
    Ok(true)
}

/// Whether a copy that was just started has everything already.
fn is_shared(copy: &FileCopy) -> bool {
    let progress = copy.progress();
    progress.done == progress.total
}

fn copy_all(from: File, to: File) -> Result<(), CopyError> {
    let mut copy = FileCopy::start(from, to)?;
    while copy.step()?.is_none() {}
    Ok(())
}

/// One more mount of a filesystem, for a moment.
struct Scratch {
    point: PathBuf,
}

impl Scratch {
    async fn mount(
        host: &Host,
        store: &Store,
        image: &Image,
        device: &LoopDevice,
        kind: &str,
    ) -> Result<Self, Error> {
        let point = store.scratch(image.key())?;
        // Left by a process that died.
        ensure_unmounted(&*host.mounter, &point, Unmount::Normal).await?;
        let scratch = Self { point };
        // The kernel wants the same access as the first mount has, which may be out of our sight.
        let mut refusal = None;
        for access in ["rw", "ro"] {
            match scratch.try_mount(host, device, kind, access).await {
                Ok(()) => return Ok(scratch),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        scratch.unmount(host).await?;
        Err(refusal.map_or(Error::VolumeMissing(image.key().to_string()), Error::from))
    }

    async fn try_mount(
        &self,
        host: &Host,
        device: &LoopDevice,
        kind: &str,
        access: &str,
    ) -> Result<(), MountError> {
        let mount = FsMount {
            kind: kind.to_owned(),
            source: device.path().into(),
            target: self.point.clone(),
            options: vec![access.to_owned()],
            timeout: MOUNT_TIMEOUT,
        };
        host.mounter.mount(&mount).await
    }

    async fn unmount(self, host: &Host) -> Result<(), Error> {
        ensure_unmounted(&*host.mounter, &self.point, Unmount::Normal).await?;
        if let Err(error) = std::fs::remove_dir(&self.point) {
            let error = chain(&error);
            tracing::warn!(point = %self.point.display(), error, "Cannot remove a scratch directory.");
        }
        Ok(())
    }
}
