//! Sums over all volumes, for limits. They are counted once at start, and only if a limit is set, so that no call has
//! to look at every volume.
//!
//! Only the controller makes and attaches volumes, and there is one per state directory; what another process changed
//! is counted at the next start.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::args::Config;
use crate::error::Error;
use crate::id::NodeId;
use crate::state::{StateError, Store, VolumeRecord};

/// The sums, if there is a limit to compare them with.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    capacity: Option<u64>,
    limit: Option<u32>,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    promised: u64,
    attached: HashMap<NodeId, u32>,
}

/// Bytes that are promised to a volume; given back on drop unless it was made.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'a> {
    ledger: &'a Ledger,
    bytes: u64,
}

impl Reservation<'_> {
    /// The volume has them now.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.ledger.release(self.bytes);
    }
}

impl Ledger {
    /// Counts what there is. Damaged records count nothing. Blocks.
    pub(crate) fn count(config: &Config, store: &Store) -> Result<Self, StateError> {
        let ledger = Self {
            capacity: config.capacity,
            limit: Some(config.serving.max_volumes).filter(|limit| config.attach && *limit > 0),
            sums: Mutex::default(),
        };
        if ledger.capacity.is_none() && ledger.limit.is_none() {
            return Ok(ledger);
        }
        let all = store.page::<VolumeRecord>(None, 0, |_| true)?;
        for record in all
            .entries
            .iter()
            .filter_map(|(_, read)| read.as_ref().ok())
        {
            let mut sums = ledger.sums.lock();
            sums.promised += record.bytes;
            for node in record.attached.keys() {
                *sums.attached.entry(node.clone()).or_default() += 1;
            }
        }
        Ok(ledger)
    }

    /// How much more may be promised; none if there is no limit.
    pub(crate) fn left(&self) -> Option<u64> {
        let promised = self.sums.lock().promised;
        self.capacity
            .map(|capacity| capacity.saturating_sub(promised))
    }

    /// Promises bytes to a volume that is being made or grown.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, Error> {
        let mut sums = self.sums.lock();
        if let Some(capacity) = self.capacity {
            let available = capacity.saturating_sub(sums.promised);
            if bytes > available {
                return Err(Error::NoCapacity {
                    wanted: bytes,
                    available,
                });
            }
        }
        sums.promised += bytes;
        drop(sums);
        Ok(Reservation {
            ledger: self,
            bytes,
        })
    }

    /// A volume has these bytes already: there is nothing to refuse.
    pub(crate) fn add(&self, bytes: u64) {
        self.sums.lock().promised += bytes;
    }

    /// A volume of this size was removed.
    pub(crate) fn release(&self, bytes: u64) {
        let mut sums = self.sums.lock();
        sums.promised = sums.promised.saturating_sub(bytes);
    }

    /// Counts a volume that is being attached.
    pub(crate) fn attach(&self, node: &NodeId) -> Result<(), Error> {
        let mut sums = self.sums.lock();
        let count = sums.attached.entry(node.clone()).or_default();
        match self.limit {
            Some(limit) if *count >= limit => Err(Error::NodeFull {
                node: node.to_string(),
                limit,
            }),
            _ => {
                *count += 1;
                Ok(())
            }
        }
    }

    /// A volume is no longer attached, or did not become so.
    pub(crate) fn detach(&self, node: &NodeId) {
        if let Some(count) = self.sums.lock().attached.get_mut(node) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_limited_and_given_back() {
        let ledger = Ledger {
            capacity: Some(100),
            ..Ledger::default()
        };
        ledger.reserve(60).unwrap().keep();
        assert!(matches!(
            ledger.reserve(50),
            Err(Error::NoCapacity { available: 40, .. })
        ));
        drop(ledger.reserve(40).unwrap());
        assert_eq!(ledger.left(), Some(40));
        ledger.release(60);
        assert_eq!(ledger.left(), Some(100));
    }

    #[test]
    fn a_node_takes_as_many_volumes_as_its_limit() {
        let ledger = Ledger {
            limit: Some(1),
            ..Ledger::default()
        };
        let [one, other]: [NodeId; 2] = ["a", "b"].map(|node| node.parse().unwrap());
        ledger.attach(&one).unwrap();
        assert!(ledger.attach(&one).is_err());
        ledger.attach(&other).unwrap();
        ledger.detach(&one);
        ledger.attach(&one).unwrap();
    }
}
