//! Copies of several volumes at one moment.
//!
//! Volumes that are mounted are frozen, all of them, and copied while none of them can be written: the moment is the
//! one at which the last of them has been frozen. What is not in use cannot change, for the caller holds its image, and
//! is copied outside that time. A raw block volume cannot be stopped, but the moment can be that of its own copy if
//! that takes no time, so there may be one.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stowage_host::blocking;
use stowage_host::copy::FileCopy;
use stowage_host::filesystem::{Frozen, freeze, sync};
use stowage_host::loopdev::LoopDevice;

use super::{Scratch, copy_idle, flush, is_shared};
use crate::device::is_mounted;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::Key;
use crate::state::{Image, Store, VolumeRecord};
use crate::usage::Access;

/// A copy to make. The caller holds both images.
pub(crate) struct Copy<'a> {
    pub(crate) from: &'a Image,
    pub(crate) record: &'a VolumeRecord,
    pub(crate) to: &'a Image,
}

/// How a volume is used at the moment.
enum Usage {
    Idle,
    Mounted(LoopDevice),
    LiveBlock(Vec<LoopDevice>),
}

/// A copy whose source must stand still.
struct Held {
    key: Key,
    point: PathBuf,
    files: (File, File),
}

impl Copy<'_> {
    fn open(&self) -> Result<(File, File), Error> {
        Ok((self.from.reopen()?, self.to.reopen()?))
    }
}

impl Driver {
    /// Copies volumes as they are at one moment, the same for all of them.
    ///
    /// Called twice: the second copies replace the first. If it fails, what was copied so far is worth nothing.
    pub(crate) async fn copy_together(&self, copies: &[Copy<'_>]) -> Result<(), Error> {
        let (mut idle, mut mounted, mut live) = (Vec::new(), Vec::new(), Vec::new());
        for copy in copies {
            match self.usage(copy).await? {
                Usage::Idle => idle.push(copy),
                Usage::Mounted(device) => mounted.push((copy, device)),
                Usage::LiveBlock(devices) => live.push((copy, devices)),
            }
        }
        if let [first, second, ..] = live.as_slice() {
            return Err(Error::LiveBlocks {
                first: first.0.record.id.clone(),
                second: second.0.record.id.clone(),
            });
        }
        let mut scratches = Vec::new();
        let done = self.copy_used(&mounted, live.pop(), &mut scratches).await;
        // Whatever became of the copies, the extra mounts must go: they would keep the volumes in use.
        let mut unmounted = Ok(());
        for scratch in scratches {
            unmounted = unmounted.and(scratch.unmount(&self.host).await);
        }
        done?;
        unmounted?;
        for copy in idle {
            copy_idle(copy.from, copy.to).await?;
        }
        Ok(())
    }

    async fn usage(&self, copy: &Copy<'_>) -> Result<Usage, Error> {
        let mut devices = self.host.devices(copy.from).await?;
        if devices.is_empty() {
            return Ok(Usage::Idle);
        }
        match copy.record.access {
            Access::Block => Ok(Usage::LiveBlock(devices)),
            Access::Filesystem if is_mounted(&devices[0]).await? => {
                Ok(Usage::Mounted(devices.swap_remove(0)))
            }
            Access::Filesystem => {
                flush(&devices).await?;
                Ok(Usage::Idle)
            }
        }
    }

    async fn copy_used(
        &self,
        mounted: &[(&Copy<'_>, LoopDevice)],
        live: Option<(&Copy<'_>, Vec<LoopDevice>)>,
        scratches: &mut Vec<Scratch>,
    ) -> Result<(), Error> {
        let mut held = Vec::new();
        for (copy, device) in mounted {
            let kind = copy.record.filesystem.name();
            let scratch = Scratch::mount(&self.host, &self.store, copy.from, device, kind).await?;
            held.push(Held {
                key: copy.from.key().clone(),
                point: scratch.point.clone(),
                files: copy.open()?,
            });
            scratches.push(scratch);
        }
        let block = match live {
            Some((copy, devices)) => {
                flush(&devices).await?;
                Some((copy.record.id.clone(), copy.open()?))
            }
            None => None,
        };
        let (store, limit) = (self.store.clone(), self.config.max_group_freeze);
        // In one piece on one thread: nothing can stop it between freeze and thaw but the end of the process.
        blocking(move || {
            let stopped = stop_all(&store, &held, limit)?;
            let copied = copy_stopped(held, block, &stopped);
            stopped.resume(&store)?;
            // What shares blocks is written out when nobody waits for it any more.
            for mut shared in copied? {
                shared.step()?;
            }
            Ok(())
        })
        .await
    }
}

/// Filesystems that are frozen until this is dropped, and since when.
struct Stopped {
    frozen: Vec<(Key, Frozen)>,
    since: Instant,
    limit: Duration,
}

impl Stopped {
    fn check(&self) -> Result<(), Error> {
        if self.since.elapsed() > self.limit {
            return Err(Error::FrozenTooLong { limit: self.limit });
        }
        Ok(())
    }

    /// Lets all of them go on, and returns whether that failed for one.
    fn resume(mut self, store: &Store) -> Result<(), Error> {
        let mut resumed = Ok(());
        for (key, frozen) in self.frozen.drain(..) {
            let thawed = frozen.thaw().map_err(Error::from);
            resumed = resumed.and(thawed.and_then(|()| Ok(store.note_thaw(&key)?)));
        }
        resumed
    }
}

/// Freezes all of them, or none.
fn stop_all(store: &Store, held: &[Held], limit: Duration) -> Result<Stopped, Error> {
    // So that there is little left to write out when the first one stops.
    for volume in held {
        sync(&volume.point)?;
    }
    let mut stopped = Stopped {
        frozen: Vec::new(),
        since: Instant::now(),
        limit,
    };
    for volume in held {
        let frozen = store
            .note_freeze(&volume.key)
            .map_err(Error::from)
            .and_then(|()| stopped.check())
            .and_then(|()| Ok(freeze(&volume.point)?));
        match frozen {
            Ok(frozen) => stopped.frozen.push((volume.key.clone(), frozen)),
            Err(error) => {
                // A note too many does no harm.
                let _ = store.note_thaw(&volume.key);
                stopped.resume(store)?;
                return Err(error);
            }
        }
    }
    Ok(stopped)
}

/// Copies everything; what comes back only needs to be written out.
fn copy_stopped(
    held: Vec<Held>,
    block: Option<(String, (File, File))>,
    stopped: &Stopped,
) -> Result<Vec<FileCopy>, Error> {
    let mut shared = Vec::new();
    if let Some((id, (from, to))) = block {
        let copy = FileCopy::start(from, to)?;
        if !is_shared(&copy) {
            return Err(Error::LiveBlock { id });
        }
        shared.push(copy);
    }
    for Held { files, .. } in held {
        let mut copy = FileCopy::start(files.0, files.1)?;
        if is_shared(&copy) {
            shared.push(copy);
            continue;
        }
        while copy.step()?.is_none() {
            stopped.check()?;
        }
    }
    Ok(shared)
}
