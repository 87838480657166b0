//! What happens to requests of the REST API.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::moment::Millis;

/// Trouble for requests that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault<T> {
    /// Requests of this method; all if none.
    #[serde(default)]
    pub method: Option<String>,
    /// Requests whose path below the API's own matches; all if none. `*` stands for one segment or, at the end, for the
    /// whole rest: `fileSystems/*/quota/*`.
    #[serde(default)]
    pub path: Option<String>,
    /// Requests that come to this endpoint; all if none.
    #[serde(default)]
    pub endpoint: Option<usize>,
    /// So many requests are let through first.
    #[serde(default)]
    pub after: u32,
    /// How often; always if none.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens.
    pub trouble: T,
}

/// What happens to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Trouble {
    /// Nothing is done, and this status is the answer.
    Refuse(u16),
    /// The work is done, and this status is the answer all the same.
    DoneButRefused(u16),
    /// Nothing is done, and the connection is closed without an answer.
    Drop,
    /// The work is done, and the connection is closed without an answer.
    #[default]
    DoneButDropped,
    /// The work is done this many milliseconds later.
    Delay(Millis),
    /// The work is done at once, and the answer comes this many milliseconds later.
    DoneButDelayed(Millis),
    /// The work is done once the fault is ended, also if it has struck as often as it was to.
    Hold,
}

/// A fault that is in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveFault<T> {
    /// Its number.
    pub id: u64,
    /// What it is; `after` and `times` count down.
    #[serde(flatten)]
    pub fault: Fault<T>,
}

/// What a request gets into.
#[derive(Clone, Debug)]
pub struct Struck<T> {
    /// What happens to it.
    pub trouble: T,
    /// Until the fault is ended.
    pub ended: CancellationToken,
}

/// The faults in effect.
#[derive(Debug)]
pub struct Faults<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    active: Vec<ActiveFault<T>>,
    next: u64,
    /// The ends of those that have struck, and of those that will not strike any more but may hold somebody.
    ends: HashMap<u64, CancellationToken>,
}

impl<T> Default for Faults<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            active: Vec::new(),
            next: 0,
            ends: HashMap::new(),
        }))
    }
}

impl<T: Clone> Faults<T> {
    /// Puts a fault into effect; returns its number.
    pub fn add(&self, fault: Fault<T>) -> u64 {
        let mut state = self.0.lock();
        let id = state.next;
        state.next += 1;
        state.active.push(ActiveFault { id, fault });
        id
    }

    /// Ends one. Called twice: it is over.
    pub fn remove(&self, id: u64) {
        let mut state = self.0.lock();
        state.active.retain(|active| active.id != id);
        if let Some(end) = state.ends.remove(&id) {
            end.cancel();
        }
    }

    /// Ends all. Called twice: they are over.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.active.clear();
        for (_, end) in state.ends.drain() {
            end.cancel();
        }
    }

    /// Those that strike when a request comes that fits.
    pub fn list(&self) -> Vec<ActiveFault<T>> {
        self.0.lock().active.clone()
    }

    /// What this request gets into: the trouble of the first fault that fits, which then counts it.
    pub fn strike(&self, method: &str, path: &str, endpoint: usize) -> Option<Struck<T>> {
        let state = &mut *self.0.lock();
        for candidate in &mut state.active {
            let fault = &mut candidate.fault;
            if !fits(fault, method, path, endpoint) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            let struck = Struck {
                trouble: fault.trouble.clone(),
                ended: state.ends.entry(candidate.id).or_default().clone(),
            };
            if let Some(times) = &mut fault.times {
                *times = times.saturating_sub(1);
            }
            state.active.retain(|active| active.fault.times != Some(0));
            return Some(struck);
        }
        None
    }
}

fn fits<T>(fault: &Fault<T>, method: &str, path: &str, endpoint: usize) -> bool {
    fault
        .method
        .as_ref()
        .is_none_or(|m| m.eq_ignore_ascii_case(method))
        && fault
            .path
            .as_ref()
            .is_none_or(|pattern| matches(pattern, path))
        && fault.endpoint.is_none_or(|number| number == endpoint)
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut wanted = pattern.trim_matches('/').split('/').peekable();
    let mut given = path.trim_matches('/').split('/');
    while let Some(segment) = wanted.next() {
        let last = wanted.peek().is_none();
        match given.next() {
            Some(_) if segment == "*" && last => return true,
            Some(name) if segment == "*" || segment == name => {}
            _ => return false,
        }
    }
    given.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_by_segment() {
        let table = [
            ("login", "login", true),
            ("login", "login/refresh", false),
            ("login/*", "login", false),
            ("fileSystems/*", "fileSystems/1/quota/2", true),
            ("fileSystems/*/quota/*", "fileSystems/1/quota/2", true),
            ("fileSystems/*/quota/*", "fileSystems/1/mountToken", false),
            ("*", "anything/at/all", true),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_fault_lets_through_strikes_and_ends() {
        let faults = Faults::default();
        faults.add(Fault {
            path: Some("cluster".to_owned()),
            endpoint: Some(1),
            after: 1,
            times: Some(2),
            trouble: Trouble::Refuse(503),
            ..Fault::default()
        });
        let met = |path, endpoint| {
            let struck = faults.strike("GET", path, endpoint);
            struck.map(|struck| struck.trouble)
        };
        let strike = || met("cluster", 1);
        assert_eq!(met("cluster", 0), None);
        assert_eq!(met("kms", 1), None);
        let struck: Vec<_> = (0..4).map(|_| strike()).collect();
        let trouble = Some(Trouble::Refuse(503));
        assert_eq!(struck, [None, trouble.clone(), trouble, None]);
        assert_eq!(faults.list(), []);
    }

    #[test]
    fn whom_a_fault_holds_is_let_go_when_it_is_ended_and_not_when_it_is_used_up() {
        let faults = Faults::default();
        let hold = || Fault {
            times: Some(1),
            trouble: Trouble::Hold,
            ..Fault::default()
        };
        let struck = || faults.strike("GET", "cluster", 0).unwrap().ended;
        let first = (faults.add(hold()), struck());
        let second = (faults.add(hold()), struck());
        assert_eq!(faults.list(), []);
        faults.remove(first.0);
        assert_eq!(
            [&first, &second].map(|(_, end)| end.is_cancelled()),
            [true, false]
        );
        faults.clear();
        assert!(second.1.is_cancelled());
    }
}
