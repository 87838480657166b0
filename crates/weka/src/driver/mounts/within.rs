//! Work in a mounted filesystem.

use std::sync::Arc;

use stowage_host::beneath::Root;

use super::Mounts;
use crate::driver::filesystem::WekaFilesystem;
use crate::error::Error;
use crate::options::Options;
use crate::rest::Deadline;

impl Mounts {
    /// Does something in a filesystem, on a thread that can be left. It stays mounted until the work has ended, also if the
    /// caller gives up before.
    pub(crate) async fn within<T, W>(
        self: &Arc<Self>,
        filesystem: &WekaFilesystem,
        options: &Options,
        deadline: Deadline,
        work: W,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&Root) -> Result<T, Error> + Send + 'static,
    {
        let mounted = self.ensure(filesystem, options, deadline).await?;
        let key = format!("{}/{}", filesystem.cluster(), filesystem.uid());
        let work = move || work(&mounted.root()?);
        let workers = &self.client.workers;
        let done = workers.run(&key, deadline.remaining(), work).await;
        done.map_err(Error::hung(&filesystem.name))?
    }
}
