//! Contents that were made for requests which the API server was deleting at that very moment.
//!
//! A server that has begun to delete a request does not see the finalizers that it gets meanwhile: the request is gone, and the
//! content that was just made for it is nobody's. That is the only content that is deleted without being asked for. Whoever takes
//! the finalizers of a request away, or tears it away while its deletion waits, keeps what it stands for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stowage_kubernetes::store::Change;

use crate::cluster::{Cluster, Scope};
use crate::request::Request;

/// Requests whose contents this process has made, until they are ready or are being deleted in order. By uid.
#[derive(Clone, Default)]
pub(crate) struct Births(Arc<Mutex<HashMap<String, Birth>>>);

/// A content was made for a request.
#[derive(Clone, Debug)]
pub(crate) struct Birth {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// What the watch of requests had missed by then.
    gaps: u64,
}

impl Births {
    /// Must come before the finalizers of the request are written, and those before its content is made.
    pub(crate) fn begin(&self, request: &Request, gaps: u64) {
        let birth = Birth {
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            gaps,
        };
        self.0.lock().insert(request.uid.clone(), birth);
    }

    /// Called twice: the second finds nothing.
    pub(crate) fn end(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    pub(crate) fn of(&self, uid: &str) -> Option<Birth> {
        self.0.lock().get(uid).cloned()
    }

    /// Must come before anybody else who listens.
    pub(crate) fn listen(&self, cluster: &Arc<Cluster>, scope: Scope) {
        for kind in scope.kinds() {
            let requests = cluster.requests.of(*kind);
            let (births, watched) = (self.clone(), Arc::downgrade(requests));
            requests.listen(move |change| {
                let gaps = watched.upgrade().map(|watched| watched.gaps());
                births.hear(change, gaps);
            });
        }
    }

    fn hear(&self, change: &Change<Request>, gaps: Option<u64>) {
        let mut births = self.0.lock();
        let Some(birth) = births.get(&change.object().uid) else {
            return;
        };
        let goes_on = match change {
            Change::Set { new, .. } => !new.deleting && !new.is_ready(),
            Change::Gone(last) => was_cut_off(last) && gaps == Some(birth.gaps),
        };
        if !goes_on {
            births.remove(&change.object().uid);
        }
    }
}

/// Whether a request that is gone was deleted as if it had no finalizers, although it had ours to the end.
fn was_cut_off(last: &Request) -> bool {
    last.has_finalizer(last.kind.bound_finalizer()) && !last.deleting && !last.is_ready()
}

#[cfg(test)]
mod tests {
    use stowage_api::snapshot::names::SNAPSHOT_BOUND;

    use super::*;
    use crate::request::{Kind, Source, Status};

    fn request(finalizers: &[&str], deleting: bool, ready: bool) -> Arc<Request> {
        Arc::new(Request {
            kind: Kind::Single,
            namespace: "shop".to_owned(),
            name: "monday".to_owned(),
            uid: "u".to_owned(),
            source: Source::Claim("data".to_owned()),
            class: None,
            group: None,
            owners: Vec::new(),
            finalizers: finalizers.iter().map(ToString::to_string).collect(),
            deleting,
            status: Status {
                ready: Some(ready),
                ..Status::default()
            },
        })
    }

    #[test]
    fn only_a_request_that_was_cut_off_at_its_birth_takes_its_content_along() {
        let bound: &[&str] = &[SNAPSHOT_BOUND];
        let gone = |finalizers, deleting, ready| Change::Gone(request(finalizers, deleting, ready));
        let set = |finalizers, deleting, ready| Change::Set {
            old: None,
            new: request(finalizers, deleting, ready),
        };
        for (change, gaps, expected) in [
            (gone(bound, false, false), 2, true),
            // Somebody took the finalizers away.
            (gone(&[], false, false), 2, false),
            (gone(&["other"], false, false), 2, false),
            // It was deleted in order, and then torn away.
            (gone(bound, true, false), 2, false),
            (gone(bound, false, true), 2, false),
            // Any of that may have happened while nobody watched.
            (gone(bound, false, false), 3, false),
            (set(&[], false, false), 2, true),
            (set(bound, false, false), 3, true),
            (set(bound, true, false), 2, false),
            (set(bound, false, true), 2, false),
        ] {
            let births = Births::default();
            births.begin(&request(&[], false, false), 2);
            births.hear(&change, Some(gaps));
            assert_eq!(births.of("u").is_some(), expected, "{change:?} {gaps}");
        }
    }
}
