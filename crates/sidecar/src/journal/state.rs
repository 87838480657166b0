//! Who waits for what, and what to write next. Decides; never writes.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::JournalError;
use super::entries::{Entries, Kept};

/// How long drops wait for company: an entry too many costs nothing but room.
const LAZY: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<(), JournalError>>;

/// An entry to be written, and who waits for it.
struct Ticket {
    entry: Kept,
    answer: Answer,
}

/// When there is something to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Instant),
    /// When something changes.
    Idle,
}

/// What is to be written.
pub(super) struct Draft {
    entries: Entries,
    pub(super) text: String,
}

/// What the write under way settles, if it succeeds.
#[derive(Default)]
struct UnderWay {
    tickets: Vec<Ticket>,
    dropped: BTreeSet<String>,
    dropped_since: Option<Instant>,
    flushes: Vec<Answer>,
}

/// The journal in memory, and what waits to be in it.
pub(super) struct State {
    limit: usize,
    /// What is durable, without what is forgotten.
    entries: Entries,
    waiting: VecDeque<Ticket>,
    /// Forgotten since the last write, and since when.
    dropped: BTreeSet<String>,
    dropped_since: Option<Instant>,
    flushes: Vec<Answer>,
    /// The Lease is not what was last written.
    rewrite: bool,
    under_way: UnderWay,
    ended: Option<JournalError>,
}

impl State {
    pub(super) fn new(entries: Entries, limit: usize) -> Self {
        Self {
            limit,
            entries,
            waiting: VecDeque::new(),
            dropped: BTreeSet::new(),
            dropped_since: None,
            flushes: Vec::new(),
            rewrite: false,
            under_way: UnderWay::default(),
            ended: None,
        }
    }

    /// What is durable.
    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    pub(super) fn ended(&self) -> Option<&JournalError> {
        self.ended.as_ref()
    }

    /// Puts an entry in line. `None`: it is there already.
    pub(super) fn ask(
        &mut self,
        entry: Kept,
    ) -> Result<Option<oneshot::Receiver<Result<(), JournalError>>>, JournalError> {
        self.still_open()?;
        let bytes = Entries::default().bytes_with(&entry);
        if bytes > self.limit {
            let claim = &entry.intent.claim;
            return Err(JournalError::TooLarge {
                claim: format!("{}/{}", claim.namespace, claim.name),
                bytes,
                limit: self.limit,
            });
        }
        let same = |kept: &Kept| kept.intent == entry.intent;
        if self.entries.get(entry.uid()).is_some_and(same) {
            self.entries.adopt(entry.uid());
            return Ok(None);
        }
        let (answer, receiver) = oneshot::channel();
        self.waiting.push_back(Ticket { entry, answer });
        Ok(Some(receiver))
    }

    pub(super) fn ask_for_flush(
        &mut self,
    ) -> Result<oneshot::Receiver<Result<(), JournalError>>, JournalError> {
        self.still_open()?;
        let (answer, receiver) = oneshot::channel();
        self.flushes.push(answer);
        Ok(receiver)
    }

    pub(super) fn forget(&mut self, uid: &str, now: Instant) {
        let being_written = self
            .under_way
            .tickets
            .iter()
            .any(|ticket| ticket.entry.uid() == uid);
        if self.entries.remove(uid) || being_written {
            self.dropped.insert(uid.to_owned());
            self.dropped_since.get_or_insert(now);
        }
    }

    /// Whether the first in line waits for room.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.front().is_some_and(|first| !self.fits(first))
    }

    fn fits(&self, ticket: &Ticket) -> bool {
        self.entries.bytes_with(&ticket.entry) <= self.limit
    }

    /// When to write. At the end nothing is put off any more.
    pub(super) fn due(&mut self, ending: bool) -> Due {
        self.waiting.retain(|ticket| !ticket.answer.is_closed());
        let first_fits = self.waiting.front().is_some_and(|first| self.fits(first));
        if first_fits || self.rewrite {
            return Due::Now;
        }
        match self.dropped_since {
            Some(_) if ending || !self.flushes.is_empty() => Due::Now,
            Some(since) => Due::At(since + LAZY),
            None => {
                // Nothing to write is as good as written.
                for answer in self.flushes.drain(..) {
                    let _ = answer.send(Ok(()));
                }
                Due::Idle
            }
        }
    }

    /// All that can be written now: everything forgotten, and of those in line as many as fit, in order.
    pub(super) fn draft(&mut self) -> Draft {
        // A write that was given up, if any, is part of this one.
        self.retreat();
        let mut entries = self.entries.clone();
        while let Some(ticket) = self.waiting.pop_front() {
            if ticket.answer.is_closed() {
                continue;
            }
            if entries.bytes_with(&ticket.entry) > self.limit {
                self.waiting.push_front(ticket);
                break;
            }
            entries.insert(ticket.entry.clone());
            self.under_way.tickets.push(ticket);
        }
        self.under_way.dropped = mem::take(&mut self.dropped);
        self.under_way.dropped_since = self.dropped_since.take();
        self.under_way.flushes = mem::take(&mut self.flushes);
        let text = entries.text();
        Draft { entries, text }
    }

    /// The draft is durable.
    pub(super) fn settle(&mut self, draft: Draft) {
        self.entries = draft.entries;
        let done = mem::take(&mut self.under_way);
        // Forgotten while it was written.
        for uid in &self.dropped {
            self.entries.remove(uid);
        }
        self.rewrite = false;
        let tickets = done.tickets.into_iter().map(|ticket| ticket.answer);
        for answer in tickets.chain(done.flushes) {
            let _ = answer.send(Ok(()));
        }
    }

    /// The draft was not written, or nobody knows: all of it is still to be done, those in line first.
    pub(super) fn retreat(&mut self) {
        let undone = mem::take(&mut self.under_way);
        for ticket in undone.tickets.into_iter().rev() {
            self.waiting.push_front(ticket);
        }
        self.dropped.extend(undone.dropped);
        self.dropped_since = undone.dropped_since.or(self.dropped_since);
        self.flushes.extend(undone.flushes);
    }

    /// Another process of the node wrote as well: keep what it has.
    pub(super) fn merge(&mut self, theirs: Entries) {
        let dropped = &self.dropped;
        self.entries.merge(theirs, |uid| dropped.contains(uid));
    }

    /// The Lease holds `stored`: write again unless that is what should be there.
    pub(super) fn compare(&mut self, stored: Option<&str>) {
        self.rewrite = stored != Some(self.entries.text().as_str());
    }

    /// Nothing is written any more: everybody who waits hears why. The first reason stays.
    pub(super) fn end(&mut self, reason: JournalError) {
        self.retreat();
        let reason = self.ended.get_or_insert(reason).clone();
        let tickets = self.waiting.drain(..).map(|ticket| ticket.answer);
        for answer in tickets.chain(self.flushes.drain(..)) {
            let _ = answer.send(Err(reason.clone()));
        }
    }

    fn still_open(&self) -> Result<(), JournalError> {
        self.ended.clone().map_or(Ok(()), Err)
    }
}
