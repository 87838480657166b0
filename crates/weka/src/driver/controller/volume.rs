//! A volume that is to be changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inspect::hidden;
use crate::driver::filesystem::WekaFilesystem;
use crate::driver::volume::Existing;
use crate::driver::{Driver, Guard, existing_handle};
use crate::error::Error;
use crate::handle::Handle;
use crate::rest::Deadline;

/// A volume that is there, locked, on an array where its size may be set.
pub(super) struct Volume {
    pub(super) handle: Handle,
    pub(super) guard: Guard,
    pub(super) filesystem: WekaFilesystem,
    pub(super) existing: Existing,
}

impl Volume {
    pub(super) async fn open(
        driver: &Driver,
        id: &str,
        secrets: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let handle = existing_handle(id)?;
        let guard = Arc::new(driver.locks.lock(handle.as_str())?);
        let filesystem = driver
            .filesystem(secrets, handle.filesystem(), deadline)
            .await
            .map_err(|error| hidden(error, &handle))?;
        filesystem.check_may_write("set the quota of a directory")?;
        let existing = driver
            .required(&filesystem, &handle, Some(&guard), deadline)
            .await?;
        Ok(Self {
            handle,
            guard,
            filesystem,
            existing,
        })
    }

    /// Writes the size at its directory.
    pub(super) async fn write_size(
        &self,
        driver: &Driver,
        bytes: u64,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let (filesystem, guard) = (&self.filesystem, Some(&self.guard));
        driver
            .record(filesystem, &self.handle, bytes, guard, deadline)
            .await
    }
}
