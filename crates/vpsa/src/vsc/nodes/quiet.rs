//! Nodes that stay lost after everything on them was released: they are looked at less and less.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stowage_api::backoff::Backoff;

/// How long apart it is looked whether anything is left: hardly anything comes to such a node.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(4),
    longest: Duration::from_secs(120),
};

/// Nodes on which nothing was left: how often that was seen, and when to look again.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<String, (u32, Instant)>>);

impl Quiet {
    /// Whether it is too early to look at a node again.
    pub fn is(&self, node: &str, now: Instant) -> bool {
        self.0
            .lock()
            .get(node)
            .is_some_and(|(_, until)| now < *until)
    }

    /// Nothing is left on a node: the next look is later than the last time.
    pub fn add(&self, node: &str, now: Instant) {
        let mut nodes = self.0.lock();
        let looks = nodes.get(node).map_or(0, |(looks, _)| *looks) + 1;
        nodes.insert(node.to_owned(), (looks, now + PAUSES.after(looks)));
    }

    /// Something is there, or the node is back. Called twice: it is looked at as often as any other.
    pub fn remove(&self, node: &str) {
        self.0.lock().remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stays_empty_is_looked_at_less_and_less_until_something_comes() {
        let (quiet, start) = (Quiet::default(), Instant::now());
        let mut looks = Vec::new();
        // An hour, every two seconds.
        for second in (0..3600).step_by(2) {
            let now = start + Duration::from_secs(second);
            if !quiet.is("n", now) {
                looks.push(second);
                quiet.add("n", now);
            }
        }
        assert_eq!(looks[..6], [0, 4, 12, 28, 60, 124]);
        assert_eq!(looks.len(), 34);
        assert!(!quiet.is("other", start));
        quiet.remove("n");
        assert!(!quiet.is("n", start));
    }
}
