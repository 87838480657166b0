//! Who waits for what, and what to write next. Decides; never writes.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::JournalError;
use super::document::pack::PLAIN;
use super::entries::{Entries, Kept, Size};

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
}

impl Draft {
    /// Compresses all of it where it is long: not under a lock.
    pub(super) fn text(&self) -> String {
        self.entries.text()
    }
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
    /// What was last written: the length of its text, and how much that was taken for.
    written: (usize, Size),
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
            written: (entries.text().len(), entries.size()),
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
        if let Some(bytes) = self.too_large(&entry) {
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

    /// Whether somebody waits for room.
    pub(super) fn is_full(&self) -> bool {
        // Asked for often, and mostly the answer is plain.
        self.bytes() > self.limit / 2 && self.waiting.iter().any(|ticket| !self.fits(ticket))
    }

    /// How long the text is, or a little more.
    pub(super) fn bytes(&self) -> usize {
        self.length(self.entries.size())
    }

    fn fits(&self, ticket: &Ticket) -> bool {
        self.length(self.entries.size_with(&ticket.entry)) <= self.limit
    }

    /// How long the text of so much would be, or a little more. What was last written is known; what came since is as
    /// heavy as it looks, and what went leaves at least a quarter of that.
    fn length(&self, size: Size) -> usize {
        if size.bytes <= PLAIN {
            return size.bytes;
        }
        let (length, then) = self.written;
        let came = size.weight.saturating_sub(then.weight);
        let went = then.weight.saturating_sub(size.weight);
        (length + came).saturating_sub(went / 4)
    }

    /// The length of the text of an entry that would not fit into an empty journal.
    fn too_large(&self, entry: &Kept) -> Option<usize> {
        let mut alone = Entries::default();
        if alone.size_with(entry).weight <= self.limit / 2 && self.limit > PLAIN {
            return None;
        }
        alone.insert(entry.clone());
        let bytes = alone.text().len();
        (bytes > self.limit).then_some(bytes)
    }

    /// When to write. At the end nothing is put off any more.
    pub(super) fn due(&mut self, ending: bool) -> Due {
        self.waiting.retain(|ticket| !ticket.answer.is_closed());
        let one_fits = self.waiting.iter().any(|ticket| self.fits(ticket));
        if one_fits || self.rewrite {
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

    /// All that can be written now: everything forgotten, and of those in line, in order, all that fit. One that does
    /// not fit holds up no others.
    pub(super) fn draft(&mut self) -> Draft {
        // A write that was given up, if any, is part of this one.
        self.retreat();
        let mut entries = self.entries.clone();
        for ticket in mem::take(&mut self.waiting) {
            if ticket.answer.is_closed() {
                continue;
            }
            if self.length(entries.size_with(&ticket.entry)) > self.limit {
                self.waiting.push_back(ticket);
                continue;
            }
            entries.insert(ticket.entry.clone());
            self.under_way.tickets.push(ticket);
        }
        self.under_way.dropped = mem::take(&mut self.dropped);
        self.under_way.dropped_since = self.dropped_since.take();
        self.under_way.flushes = mem::take(&mut self.flushes);
        Draft { entries }
    }

    /// The draft's text became longer than the journal may be: what is new in it is taken for heavier, and written
    /// later. False: nothing is new in it.
    pub(super) fn lighten(&mut self) -> bool {
        let new = &mut self.under_way.tickets;
        for ticket in &mut *new {
            ticket.entry.take_for_heavier();
        }
        let is_new = !new.is_empty();
        self.retreat();
        is_new
    }

    /// The draft is durable, as a text of this length.
    pub(super) fn settle(&mut self, draft: Draft, length: usize) {
        self.written = (length, draft.entries.size());
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
