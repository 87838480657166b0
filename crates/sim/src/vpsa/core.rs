//! State, journal, data and knobs together: what every request works on.

mod setup;
mod work;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Options;
use super::backing::Backing;
use super::control::Trouble;
use super::state::{Change, Decision, Delays, Moment, Refusal, State};
use crate::control::Controls;
use crate::moment::{Millis, fresh_secret, millis, now};
use crate::store::{Machine, StoreError};

/// What every request works on.
#[derive(Debug)]
pub struct Core {
    machine: Machine<State>,
    counters: Mutex<BTreeMap<String, u64>>,
    /// Addresses for data.
    pub addresses: Vec<IpAddr>,
    /// What is turned, what goes wrong, what was asked.
    pub controls: Controls<Knobs, Trouble>,
    /// Where data is.
    pub backing: Backing,
}

/// What can be turned while the array runs; times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Most objects on a page of a list.
    pub page_size: usize,
    /// How long a new volume is being created.
    pub creation_delay: Millis,
    /// How long after the answer a clone is seen.
    pub clone_delay: Millis,
    /// How long a snapshot is being taken.
    pub snapshot_delay: Millis,
    /// How long things are being deleted.
    pub removal_delay: Millis,
    /// How long an expansion takes.
    pub expansion_delay: Millis,
    /// How long an attachment takes.
    pub attachment_delay: Millis,
    /// Whether an attachment is listed meanwhile: without the number of its disk and without a target.
    pub unfinished_attachments: bool,
    /// Whether a volume that servers have, or that has snapshots, is deleted all the same for whoever asks with `force`.
    #[serde(default)]
    pub forced_deletions: bool,
    /// How long every request takes at least.
    pub latency: Millis,
    /// Whether numbers are texts; as the version has it if none.
    pub numbers_as_texts: Option<bool>,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The array says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The simulator itself cannot go on.
    #[error("the simulator's data directory: {0}")]
    Storage(#[from] io::Error),
}

impl Core {
    /// Opens the data directory; makes the array that it does not have yet, and finishes what was under way.
    pub async fn open(options: &Options) -> Result<Self, StoreError> {
        let core = Self {
            machine: Machine::open(&options.data).await?,
            counters: Mutex::default(),
            addresses: options.address.clone(),
            controls: Controls::new(Knobs::from(options)),
            backing: Backing::new(&options.data),
        };
        core.machine
            .complete(|state| setup::missing(state, options));
        core.finish_all()
            .await
            .map_err(|failure| StoreError::Unusable {
                path: options.data.clone(),
                source: io::Error::other(failure),
            })?;
        Ok(core)
    }

    /// Forgets everything but the data directory, and reads that again.
    pub async fn reload(&self) -> Result<(), StoreError> {
        self.machine.reload().await
    }

    /// Looks at the state.
    pub fn read<T>(&self, look: impl FnOnce(&State, Millis) -> T) -> T {
        self.machine.read(|state| look(state, now()))
    }

    /// Wakes up whenever the state changes.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.machine.watch()
    }

    /// Decides, makes the changes, and returns when they are durable.
    pub async fn change<T>(
        &self,
        decide: impl FnOnce(&State, &Moment) -> Decision<T>,
    ) -> Result<T, Failure> {
        let moment = self.moment();
        self.machine.change(|state| decide(state, &moment)).await
    }

    /// Makes changes that need no decision.
    pub async fn put(&self, changes: Vec<Change>) -> Result<(), Failure> {
        self.change(|_, _| Ok((changes, ()))).await
    }

    /// Counts a request by what kind it is.
    pub fn count(&self, method: &str, path: &str) {
        let kind = format!("{method} {}", kind_of(path));
        *self.counters.lock().entry(kind).or_default() += 1;
    }

    /// How many requests of each kind there were since the start.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.counters.lock().clone()
    }

    fn moment(&self) -> Moment {
        let knobs = self.controls.knobs();
        Moment {
            now: now(),
            secret: fresh_secret(8),
            delays: Delays {
                creation: knobs.creation_delay,
                clone: knobs.clone_delay,
                snapshot: knobs.snapshot_delay,
                removal: knobs.removal_delay,
                expansion: knobs.expansion_delay,
                attachment: knobs.attachment_delay,
            },
        }
    }
}

impl From<&Options> for Knobs {
    fn from(options: &Options) -> Self {
        Self {
            page_size: options.page_size,
            creation_delay: millis(options.creation_delay),
            clone_delay: millis(options.clone_delay),
            snapshot_delay: 0,
            removal_delay: millis(options.removal_delay),
            expansion_delay: 0,
            attachment_delay: 0,
            unfinished_attachments: false,
            forced_deletions: false,
            latency: 0,
            numbers_as_texts: None,
        }
    }
}

/// A path with `*` in place of identities: `volumes/*/expand`.
fn kind_of(path: &str) -> String {
    let path = path.trim_end_matches(".json");
    let is_id = |segment: &str| {
        let number = segment.rsplit_once('-').map(|(_, number)| number);
        number.is_some_and(|number| number.len() == 8 && u32::from_str_radix(number, 16).is_ok())
    };
    let segments = path.split('/').map(|segment| {
        let first = segment.split(',').next().unwrap_or_default();
        if is_id(first) { "*" } else { segment }
    });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        for (path, kind) in [
            ("volumes.json", "volumes"),
            ("volumes/volume-0000002a/expand.json", "volumes/*/expand"),
            (
                "servers/srv-00000001,srv-00000002/volumes.json",
                "servers/*/volumes",
            ),
            ("settings/set_recycle_bin.json", "settings/set_recycle_bin"),
        ] {
            assert_eq!(kind_of(path), kind);
        }
    }
}
