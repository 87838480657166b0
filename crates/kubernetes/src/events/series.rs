//! What was said how often, and what to write next. Decides; never writes.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use stowage_api::backoff::Backoff;
use tokio::time::Instant;

use super::{Note, cut};

/// The same thing said again within this time is the same Event.
pub(super) const WINDOW: Duration = Duration::from_secs(600);
/// Between two writes of one Event.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(5),
    longest: Duration::from_secs(300),
};
/// How many different things are remembered.
pub(super) const MOST: usize = 2048;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What tells things apart that were said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    fn of(note: &Note) -> Self {
        let Note {
            object,
            component,
            event_type,
            reason,
            message,
            at: _,
        } = note;
        let mut hasher = DefaultHasher::new();
        (&object.uid, &object.kind, &object.namespace, &object.name).hash(&mut hasher);
        (component, event_type, reason, message).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A write to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: Key,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) count: i32,
    pub(super) last: Timestamp,
    /// What to make; none: raise the count of what is there.
    pub(super) create: Option<Box<Note>>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The Event is there no more: the next time is a new one.
    Gone,
    /// It will never be taken.
    Refused,
    /// Later, perhaps.
    Failed,
}

/// One thing, said once or more.
#[derive(Debug)]
struct Said {
    namespace: String,
    name: String,
    /// Until the Event is there.
    note: Option<Box<Note>>,
    count: i32,
    written: i32,
    /// The count of the write under way.
    writing: Option<i32>,
    last: Timestamp,
    heard: Instant,
    /// Not written again before.
    rest_until: Instant,
    /// How often it was sent.
    attempts: u32,
}

impl Said {
    fn new(note: Note, number: u64, now: Instant) -> Self {
        let object = &note.object;
        let mut name = object.name.clone().unwrap_or_default();
        // As client-go names them, and a number of our own: two things may be said in one nanosecond.
        let suffix = format!(".{:x}{number:x}", note.at.as_nanosecond());
        cut(&mut name, LONGEST_NAME - suffix.len());
        // What is cut may end in a dot or dash, and a name may not have two in a row.
        let name = name.trim_end_matches(['.', '-']);
        Self {
            namespace: object
                .namespace
                .clone()
                .unwrap_or_else(|| "default".to_owned()),
            name: format!("{name}{suffix}"),
            count: 1,
            written: 0,
            writing: None,
            last: note.at,
            heard: now,
            rest_until: now,
            attempts: 0,
            note: Some(Box::new(note)),
        }
    }

    fn is_idle(&self) -> bool {
        self.writing.is_none() && self.written == self.count
    }

    fn is_recent(&self, now: Instant) -> bool {
        now.duration_since(self.heard) < WINDOW
    }

    fn rest(&mut self, now: Instant) {
        self.attempts = self.attempts.saturating_add(1);
        self.rest_until = now + PAUSES.after(self.attempts);
    }
}

/// All that was said lately.
#[derive(Debug, Default)]
pub(super) struct Series {
    said: HashMap<Key, Said>,
    /// What is to be written, and when. What is being written is not in it.
    due: BTreeSet<(Instant, Key)>,
    number: u64,
    ending: bool,
}

impl Series {
    /// Takes note. False: there is too much already.
    pub(super) fn add(&mut self, note: Note, now: Instant) -> bool {
        let key = Key::of(&note);
        if let Some(said) = self.said.get_mut(&key)
            && (said.is_recent(now) || !said.is_idle())
        {
            said.count = said.count.saturating_add(1);
            said.last = note.at;
            said.heard = now;
            if said.writing.is_none() {
                self.due.insert((said.rest_until, key));
            }
            return true;
        }
        if self.said.len() >= MOST {
            self.make_room(now);
        }
        if self.said.len() >= MOST {
            return false;
        }
        self.number += 1;
        self.said.insert(key, Said::new(note, self.number, now));
        self.due.insert((now, key));
        true
    }

    /// Forgets what nobody has said for long.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.said
            .retain(|_, said| said.is_recent(now) || !said.is_idle());
    }

    /// Forgets what is written, if need be all of it: said again, it is an Event of its own.
    fn make_room(&mut self, now: Instant) {
        self.tidy(now);
        if self.said.len() >= MOST {
            self.said.retain(|_, said| !said.is_idle());
        }
    }

    /// The next write, if its time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Job> {
        let (at, key) = *self.due.first()?;
        if at > now && !self.ending {
            return None;
        }
        self.due.pop_first();
        let said = self.said.get_mut(&key)?;
        said.writing = Some(said.count);
        Some(Job {
            key,
            namespace: said.namespace.clone(),
            name: said.name.clone(),
            count: said.count,
            last: said.last,
            create: said.note.clone(),
        })
    }

    /// How many writes are to be made.
    pub(super) fn waiting(&self) -> usize {
        self.due.len()
    }

    /// When the next write is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A write has ended. False: its thing stays unsaid.
    pub(super) fn settle(&mut self, key: Key, outcome: Outcome, now: Instant) -> bool {
        let Some(said) = self.said.get_mut(&key) else {
            return true;
        };
        let count = said.writing.take().unwrap_or(said.count);
        said.rest(now);
        let keep = match outcome {
            Outcome::Written => {
                said.written = count;
                said.note = None;
                true
            }
            Outcome::Failed => said.is_recent(now) && !self.ending,
            Outcome::Gone | Outcome::Refused => false,
        };
        if !keep {
            self.said.remove(&key);
        } else if !said.is_idle() {
            self.due.insert((said.rest_until, key));
        }
        keep || outcome == Outcome::Gone
    }

    /// From now on everything is due at once, and nothing is tried twice.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }
}
