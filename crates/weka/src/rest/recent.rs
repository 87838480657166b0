//! Filesystems that were looked up a moment ago.
//!
//! Calls come in crowds and name the same few filesystems; an array far away would be asked the same thing for each of them.
//! What is remembered may have changed since: nothing is refused because of it before the array was asked again, and it is
//! forgotten as soon as the array says that it is gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::wire::Filesystem;

/// How long a filesystem is taken to be as it was.
const FRESH: Duration = Duration::from_secs(10);

/// Filesystems by name.
#[derive(Default)]
pub(super) struct Recent(Mutex<HashMap<String, (Instant, Filesystem)>>);

impl Recent {
    /// The filesystem of this name, if it was there a moment ago.
    pub(super) fn get(&self, name: &str, now: Instant) -> Option<Filesystem> {
        let known = self.0.lock();
        let (seen, filesystem) = known.get(name)?;
        (now.saturating_duration_since(*seen) < FRESH).then(|| filesystem.clone())
    }

    /// What the array has said at this moment. What is old goes, so that only names in use are kept.
    pub(super) fn learn(&self, name: &str, found: Option<&Filesystem>, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|_, (seen, _)| now.saturating_duration_since(*seen) < FRESH);
        match found {
            Some(filesystem) => known.insert(name.to_owned(), (now, filesystem.clone())),
            None => known.remove(name),
        };
    }

    /// The array does not know it any more.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// How long the names of all filesystems are taken to be as they were. They are asked for what other processes made before
/// this one.
const FRESH_NAMES: Duration = Duration::from_secs(60);

/// The names of all filesystems.
#[derive(Default)]
pub(super) struct RecentNames(Mutex<Option<(Instant, Arc<[String]>)>>);

impl RecentNames {
    pub(super) fn get(&self, now: Instant) -> Option<Arc<[String]>> {
        let known = self.0.lock();
        let (seen, names) = known.as_ref()?;
        (now.saturating_duration_since(*seen) < FRESH_NAMES).then(|| names.clone())
    }

    pub(super) fn learn(&self, names: &Arc<[String]>, now: Instant) {
        *self.0.lock() = Some((now, names.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_is_known_for_a_while_and_not_once_it_is_gone() {
        let (recent, now) = (Recent::default(), Instant::now());
        let filesystem: Filesystem =
            serde_json::from_value(serde_json::json!({ "uid": "u", "name": "a" })).unwrap();
        recent.learn("a", Some(&filesystem), now);
        recent.learn("b", Some(&filesystem), now);
        let almost = now + FRESH.mul_f64(0.9);
        assert!(recent.get("a", almost).is_some());
        assert!(recent.get("a", now + FRESH).is_none());
        recent.learn("a", None, now);
        recent.forget("b");
        assert!(recent.get("a", now).is_none() && recent.get("b", now).is_none());
    }
}
