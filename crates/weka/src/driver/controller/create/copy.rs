//! A copy of a volume, or of a snapshot of one: a writable snapshot of the same filesystem, and in it the same directory.
//!
//! Owner and permissions are those of the source. A quota is, too, until the copy gets its own: so a copy is complete
//! when it is as large as it should be.

use super::{Creation, Source};
use crate::capacity::choose_copy;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::volume::{Existing, Recorded};
use crate::error::Error;
use crate::handle::Backing;
use crate::rest::wire::Snapshot;
use crate::snapshot_id::SnapshotId;
use crate::version::Capability;

/// What needs the API.
const WHAT: &str = "restored snapshots and clones";

/// What a copy is made from.
struct Original {
    /// The snapshot that holds it; none is the filesystem as it is.
    snapshot: Option<String>,
    bytes: Option<u64>,
}

impl Creation<'_> {
    pub(super) async fn copy(&self, source: &Source) -> Result<u64, Error> {
        self.check_copy(source)?;
        let filesystem = self
            .driver
            .filesystem(self.secrets, source.filesystem(), self.deadline);
        let mut filesystem = filesystem.await.map_err(|error| gone(error, source))?;
        let managed = filesystem.api_for(WHAT)?.clone();
        if !managed.facts.has(Capability::FilesystemVolumes) {
            let too_old = managed
                .facts
                .too_old("a restored snapshot or clone", "3.13");
            return Err(too_old.into());
        }
        let check = |filesystem: &WekaFilesystem| self.check(filesystem, "create a snapshot");
        filesystem.require(check).await?;
        if let Some(found) = self.find_snapshot(&managed).await? {
            let completed = self.complete_copy(&filesystem, &managed, &found, None);
            let completed = completed.await;
            let discard = self.discard_snapshot(&managed, &found);
            return self.settle(completed, false, discard).await;
        }
        let original = self.original(source, &filesystem, &managed).await?;
        let bytes = choose_copy(self.wanted.range, original.bytes)?;
        self.make_room(&mut filesystem, bytes).await?;
        let made = self.make_snapshot(&managed, original.snapshot.as_deref());
        let (made, is_new) = made.await?;
        let completed = self
            .complete_copy(&filesystem, &managed, &made, Some(bytes))
            .await;
        let discard = self.discard_snapshot(&managed, &made);
        self.settle(completed, is_new, discard).await
    }

    fn check_copy(&self, source: &Source) -> Result<(), Error> {
        let class = self.wanted.parameters.backing.filesystem();
        if let (Source::Volume(volume), Some(class)) = (source, class)
            && class != volume.filesystem()
        {
            return Err(Error::OtherFilesystem {
                source_filesystem: volume.filesystem().to_owned(),
                class: class.to_owned(),
            });
        }
        let (id, of_directory) = match source {
            Source::Snapshot(id) => (id.to_string(), id.is_of_directory()),
            Source::Volume(volume) => {
                let of_directory = volume.backing() == Backing::Directory;
                (volume.to_string(), of_directory)
            }
        };
        if of_directory && !self.driver.config.volumes.snapshots_of_directories {
            return Err(Error::MayNotCopyDirectories(id));
        }
        Ok(())
    }

    async fn original(
        &self,
        source: &Source,
        filesystem: &WekaFilesystem,
        managed: &Managed,
    ) -> Result<Original, Error> {
        match source {
            Source::Snapshot(id) => {
                let snapshot = of_id(managed, id).await?;
                let view = self
                    .driver
                    .existing(filesystem, &id.view(), None, self.deadline)
                    .await?;
                Ok(Original {
                    snapshot: Some(snapshot.uid),
                    bytes: view.and_then(|view| Some(view.size()?.bytes)),
                })
            }
            Source::Volume(volume) => {
                let snapshot = managed.snapshot_holding(volume).await?;
                let existing = self
                    .driver
                    .required(filesystem, volume, None, self.deadline)
                    .await?;
                Ok(Original {
                    snapshot: snapshot.map(|snapshot| snapshot.uid),
                    bytes: existing.size().map(|size| size.bytes),
                })
            }
        }
    }

    /// Gives a copy its size, unless it has it. One that an earlier call left is as large as it was made then.
    async fn complete_copy(
        &self,
        filesystem: &WekaFilesystem,
        managed: &Managed,
        snapshot: &Snapshot,
        bytes: Option<u64>,
    ) -> Result<u64, Error> {
        let existing = self.existing(filesystem).await?;
        let gone = || Error::SnapshotMissing(snapshot.name.clone());
        let existing = existing.ok_or_else(gone)?;
        let size = existing.size();
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => self.bytes_of_left(&existing)?,
        };
        let limits = self.limits(bytes);
        match &existing.recorded {
            Recorded::Quota(quota) => {
                let known = quota.limits();
                let resized = managed.resize_quota(existing.inode, known, limits);
                resized.await?;
            }
            Recorded::Attribute(_) | Recorded::Nowhere
                if size.is_some_and(|it| it.bytes == bytes) => {}
            Recorded::Attribute(_) | Recorded::Nowhere => {
                let (handle, guard) = (&self.wanted.handle, Some(self.guard));
                let enforced = filesystem.enforce(handle, existing.inode, limits).await?;
                if !enforced {
                    let driver = self.driver;
                    driver
                        .record(filesystem, handle, bytes, guard, self.deadline)
                        .await?;
                }
            }
        }
        Ok(bytes)
    }

    /// The size of a copy that an earlier call made, and may not have completed.
    fn bytes_of_left(&self, existing: &Existing) -> Result<u64, Error> {
        let range = self.wanted.range;
        match existing.size() {
            Some(size) if range.contains(size.bytes) => Ok(size.bytes),
            Some(size) if size.bytes > range.required => Err(Error::Incompatible {
                name: self.wanted.name.clone(),
                difference: format!("{} bytes", size.bytes),
            }),
            size => Ok(choose_copy(range, size.map(|size| size.bytes))?),
        }
    }
}

/// A filesystem that is gone took the source with it.
fn gone(error: Error, source: &Source) -> Error {
    match (error, source) {
        (Error::FilesystemMissing(_), Source::Snapshot(id)) => {
            Error::SnapshotMissing(id.to_string())
        }
        (Error::FilesystemMissing(_), Source::Volume(volume)) => {
            Error::VolumeMissing(volume.to_string())
        }
        (error, _) => error,
    }
}

/// The snapshot that an identifier names.
async fn of_id(managed: &Managed, id: &SnapshotId) -> Result<Snapshot, Error> {
    let missing = || Error::SnapshotMissing(id.to_string());
    let found = managed.snapshot_of(id).await?.ok_or_else(missing)?;
    if found.is_writable {
        return Err(Error::WritableSnapshot(found.name));
    }
    Ok(found)
}
