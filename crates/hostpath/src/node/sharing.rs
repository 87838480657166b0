//! Devices of raw block volumes that other nodes of the same machine may use as well (`--shared-statedir`).

use stowage_host::blocking;

use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Key, NodeId};
use crate::state::{Image, Store};

impl Driver {
    /// Lets other nodes know that this one needs the devices of a volume.
    ///
    /// Called twice: they know already.
    pub(super) async fn keep_devices(&self, image: &Image) -> Result<(), Error> {
        if !self.config.shared {
            return Ok(());
        }
        let (store, node, key) = self.note_of(image);
        Ok(blocking(move || store.note_staged(&key, &node)).await?)
    }

    /// Lets other nodes know that this one is done with them.
    ///
    /// Called twice: they know already.
    pub(super) async fn leave_devices(&self, image: &Image) -> Result<(), Error> {
        if !self.config.shared {
            return Ok(());
        }
        let (store, node, key) = self.note_of(image);
        Ok(blocking(move || store.note_unstaged(&key, &node)).await?)
    }

    /// Whether another node needs them.
    pub(super) async fn others_need_devices(&self, image: &Image) -> Result<bool, Error> {
        if !self.config.shared {
            return Ok(false);
        }
        let (store, node, key) = self.note_of(image);
        Ok(blocking(move || store.staged_elsewhere(&key, &node)).await?)
    }

    fn note_of(&self, image: &Image) -> (Store, NodeId, Key) {
        (
            self.store.clone(),
            self.config.node.clone(),
            image.key().clone(),
        )
    }
}
