//! Keeps a backend that fails from filling the journal, and from taking every call, before others.
//!
//! A volume whose call failed stays in the journal until the driver gives a final answer. Once as many as W of a class
//! are in that state, new claims of the class wait where one of its place fails already, and once ten times as many are,
//! all new claims of the class do. They come back when a volume of the class is made, or when fewer than W fail.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use stowage_kubernetes::queue::{Key, Queue};

use crate::intent::{Intent, Segment};

/// So many times as many as may fail before the first of their place waits.
const OF_ALL_PLACES: usize = 10;

/// The claims of one provisioner that fail, and those that wait because of them.
pub(super) struct Failing {
    queue: Queue,
    few: usize,
    classes: Mutex<HashMap<String, Class>>,
}

#[derive(Default)]
struct Class {
    /// By the claim's uid; where the volume should be.
    failing: HashMap<String, Option<Segment>>,
    waiting: HashSet<Key>,
}

impl Failing {
    pub(super) fn new(queue: Queue, few: usize) -> Self {
        Self {
            queue,
            few,
            classes: Mutex::default(),
        }
    }

    /// Whether a new claim may begin; if not, it comes back.
    pub(super) fn may_begin(&self, intent: &Intent) -> bool {
        let mut classes = self.classes.lock();
        let Some(class) = classes.get_mut(&intent.class.uid) else {
            return true;
        };
        let (count, place) = (class.failing.len(), place(intent));
        let fails_there = || class.failing.values().any(|failing| *failing == place);
        if count < self.few || (count < self.few * OF_ALL_PLACES && !fails_there()) {
            return true;
        }
        class.waiting.insert(intent.claim.uid.as_str().into());
        false
    }

    /// A call failed, and the volume may be half made. Called twice: it is one that fails.
    pub(super) fn failed(&self, intent: &Intent) {
        let mut classes = self.classes.lock();
        let class = classes.entry(intent.class.uid.clone()).or_default();
        class
            .failing
            .insert(intent.claim.uid.clone(), place(intent));
    }

    /// A claim has its volume, or nothing is left of it. Called twice: nothing happens.
    pub(super) fn ended(&self, intent: &Intent, made: bool) {
        let mut classes = self.classes.lock();
        let Some(class) = classes.get_mut(&intent.class.uid) else {
            return;
        };
        class.failing.remove(&intent.claim.uid);
        if !made && class.failing.len() >= self.few {
            return;
        }
        let back = std::mem::take(&mut class.waiting);
        if class.failing.is_empty() {
            classes.remove(&intent.class.uid);
        }
        drop(classes);
        for key in back {
            self.queue.add(key);
        }
    }
}

/// Where the volume should be.
fn place(intent: &Intent) -> Option<Segment> {
    let topology = intent.topology.as_ref()?;
    topology.segments.get(topology.first).cloned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use stowage_kubernetes::queue::Backoff;

    use super::*;
    use crate::cluster::volume::ClaimKey;
    use crate::intent::{ClassFacts, FrozenTopology, Secrets};

    fn failing(few: usize) -> (Failing, Queue) {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
        };
        let queue = Queue::new("claims", backoff, &mut Registry::default());
        (Failing::new(queue.clone(), few), queue)
    }

    fn intent(class: &str, uid: &str, zone: usize) -> Intent {
        let segment = |zone: usize| Segment::from([("zone".to_owned(), zone.to_string())]);
        Intent {
            claim: ClaimKey {
                namespace: "shop".to_owned(),
                name: uid.to_owned(),
                uid: uid.to_owned(),
            },
            volume: format!("pvc-{uid}"),
            bytes: 1,
            access_modes: Vec::new(),
            csi_modes: Vec::new(),
            block: false,
            read_only: false,
            source: None,
            topology: Some(FrozenTopology {
                segments: (0..100).map(segment).collect(),
                first: zone,
            }),
            class: Arc::new(ClassFacts {
                uid: class.to_owned(),
                ..ClassFacts::default()
            }),
            attributes: None,
            secrets: Secrets::default(),
        }
    }

    #[test]
    fn a_place_that_fails_holds_neither_other_places_nor_other_classes() {
        let (failing, queue) = failing(2);
        failing.failed(&intent("dead", "1", 0));
        assert!(failing.may_begin(&intent("dead", "2", 0)));
        failing.failed(&intent("dead", "2", 0));
        assert!(!failing.may_begin(&intent("dead", "3", 0)));
        assert!(failing.may_begin(&intent("dead", "4", 1)));
        assert!(failing.may_begin(&intent("healthy", "5", 0)));
        // Nothing is left of one: fewer fail, and those who wait may try.
        failing.ended(&intent("dead", "1", 0), false);
        assert_eq!(queue.len(), 1);
        assert!(failing.may_begin(&intent("dead", "3", 0)));
    }

    #[test]
    fn a_class_that_fails_everywhere_waits_everywhere_until_one_volume_is_made() {
        let (failing, queue) = failing(2);
        for number in 0..20 {
            let one = intent("dead", &number.to_string(), number);
            assert!(failing.may_begin(&one));
            failing.failed(&one);
        }
        assert!(!failing.may_begin(&intent("dead", "a", 50)));
        assert!(!failing.may_begin(&intent("dead", "b", 51)));
        failing.ended(&intent("dead", "3", 3), false);
        assert_eq!(queue.len(), 0);
        failing.ended(&intent("dead", "4", 4), true);
        assert_eq!(queue.len(), 2);
        for number in 0..20 {
            failing.ended(&intent("dead", &number.to_string(), number), false);
        }
        assert!(failing.classes.lock().is_empty());
    }
}
