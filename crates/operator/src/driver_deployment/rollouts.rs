//! An update of the operator, or of its configuration, changes the pods of every driver: they are replaced some drivers at a time,
//! so that a bad image breaks one of them and not all.
//!
//! What somebody changes in an instance is put into effect at once.

use std::collections::{BTreeMap, VecDeque};

use futures::{Stream, stream};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use stowage_api::driver_deployment::{CSIDriverDeployment, ConditionStatus};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::condition::{PROGRESSING, Reason};
use super::context::Guarded;
use super::problem::title;
use super::validate::{ManagementState, management_state};

/// Whose pods may be replaced now.
pub struct Rollouts {
    limit: usize,
    state: Mutex<State>,
    /// Instances whose turn has come.
    next: broadcast::Sender<ObjectRef<Guarded>>,
}

#[derive(Default)]
struct State {
    /// Names of the instances whose pods are being replaced, by uid.
    under_way: BTreeMap<String, String>,
    /// Those that wait, in the order in which they came.
    waiting: VecDeque<(String, ObjectRef<Guarded>)>,
}

impl Rollouts {
    /// So many drivers at a time.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            state: Mutex::default(),
            next: broadcast::Sender::new(64),
        }
    }

    /// Instances whose turn has come.
    pub(super) fn turns(&self) -> impl Stream<Item = ObjectRef<Guarded>> + Send + 'static {
        stream::unfold(self.next.subscribe(), |mut next| async move {
            loop {
                match next.recv().await {
                    Ok(instance) => return Some((instance, next)),
                    // Who missed the call asks again by itself.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// Whether an instance may replace its pods now; if not, whom it waits for. `others` are all instances: a new operator does
    /// not know whom the one before it has begun with. Called twice: it has one turn.
    pub(super) fn begin<'a>(
        &self,
        instance: &CSIDriverDeployment,
        others: impl Iterator<Item = &'a CSIDriverDeployment>,
    ) -> Result<(), Vec<String>> {
        let uid = instance.uid().unwrap_or_default();
        let mut state = self.state.lock();
        let mut busy = state.under_way.clone();
        let begun = others.filter(|it| is_looked_after(it) && is_rolling(it));
        busy.extend(begun.map(|it| (it.uid().unwrap_or_default(), title(it))));
        busy.remove(&uid);
        let is_ahead = state.waiting.front().is_none_or(|(first, _)| *first == uid);
        if state.under_way.contains_key(&uid) || (busy.len() < self.limit && is_ahead) {
            state.waiting.retain(|(waiting, _)| *waiting != uid);
            state.under_way.insert(uid, title(instance));
            return Ok(());
        }
        if !state.waiting.iter().any(|(waiting, _)| *waiting == uid) {
            let namespace = instance.namespace().unwrap_or_default();
            let instance = ObjectRef::new(&instance.name_any()).within(&namespace);
            state.waiting.push_back((uid, instance));
        }
        Err(busy.into_values().collect())
    }

    /// An instance that waited wants nothing any more: it holds nobody up. Called twice: it is not in line.
    pub(super) fn step_aside(&self, uid: &str) {
        let mut state = self.state.lock();
        let is_first = state.waiting.front().is_some_and(|(first, _)| first == uid);
        state.waiting.retain(|(waiting, _)| waiting != uid);
        if is_first {
            self.call_next(&state);
        }
    }

    /// The pods of an instance are replaced, or it is gone or let go: the next one may. Called twice: the second time nobody is told.
    pub(super) fn end(&self, uid: &str) {
        let mut state = self.state.lock();
        let was_waiting = state.waiting.len();
        state.waiting.retain(|(waiting, _)| waiting != uid);
        let is_news = state.under_way.remove(uid).is_some() || state.waiting.len() != was_waiting;
        if is_news {
            self.call_next(&state);
        }
    }

    fn call_next(&self, state: &State) {
        if let Some((_, next)) = state.waiting.front() {
            // Nobody listens before the operator runs.
            let _ = self.next.send(next.clone());
        }
    }
}

/// Whether an update of an instance goes on: what its status says of one that is unmanaged, or about to go, stays as it is.
fn is_looked_after(instance: &CSIDriverDeployment) -> bool {
    let is_managed = management_state(&instance.spec) == ManagementState::Managed;
    is_managed && instance.meta().deletion_timestamp.is_none()
}

/// Whether the status of an instance says that its pods are being replaced.
fn is_rolling(instance: &CSIDriverDeployment) -> bool {
    let status = instance.status.as_ref();
    let mut conditions = status.iter().flat_map(|it| &it.conditions).flatten();
    conditions.any(|it| {
        let reason = it.reason.as_deref();
        let is_going = [Reason::RollingOut, Reason::Draining].map(Reason::as_str);
        it.type_ == PROGRESSING
            && it.status == ConditionStatus::True
            && reason.is_some_and(|reason| is_going.contains(&reason))
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn instance(name: &str, progressing: &str) -> CSIDriverDeployment {
        let condition = json!({"type": "Progressing", "status": "True", "reason": progressing});
        serde_json::from_value(json!({
            "apiVersion": "csidriver.storage.openshift.io/v1alpha1", "kind": "CSIDriverDeployment",
            "metadata": {"name": name, "namespace": "n", "uid": name},
            "spec": {
                "driverName": name, "driverPerNodeTemplate": {}, "driverSocket": "/s", "nodeUpdateStrategy": "Rolling",
            },
            "status": {"conditions": [condition]},
        }))
        .unwrap()
    }

    #[test]
    fn drivers_have_their_turn_one_after_the_other() {
        let rollouts = Rollouts::new(1);
        let [a, b, c] = ["a", "b", "c"].map(|name| instance(name, "Complete"));
        let nobody = std::iter::empty;
        assert_eq!(rollouts.begin(&a, nobody()), Ok(()));
        assert_eq!(rollouts.begin(&a, nobody()), Ok(()), "it has begun");
        assert_eq!(rollouts.begin(&b, nobody()), Err(vec!["n/a".to_owned()]));
        assert_eq!(rollouts.begin(&c, nobody()), Err(vec!["n/a".to_owned()]));
        let mut told = rollouts.next.subscribe();
        rollouts.end("a");
        assert_eq!(told.try_recv().unwrap().name, "b");
        assert!(rollouts.begin(&c, nobody()).is_err(), "it came later");
        assert_eq!(rollouts.begin(&b, nobody()), Ok(()));
        rollouts.end("b");
        rollouts.end("b");
        assert_eq!(rollouts.begin(&c, nobody()), Ok(()));
        // One that is gone holds nobody up.
        assert!(rollouts.begin(&a, nobody()).is_err());
        assert!(rollouts.begin(&b, nobody()).is_err());
        rollouts.end("a");
        rollouts.end("c");
        assert_eq!(rollouts.begin(&b, nobody()), Ok(()));
    }

    #[test]
    fn one_that_wants_nothing_any_more_steps_aside_and_calls_the_next() {
        let rollouts = Rollouts::new(1);
        let [a, b, c] = ["a", "b", "c"].map(|name| instance(name, "Complete"));
        let nobody = std::iter::empty;
        assert_eq!(rollouts.begin(&a, nobody()), Ok(()));
        assert!(rollouts.begin(&b, nobody()).is_err());
        assert!(rollouts.begin(&c, nobody()).is_err());
        let mut told = rollouts.next.subscribe();
        // The one that has its turn goes on; one in the middle of the line is missed by nobody.
        rollouts.step_aside("a");
        assert!(told.try_recv().is_err());
        rollouts.step_aside("b");
        assert_eq!(told.try_recv().unwrap().name, "c");
        rollouts.end("a");
        assert_eq!(told.try_recv().unwrap().name, "c");
        assert_eq!(rollouts.begin(&c, nobody()), Ok(()));
    }

    #[test]
    fn nobody_waits_for_what_the_status_of_an_instance_says_that_is_left_alone() {
        let a = instance("a", "Complete");
        let mut unmanaged = instance("b", "RollingOut");
        unmanaged.spec.management_state = Some("Unmanaged".to_owned());
        let mut leaving = instance("c", "Draining");
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        for other in [unmanaged, leaving] {
            let all = [a.clone(), other];
            assert_eq!(Rollouts::new(1).begin(&a, all.iter()), Ok(()));
        }
    }

    #[test]
    fn a_new_operator_waits_for_whom_the_one_before_it_has_begun_with() {
        let rollouts = Rollouts::new(1);
        let (a, b) = (instance("a", "Complete"), instance("b", "RollingOut"));
        let all = [a.clone(), b.clone()];
        assert_eq!(rollouts.begin(&a, all.iter()), Err(vec!["n/b".to_owned()]));
        assert!(Rollouts::new(2).begin(&a, all.iter()).is_ok());
        let waits = [a.clone(), instance("b", "WaitingForDeletion")];
        assert!(rollouts.begin(&a, waits.iter()).is_ok());
    }
}
