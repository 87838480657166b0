//! `DeleteVolume`.

use std::collections::BTreeMap;
use std::sync::Arc;

use stowage_csi::proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use stowage_host::beneath::Root;

use super::inspect::hidden;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::{Driver, Guard, directory};
use crate::error::Error;
use crate::handle::{Backing, Handle, Origin};
use crate::name;
use crate::rest::Deadline;

/// A volume that is being deleted, and the right to do so.
struct Deletion<'a> {
    driver: &'a Arc<Driver>,
    secrets: &'a BTreeMap<String, String>,
    handle: &'a Handle,
    guard: Guard,
    deadline: Deadline,
}

pub(super) async fn delete(
    driver: &Arc<Driver>,
    request: DeleteVolumeRequest,
    deadline: Deadline,
) -> Result<DeleteVolumeResponse, Error> {
    // Nobody ever made a volume with such an id.
    let Ok(handle) = Handle::parse(&request.volume_id) else {
        return Ok(DeleteVolumeResponse {});
    };
    if handle.origin(&driver.config.dynamic_paths) != Origin::Dynamic {
        return Err(Error::NotOurs(request.volume_id));
    }
    let deletion = Deletion {
        driver,
        secrets: &request.secrets,
        handle: &handle,
        guard: Arc::new(driver.lock_to_delete(handle.as_str())?),
        deadline,
    };
    match handle.backing() {
        Backing::Directory => deletion.directory().await?,
        Backing::Filesystem => deletion.filesystem().await?,
        Backing::Snapshot | Backing::Hybrid => deletion.snapshot().await?,
    }
    Ok(DeleteVolumeResponse {})
}

impl Deletion<'_> {
    /// Moves the directory into the trash, which is quick; its data is removed in the background.
    async fn directory(&self) -> Result<(), Error> {
        let filesystem = self.find_filesystem().await?;
        let path = self.handle.path();
        let place = path.clone();
        let work = move |root: &Root| directory::move_to_trash(root, &place);
        let moved = self
            .driver
            .within(&filesystem, Some(&self.guard), self.deadline, work)
            .await?;
        if moved {
            self.driver.empty_trash(&filesystem);
        } else {
            filesystem.confirm_missing(&path).await?;
            self.driver.sweep_once(&filesystem);
        }
        Ok(())
    }

    /// Deletes the filesystem, unless somebody has snapshots of it. Nothing tells one that was deleted from one that the
    /// secret does not show.
    async fn filesystem(&self) -> Result<(), Error> {
        let what = "volumes that are filesystems";
        let api = self.driver.api(self.secrets, what, self.deadline)?;
        let facts = api.facts().await?;
        facts.check_may_write("delete a filesystem")?;
        let wanted = self.handle.filesystem();
        let awaits = self.driver.config.volumes.await_deletion;
        let Some(found) = api.filesystem(wanted).await? else {
            if awaits {
                // An earlier call may have deleted it, and not waited to the end.
                api.await_no_filesystem_named(wanted).await?;
            }
            return Ok(());
        };
        let seed = name::of_seed(&found.name);
        let snapshots = api.snapshots_of(&found).await?.into_iter();
        let others = snapshots.filter(|snapshot| snapshot.access_point != seed);
        let names: Vec<_> = others.map(|snapshot| snapshot.name).collect();
        if !names.is_empty() {
            return Err(Error::HasSnapshots {
                filesystem: found.name,
                names,
            });
        }
        let filesystem = WekaFilesystem {
            name: found.name.clone(),
            managed: Some(Managed {
                api: api.clone(),
                facts,
                filesystem: found.clone(),
            }),
        };
        self.driver.remove_filesystem(&filesystem).await?;
        if awaits {
            api.await_no_filesystem(&found).await?;
        }
        Ok(())
    }

    async fn snapshot(&self) -> Result<(), Error> {
        let filesystem = self.find_filesystem().await?;
        let managed = filesystem.api_for("volumes that are snapshots")?;
        managed.facts.check_may_write("delete a snapshot")?;
        let access_point = self.handle.access_point().unwrap_or_default();
        let found = managed.api.snapshot(&managed.filesystem, access_point);
        match found.await? {
            None => self.driver.await_deleted(managed, access_point).await,
            // It is the snapshot of a volume, or of somebody else.
            Some(found) if !found.is_volume() => Err(Error::NotOurs(self.handle.to_string())),
            Some(found) => self.driver.delete_snapshot(managed, &found).await,
        }
    }

    async fn find_filesystem(&self) -> Result<WekaFilesystem, Error> {
        let name = self.handle.filesystem();
        let found = self.driver.filesystem(self.secrets, name, self.deadline);
        found.await.map_err(|error| hidden(error, self.handle))
    }
}
