//! Lets some objects of a queue through at a time.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;
use stowage_kubernetes::queue::{Key, Queue};

/// A gate. An object that finds no room inside leaves its worker to others, and comes back, in order, when somebody
/// leaves.
pub(super) struct Gate {
    queue: Queue,
    room: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: usize,
    outside: VecDeque<Key>,
    /// The same, to have each once.
    outside_set: HashSet<Key>,
}

/// A place inside; free again when dropped.
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// A gate for objects of `queue`, of which `room` may be inside.
    pub(super) fn new(queue: Queue, room: usize) -> Self {
        Self {
            queue,
            room,
            state: Mutex::default(),
        }
    }

    /// `None`: no room. The object is added to the queue again when its turn comes, and has to enter then, or to call
    /// [`Gate::next`].
    pub(super) fn enter(&self, key: &Key) -> Option<Inside<'_>> {
        let mut state = self.state.lock();
        if state.inside < self.room {
            state.inside += 1;
            return Some(Inside(self));
        }
        if state.outside_set.insert(Key::clone(key)) {
            state.outside.push_back(Key::clone(key));
        }
        None
    }

    /// Lets the next one come, if there is room.
    pub(super) fn next(&self) {
        let mut state = self.state.lock();
        if state.inside >= self.room {
            return;
        }
        let Some(key) = state.outside.pop_front() else {
            return;
        };
        state.outside_set.remove(&key);
        drop(state);
        self.queue.add(key);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state.lock().inside -= 1;
        self.0.next();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use stowage_kubernetes::queue::Backoff;

    use super::*;

    fn gate(room: usize) -> (Gate, Queue) {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
        };
        let queue = Queue::new("claims", backoff, &mut Registry::default());
        (Gate::new(queue.clone(), room), queue)
    }

    #[test]
    fn those_outside_come_back_one_by_one_as_others_leave() {
        let (gate, queue) = gate(1);
        let [one, two, three] = ["one", "two", "three"].map(Key::from);
        let inside = gate.enter(&one).unwrap();
        assert!(gate.enter(&two).is_none());
        assert!(gate.enter(&three).is_none());
        // A change brought it here again: it has its place already.
        assert!(gate.enter(&two).is_none());
        assert_eq!(queue.len(), 0);
        drop(inside);
        assert_eq!(queue.len(), 1);
        drop(gate.enter(&two).unwrap());
        assert_eq!(queue.len(), 2);
        drop(gate.enter(&three).unwrap());
        assert!(gate.state.lock().outside.is_empty() && gate.state.lock().outside_set.is_empty());
    }

    #[test]
    fn one_that_has_no_need_to_enter_any_more_passes_its_turn_on() {
        let (gate, queue) = gate(1);
        let inside = gate.enter(&"one".into()).unwrap();
        assert!(gate.enter(&"two".into()).is_none());
        assert!(gate.enter(&"three".into()).is_none());
        gate.next();
        assert_eq!(queue.len(), 0, "nobody comes while there is no room");
        drop(inside);
        gate.next();
        assert_eq!(queue.len(), 2);
    }
}
