//! What the array knows.
//!
//! [`State`] is plain data. The modules below it decide: each takes the state, parameters and the time, and returns the
//! [`Change`]s to make or a [`Refusal`]; none of them does I/O.
//!
//! Nothing has a timer: what takes time carries the moment at which it will be done. What is being removed is there, and
//! in the way of another of its name, until [`State::outdated`] has been carried out.

pub mod objects;
pub mod options;
pub mod parameters;
pub mod pools;
pub mod refusal;
pub mod servers;
pub mod snapshots;
#[cfg(test)]
mod testing;
pub mod volumes;

pub use objects::{
    AccessKey, Attachment, Controller, DataType, Drive, Pool, RaidGroup, Server, Snapshot, Volume,
    Vpsa,
};
pub use parameters::Parameters;
pub use refusal::{Delays, Moment, Refusal};

use crate::moment::Millis;
use crate::store::kinds;

/// How long a deleted volume stays in the recycle bin: seven days.
const RECYCLED: Millis = 7 * 24 * 3600 * 1000;

kinds! {
    Vpsa Vpsa vpsa,
    AccessKey AccessKey access_keys,
    Controller Controller controllers,
    Pool Pool pools,
    Volume Volume volumes,
    Snapshot Snapshot snapshots,
    Server Server servers,
    Attachment Attachment attachments,
    Drive Drive drives,
    RaidGroup RaidGroup raid_groups,
}

/// What a decision comes to: changes, and what is told.
pub type Decision<T> = Result<(Vec<Change>, T), Refusal>;

impl State {
    /// The array itself.
    ///
    /// # Panics
    /// Never on an opened state: the store makes an array in an empty directory.
    pub fn vpsa(&self) -> &Vpsa {
        self.vpsa.values().next().expect("an array")
    }

    /// The identity that the next object gets, and the change that counts it.
    pub fn next_id(&self, prefix: &str) -> (String, Change) {
        let mut vpsa = self.vpsa().clone();
        let id = format!("{prefix}-{:08x}", vpsa.next_number);
        vpsa.next_number += 1;
        (id, Change::Put(Object::Vpsa(vpsa)))
    }

    /// The name of the iSCSI target.
    pub fn target(&self) -> String {
        let vpsa = self.vpsa();
        if vpsa.release.has(super::release::Feature::LongTargets) {
            let number = vpsa.id.trim_start_matches("vsa-");
            format!("iqn.2011-04.com.zadara:{}:{number}c0ffee:1", vpsa.id)
        } else {
            format!("iqn.2011-04.com.zadarastorage:{}:1", vpsa.id)
        }
    }

    /// The attachments of a volume.
    pub fn attachments_of(&self, volume: &str) -> impl Iterator<Item = &Attachment> {
        let all = self.attachments.values();
        all.filter(move |attachment| attachment.volume == volume)
    }

    /// The attachments of a server.
    pub fn attachments_to(&self, server: &str) -> impl Iterator<Item = &Attachment> {
        let all = self.attachments.values();
        all.filter(move |attachment| attachment.server == server)
    }

    /// What is done with being removed, and what was long enough in the recycle bin.
    pub fn outdated(&self, now: Millis) -> Vec<Change> {
        let volumes = self.volumes.values().filter(|volume| {
            let forgotten = volume.recycled_at.is_some_and(|at| at + RECYCLED <= now);
            forgotten || volume.removed_at.is_some_and(|at| at <= now)
        });
        let volumes = volumes.map(|volume| Change::Remove {
            kind: Kind::Volume,
            key: volume.key(),
        });
        let snapshots = self.snapshots.values();
        let snapshots =
            snapshots.filter(|snapshot| snapshot.removed_at.is_some_and(|at| at <= now));
        let snapshots = snapshots.map(|snapshot| Change::Remove {
            kind: Kind::Snapshot,
            key: snapshot.key(),
        });
        let grown = self.volumes.values().filter_map(|volume| {
            let (capacity, at) = volume.growth?;
            let grown = Volume {
                capacity,
                growth: None,
                ..volume.clone()
            };
            (at <= now).then_some(Change::Put(Object::Volume(grown)))
        });
        // Removals last: what is removed does not come back by having grown.
        grown.chain(volumes).chain(snapshots).collect()
    }
}
