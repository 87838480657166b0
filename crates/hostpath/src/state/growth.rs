//! The size of a volume: its record has it, and its image is that long.
//!
//! Image first, then record: a process that dies in between leaves an image that is longer than its record says. From
//! then on nobody knows whether a filesystem has grown into it, or a pod has written there, so such an image is never
//! cut: the record follows ([`Store::settle_size`]).

use super::{Image, StateError, Store, VolumeRecord};
use crate::error::chain;

impl Store {
    /// Makes an image as long as its new record says, and writes the record. If that fails, the image gets its old
    /// length back: the caller holds it, so nothing can have grown into it yet.
    ///
    /// Called twice: it is that long already.
    pub(crate) fn grow(&self, image: &Image, record: &VolumeRecord) -> Result<(), StateError> {
        let before = image.bytes()?;
        let grown = image
            .lengthen(record.bytes)
            .and_then(|()| self.write(image, record));
        if grown.is_err() {
            self.take_back(image, before);
        }
        grown
    }

    /// A record may be there although it could not be made to last: then the image has to be as long as it says.
    fn take_back(&self, image: &Image, before: u64) {
        let taken = match self.read::<VolumeRecord>(image.key()) {
            Ok(Some(record)) if record.bytes <= before => image.shorten(before),
            Ok(_) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            let (error, image) = (chain(&error), image.path().display());
            tracing::warn!(%image, error, "The image stays longer than its record says; the volume gets that size.");
        }
    }

    /// The record of a volume, as large as its image is. Says whether it had to be written. The caller holds the image.
    ///
    /// Where it cannot be written, because the disk is full, it is right all the same for this call, and the next one
    /// tries again: a pod must not wait for that.
    ///
    /// Called twice: there is nothing to change.
    pub(crate) fn settle_size(&self, image: &Image, record: VolumeRecord) -> (VolumeRecord, bool) {
        let Ok(bytes) = image.bytes() else {
            return (record, false);
        };
        if bytes <= record.bytes {
            return (record, false);
        }
        let (volume, recorded) = (record.id.clone(), record.bytes);
        let record = VolumeRecord { bytes, ..record };
        let written = self.write(image, &record);
        match &written {
            Ok(()) => tracing::warn!(
                volume,
                recorded,
                bytes,
                "The volume has the size of its image now: an expansion had not come to its end."
            ),
            Err(error) => tracing::warn!(
                volume,
                recorded,
                bytes,
                error = chain(error),
                "The image is longer than its record says, and the record cannot be written; it is tried again."
            ),
        }
        (record, written.is_ok())
    }
}
