//! One at a time for each thing that several volumes share; whoever comes meanwhile waits. Calls for one volume are refused
//! instead: see [`locks`](crate::locks).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Who has which thing, and who waits for it.
#[derive(Debug)]
pub struct Turns<K>(Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>);

/// Nobody else has the thing, until this is dropped.
#[derive(Debug)]
#[must_use = "somebody else has the thing when this is dropped"]
pub struct Turn {
    _held: OwnedMutexGuard<()>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Turns<K> {
    /// Waits until nobody else has this thing.
    pub async fn wait(&self, key: K) -> Turn {
        let gate = {
            let mut gates = self.0.lock();
            // Those that nobody has or waits for.
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            Arc::clone(gates.entry(key).or_default())
        };
        Turn {
            _held: gate.lock_owned().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_thing_has_one_at_a_time_and_what_nobody_has_is_forgotten() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let other = turns.wait("b").await;
        let mut second = Box::pin(turns.wait("a"));
        assert!((&mut second).now_or_never().is_none());
        drop(other);
        drop(first);
        let second = second.await;
        assert!(turns.wait("a").now_or_never().is_none());
        drop(second);
        let _last = turns.wait("c").await;
        assert_eq!(turns.0.lock().len(), 1);
    }
}
