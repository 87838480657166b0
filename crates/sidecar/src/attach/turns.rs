//! One worker per attachment, although two queues know it: a volume must not be attached and detached at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stowage_kubernetes::queue::{Key, Queue};

/// Who works on what. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Turns {
    /// With the queue that came while another one's worker was busy.
    busy: Arc<Mutex<HashMap<Key, Option<Queue>>>>,
}

/// The right to work on an attachment, until dropped.
pub(super) struct Turn {
    turns: Turns,
    key: Key,
}

impl Turns {
    /// `None`: somebody works on it. Then it is added to `queue` again as soon as that is over.
    pub(super) fn take(&self, key: &Key, queue: &Queue) -> Option<Turn> {
        let mut busy = self.busy.lock();
        if let Some(next) = busy.get_mut(key) {
            *next = Some(queue.clone());
            return None;
        }
        busy.insert(Arc::clone(key), None);
        Some(Turn {
            turns: self.clone(),
            key: Arc::clone(key),
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.turns.busy.lock().remove(&self.key).flatten();
        if let Some(queue) = next {
            queue.add(Arc::clone(&self.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use stowage_kubernetes::queue::Backoff;

    use super::*;

    #[test]
    fn who_came_too_early_comes_again_when_the_turn_is_over() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
        };
        let mut registry = Registry::default();
        let one = Queue::new("one", backoff, &mut registry);
        let other = Queue::new("other", backoff, &mut registry);
        let turns = Turns::default();
        let key: Key = "x".into();
        let turn = turns.take(&key, &one).unwrap();
        assert!(turns.take(&key, &other).is_none());
        assert!(turns.take(&"y".into(), &other).is_some());
        assert!(other.is_empty());
        drop(turn);
        assert_eq!((one.len(), other.len()), (0, 1));
        drop(turns.take(&key, &other).unwrap());
        assert_eq!((one.len(), other.len()), (0, 1));
    }
}
