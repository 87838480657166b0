//! Who was called, how often, with what.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// So many requests of each RPC are kept: a benchmark makes thousands of calls.
const KEPT: usize = 256;

#[derive(Default)]
pub(super) struct Calls(Mutex<BTreeMap<&'static str, Tally>>);

#[derive(Default)]
struct Tally {
    count: u64,
    under_way: u64,
    most_at_once: u64,
    last: VecDeque<Box<dyn Any + Send>>,
}

/// A call under way, until dropped.
pub(super) struct UnderWay<'a> {
    calls: &'a Calls,
    rpc: &'static str,
}

impl Calls {
    pub(super) fn begin<Q: Clone + Send + 'static>(
        &self,
        rpc: &'static str,
        request: &Q,
    ) -> UnderWay<'_> {
        let mut tallies = self.0.lock();
        let tally = tallies.entry(rpc).or_default();
        tally.count += 1;
        tally.under_way += 1;
        tally.most_at_once = tally.most_at_once.max(tally.under_way);
        if tally.last.len() == KEPT {
            tally.last.pop_front();
        }
        tally.last.push_back(Box::new(request.clone()));
        UnderWay { calls: self, rpc }
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let tallies = self.0.lock();
        tallies
            .iter()
            .map(|(rpc, tally)| (*rpc, tally.count))
            .collect()
    }

    pub(super) fn most_at_once(&self, rpc: &str) -> u64 {
        self.0.lock().get(rpc).map_or(0, |tally| tally.most_at_once)
    }

    /// Oldest first. A request type belongs to one RPC.
    pub(super) fn requests<Q: Clone + 'static>(&self) -> Vec<Q> {
        let tallies = self.0.lock();
        let all = tallies.values().flat_map(|tally| &tally.last);
        all.filter_map(|request| request.downcast_ref::<Q>())
            .cloned()
            .collect()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(tally) = self.calls.0.lock().get_mut(self.rpc) {
            tally.under_way -= 1;
        }
    }
}
