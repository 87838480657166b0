//! What all services share: the flags, the state directory, the host and the locks; and how a call finds its volume.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::locks::VolumeLocks;
use stowage_csi::waiting::of_this_call;
use stowage_host::blocking;
use stowage_host::exec::Exec;
use stowage_host::flush::Flushes;
use stowage_host::loopdev::Loops;
use stowage_host::mount::Mounter;
use stowage_host::stat::Stats;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tonic::{Response, Status};
use tracing::Instrument;

use crate::args::Config;
use crate::error::{Error, chain};
use crate::id::{Id, Key, Kind};
use crate::ledger::Ledger;
use crate::state::{Area, Image, Record, StateError, Store, VolumeRecord};

/// The seams to the machine.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) exec: Arc<dyn Exec>,
    pub(crate) mounter: Arc<dyn Mounter>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) loops: Loops,
    pub(crate) flushes: Flushes,
}

/// One process of the driver.
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) store: Store,
    /// What is to be said of every volume, because its directory is not safe.
    pub(crate) danger: Option<String>,
    pub(crate) host: Host,
    pub(crate) locks: VolumeLocks,
    pub(crate) ledger: Ledger,
    /// What is being worked on, whether or not its caller still waits.
    pub(crate) tasks: TaskTracker,
}

impl Driver {
    /// The id of something this process makes.
    pub(crate) fn new_id(&self, kind: Kind, name: &str) -> Id {
        Id {
            kind,
            key: Key::of_name(name),
            node: self.config.node.clone(),
        }
    }

    /// An id that this node is responsible for; none if no such driver as this one ever gave it out.
    pub(crate) fn local(&self, kind: Kind, text: &str) -> Result<Option<Id>, Error> {
        let Some(id) = Id::parse(kind, text) else {
            return Ok(None);
        };
        if id.node != self.config.node && !self.config.shared {
            return Err(Error::OtherNode {
                id: text.to_owned(),
                node: id.node,
                here: self.config.node.clone(),
            });
        }
        Ok(Some(id))
    }

    /// The id of a volume on this node.
    pub(crate) fn volume_id(&self, text: &str) -> Result<Id, Error> {
        self.local(Kind::Volume, text)?
            .ok_or_else(|| Error::VolumeMissing(text.to_owned()))
    }

    /// What is known of a volume, without a lock: enough for calls that change nothing.
    pub(crate) async fn volume(&self, text: &str) -> Result<VolumeRecord, Error> {
        let id = self.volume_id(text)?;
        self.read(&id)
            .await?
            .ok_or_else(|| Error::VolumeMissing(text.to_owned()))
    }

    /// The record of what has this id; one of the same name but another id is none.
    pub(crate) async fn read<R: Record + Send + 'static>(
        &self,
        id: &Id,
    ) -> Result<Option<R>, Error> {
        let (store, key) = (self.store.clone(), id.key.clone());
        let read: Option<R> = blocking(move || store.read(&key)).await?;
        let text = id.to_string();
        Ok(read.filter(|record| record.id() == text))
    }

    /// A volume and the right to change it.
    pub(crate) async fn claim_volume(&self, text: &str) -> Result<(Image, VolumeRecord), Error> {
        let id = self.volume_id(text)?;
        let (store, key) = (self.store.clone(), id.key.clone());
        let image = blocking(move || store.lock(Area::Volumes, &key)).await?;
        let record = self.read::<VolumeRecord>(&id).await?;
        let record = record.ok_or_else(|| Error::VolumeMissing(text.to_owned()))?;
        let whole = image.filter(|image| image.bytes().is_ok_and(|bytes| bytes >= record.bytes));
        let path = self.store.image_path(Area::Volumes, &id.key);
        let image = whole.ok_or(StateError::ImageLost { path })?;
        if image.bytes()? == record.bytes {
            return Ok((image, record));
        }
        Ok(self.settle_size(image, record).await)
    }

    /// Ends an expansion that a process did not come to the end of, before anything is done with the volume.
    async fn settle_size(&self, image: Image, record: VolumeRecord) -> (Image, VolumeRecord) {
        let (store, before) = (self.store.clone(), record.bytes);
        let settled = blocking(move || {
            let (record, written) = store.settle_size(&image, record);
            (image, record, written)
        });
        let (image, record, written) = settled.await;
        if written {
            self.ledger.add(record.bytes - before);
        }
        (image, record)
    }

    /// Makes the image of a volume as long as its new record says, and writes the record; neither if one of them fails.
    pub(crate) async fn grow(&self, image: Image, record: VolumeRecord) -> Result<(), Error> {
        let store = self.store.clone();
        Ok(blocking(move || store.grow(&image, &record)).await?)
    }

    /// Makes an image at least this long, and writes its record, off the threads that must not wait for a disk: one hop,
    /// because each costs as much as a small file.
    pub(crate) async fn write_sized<R>(
        &self,
        image: Image,
        bytes: u64,
        record: R,
    ) -> Result<Image, Error>
    where
        R: Record + Send + 'static,
    {
        let store = self.store.clone();
        let written = blocking(move || {
            image.lengthen(bytes)?;
            store.write(&image, &record).map(|()| image)
        });
        Ok(written.await?)
    }

    /// Writes a record, off the threads that must not wait for a disk.
    pub(crate) async fn write<R>(&self, image: Image, record: R) -> Result<Image, Error>
    where
        R: Record + Send + 'static,
    {
        let store = self.store.clone();
        let written = blocking(move || store.write(&image, &record).map(|()| image));
        Ok(written.await?)
    }
}

impl Driver {
    /// Removes the image of something that could not be made. If even that fails, the next start does it.
    pub(crate) async fn give_up(&self, area: Area, key: Key) {
        let store = self.store.clone();
        let removed = blocking(move || store.remove_unfinished(area, &key)).await;
        if let Err(error) = removed {
            let error = chain(&error);
            tracing::warn!(
                error,
                "Cannot remove a partly made image; the next start does."
            );
        }
    }
}

impl Driver {
    /// Waits for work whose callers gave up.
    pub(crate) async fn finish(&self, patience: Duration) {
        self.tasks.close();
        if timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("Work was cut off; the next start cleans up after it.");
        }
    }
}

/// Runs a call that changes something in a task of its own.
///
/// A caller's deadline must not stop work half-way: a copy that takes longer than the deadline would be started again
/// and again and never end. The work keeps its locks; the repeated call is answered ABORTED until it is done, and
/// then finds the result.
pub(crate) async fn carry_out<T, F>(driver: &Driver, work: F) -> Result<Response<T>, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    match driver
        .tasks
        .spawn(of_this_call(work.in_current_span()))
        .await
    {
        Ok(done) => answer(done),
        Err(lost) => match lost.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Status::unavailable("the driver is shutting down")),
        },
    }
}

/// The answer to a call that changes nothing.
pub(crate) fn answer<T>(done: Result<T, Error>) -> Result<Response<T>, Status> {
    Ok(done.map(Response::new)?)
}
