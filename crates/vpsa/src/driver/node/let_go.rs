//! Disks go from this node: written out, taken away from the kernel, sessions ended.

use std::path::Path;

use stowage_api::causes::chain;
use stowage_host::blocking;

use super::NodeServices;
use super::attach::held_unseen;
use super::disk::Disk;
use crate::driver::error::Error;

/// A disk whose volume this node has no use for any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going<'a> {
    /// The volume.
    pub volume: &'a str,
    /// The number of its disk.
    pub lun: u64,
}

impl NodeServices {
    /// Takes the disk of a volume away from the kernel, if one is `going`, and ends the sessions with its target unless another
    /// disk of it is in use. Called twice: there are none.
    pub(super) async fn let_go(&self, target: &str, going: Option<Going<'_>>) -> Result<(), Error> {
        let _changing = self.initiator.targets.change(target).await;
        // Looked at only now: another call may have mounted a disk while this one waited.
        let preparing = self.initiator.targets.preparing(target);
        let disks = self.disks(Some(target)).await?;
        let going = going.filter(|going| !preparing.contains(&going.lun));
        if let Some(Going { volume, lun }) = going
            && let Some(disk) = disks.iter().find(|disk| disk.lun == lun)
        {
            self.places.check_linked(disk)?;
            self.forget_own(volume, disk).await?;
        }
        if !preparing.is_empty() {
            return Ok(());
        }
        let disks = self.disks(Some(target)).await?;
        for disk in &disks {
            if self.may_be_used(disk).await {
                return Ok(());
            }
        }
        // Others may be as little known: to end a session under one that is mounted loses what is written.
        for disk in &disks {
            self.places.check_linked(disk)?;
        }
        for disk in &disks {
            self.write_out_idle(disk).await?;
            self.forget(disk).await?;
        }
        self.initiator.log_out(target).await?;
        Ok(())
    }

    /// Takes the disk of a volume that was unmounted away from the kernel, unless somebody else has it mounted. What only the
    /// kernel sees is an error: the array would detach the disk while it is written.
    async fn forget_own(&self, volume: &str, disk: &Disk) -> Result<(), Error> {
        if disk.is_used(&*self.mounter.table().await?) {
            return Ok(());
        }
        if self.is_claimed(disk).await? {
            return Err(held_unseen(disk));
        }
        self.write_out_own(volume, disk).await?;
        self.forget(disk).await
    }

    /// Whether somebody uses a disk, or may: of one that does not answer nobody can tell.
    async fn may_be_used(&self, disk: &Disk) -> bool {
        self.is_used(disk).await.unwrap_or_else(|error| {
            let (target, lun, error) = (&disk.target, disk.lun, chain(&error));
            tracing::warn!(
                target,
                lun,
                error,
                "A session stays, its disk may be in use."
            );
            true
        })
    }

    /// Takes a disk that nobody uses away from the kernel: first what stands on its paths. Called twice: it is gone.
    pub(super) async fn forget(&self, disk: &Disk) -> Result<(), Error> {
        if let Some(map) = &disk.map {
            self.multipath.flush(&map.name).await?;
        }
        for path in &disk.paths {
            forget(path.name()).await;
        }
        Ok(())
    }

    /// Says once what will be lacking as soon as a disk is used here.
    pub async fn look_for_links(&self) {
        let links = self.places.links.clone();
        let found = blocking(move || std::fs::read_dir(links).map(drop)).await;
        if let Err(error) = found {
            tracing::warn!(
                links = %self.places.links.display(),
                %error,
                "There are no links to disks. That is normal on a node that has none; if it is to have disks of VPSAs, udev has to run \
                 there, and the pod of the driver needs the host's /dev."
            );
        }
    }

    /// Ends sessions that nobody uses: this driver, or Zadara's before it, may have died before it ended them.
    pub async fn tidy(&self) {
        let targets = match self.initiator.targets().await {
            Ok(targets) => targets,
            // A node without iSCSI has none.
            Err(error) => {
                tracing::debug!(error = chain(&error), "No sessions are looked for.");
                return;
            }
        };
        for target in targets {
            if let Err(error) = self.let_go(&target, None).await {
                tracing::warn!(error = chain(&error), target, "A session may be left.");
            }
        }
    }
}

/// Takes a path away from the kernel; one that is not of the SCSI layer has no switch for it.
async fn forget(name: &str) {
    let switch = Path::new("/sys/block").join(name).join("device/delete");
    blocking(move || {
        if switch.exists()
            && let Err(error) = std::fs::write(&switch, "1")
        {
            tracing::warn!(switch = %switch.display(), %error, "A disk stays known to the kernel.");
        }
    })
    .await;
}
