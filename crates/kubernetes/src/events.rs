//! What people read under `kubectl describe`: Events on claims, volumes and attachments.
//!
//! Recording one never waits and never fails: what cannot be written in time is dropped and counted. The same Event
//! again raises the count of the one that is there, ever less often, so that an object that fails for hours costs a
//! handful of writes. Work comes first: while one Event follows the other they wait, because each costs the API server as
//! much as a volume does; see [`at_once`].
//!
//! | file | holds |
//! |---|---|
//! | `series` | which Events there are, how often they were recorded, and what to write next: no I/O |
//! | `write` | an Event made or raised on the API server |

mod series;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use stowage_service::{Metrics, Process};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::series::{Job, Key, Outcome, Series};
use self::write::Forbidden;

/// How many Events can be recorded before the first of them is looked at.
const BACKLOG: usize = 1024;
/// How many requests are under way at a time, at the most.
const AT_ONCE: usize = 4;
/// Events that come closer together than this are a burst.
const CALM: Duration = Duration::from_millis(150);
/// How long an Event waits for the end of a burst.
const LONGEST_HOLD: Duration = Duration::from_secs(2);
/// So many wait for the end of a burst.
const MOST_HELD: usize = series::MOST / 2;
/// How long the last Events may take once the process is to end.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// The longest message, in bytes: what client-go's recorder and the newer Events agree on.
pub const LONGEST_MESSAGE: usize = 1024;

/// Kubernetes' two types of Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EventType {
    Normal,
    Warning,
}

/// One Event about one object, as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    object: ObjectReference,
    component: Arc<str>,
    event_type: EventType,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

/// Records Events about objects. Clones share one backlog.
#[derive(Clone)]
pub struct Events {
    component: Arc<str>,
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    backlog: mpsc::Sender<Note>,
    /// Held by the task that writes.
    notes: Mutex<mpsc::Receiver<Note>>,
    written: Counter,
    dropped: Counter,
}

impl Events {
    /// Nothing is written before [`Events::run`]. `component` is the source of the Events, such as
    /// `external-provisioner DRIVER`.
    pub fn new(client: Client, component: &str, metrics: &Metrics) -> Self {
        let (backlog, notes) = mpsc::channel(BACKLOG);
        let (written, dropped) = (Counter::default(), Counter::default());
        metrics.register(
            "stowage_events_written",
            "Writes of Events",
            written.clone(),
        );
        metrics.register(
            "stowage_events_dropped",
            "Events that were not written: too many at once, or refused by the API server",
            dropped.clone(),
        );
        let notes = Mutex::new(notes);
        let shared = Shared {
            client,
            backlog,
            notes,
            written,
            dropped,
        };
        Self {
            component: component.into(),
            shared: Arc::new(shared),
        }
    }

    /// The same, written by a task of the process. Dropping the guard ends the task: keep it for longer than those who
    /// record.
    pub fn start(client: Client, component: &str, process: &Process) -> (Self, DropGuard) {
        let events = Self::new(client, component, &process.metrics);
        let (writing, stop) = (events.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let task = async move { writing.run(stopped).await };
        process.tasks.spawn("events", task);
        (events, stop.drop_guard())
    }

    /// The same with another component as the source.
    pub fn as_component(&self, component: &str) -> Self {
        Self {
            component: component.into(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Something happened as it should. The message must not hold secrets.
    pub fn normal(
        &self,
        object: ObjectReference,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.record(object, EventType::Normal, reason, message.into());
    }

    /// Something is wrong, and somebody may have to act. The message must not hold secrets.
    pub fn warning(
        &self,
        object: ObjectReference,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.record(object, EventType::Warning, reason, message.into());
    }

    fn record(
        &self,
        object: ObjectReference,
        event_type: EventType,
        reason: &'static str,
        mut message: String,
    ) {
        cut(&mut message, LONGEST_MESSAGE);
        let note = Note {
            object,
            component: Arc::clone(&self.component),
            event_type,
            reason,
            message,
            at: Timestamp::now(),
        };
        if self.shared.backlog.try_send(note).is_err() {
            self.shared.dropped.inc();
        }
    }

    /// Writes what was recorded, until `stop`; then the rest, for a moment. Called twice: the second call waits for the
    /// first to end.
    pub async fn run(&self, stop: CancellationToken) {
        let mut notes = self.shared.notes.lock().await;
        let mut writer = Writer::new(&self.shared);
        writer.write_until(&mut notes, &stop).await;
        if timeout(LAST_WRITES, writer.finish(&mut notes))
            .await
            .is_err()
        {
            tracing::warn!("Some Events could not be written before the end.");
        }
    }
}

/// Shortens a text to at most `most` bytes, between two characters.
pub fn cut(text: &mut String, most: usize) {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=most.min(text.len())).rev().find(fits);
    text.truncate(end.unwrap_or(0));
}

/// The task that writes.
struct Writer<'a> {
    shared: &'a Shared,
    series: Series,
    writing: JoinSet<(Key, Result<Outcome, Forbidden>)>,
    reported_forbidden: bool,
    /// When the last Event was recorded.
    heard: Instant,
}

/// How many Events may be under way: few during a burst, so that the work that is being told of is not slowed down by
/// the telling. `waiting` are those that are due, and since when the first of them is.
fn at_once(now: Instant, heard: Instant, waiting: usize, since: Instant) -> usize {
    if now.duration_since(heard) >= CALM || waiting > MOST_HELD {
        AT_ONCE
    } else {
        usize::from(now.duration_since(since) >= LONGEST_HOLD)
    }
}

impl<'a> Writer<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            series: Series::default(),
            writing: JoinSet::new(),
            reported_forbidden: false,
            heard: Instant::now(),
        }
    }

    async fn write_until(&mut self, notes: &mut mpsc::Receiver<Note>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let next = self.start_what_is_due(Instant::now());
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(note) = notes.recv() => self.add(note),
                Some(ended) = self.writing.join_next() => self.settle(ended),
                () = due => {}
                () = sleep(series::WINDOW) => self.series.tidy(Instant::now()),
                () = stop.cancelled() => {}
            }
        }
    }

    /// Writes all that is known, at once, each Event once.
    async fn finish(&mut self, notes: &mut mpsc::Receiver<Note>) {
        while let Ok(note) = notes.try_recv() {
            self.add(note);
        }
        self.series.end();
        loop {
            while self.writing.len() < AT_ONCE
                && let Some(job) = self.series.take_due(Instant::now())
            {
                self.start(job);
            }
            match self.writing.join_next().await {
                Some(ended) => self.settle(ended),
                None => return,
            }
        }
    }

    fn add(&mut self, note: Note) {
        self.heard = Instant::now();
        if !self.series.add(note, self.heard) {
            self.shared.dropped.inc();
        }
    }

    /// Starts the writes that are due and may begin, and returns when to look again; none: when a write ends.
    fn start_what_is_due(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let due = self.series.next_due()?;
            if due > now {
                return Some(due);
            }
            let most = at_once(now, self.heard, self.series.waiting(), due);
            if self.writing.len() >= most {
                let calm = self.heard + CALM;
                let turn = if most == 0 {
                    calm.min(due + LONGEST_HOLD)
                } else {
                    calm
                };
                return (most < AT_ONCE).then_some(turn);
            }
            let job = self.series.take_due(now)?;
            self.start(job);
        }
    }

    fn start(&mut self, job: Job) {
        let client = self.shared.client.clone();
        let written = self.shared.written.clone();
        self.writing.spawn(async move {
            let outcome = write::send(client, &job).await;
            if let Ok(Outcome::Written) = outcome {
                written.inc();
            }
            (job.key, outcome)
        });
    }

    fn settle(&mut self, ended: Result<(Key, Result<Outcome, Forbidden>), tokio::task::JoinError>) {
        // A write that panicked leaves its Event unwritten, and the log says where.
        let Ok((key, outcome)) = ended else {
            return;
        };
        let outcome = outcome.unwrap_or_else(|forbidden| {
            if !self.reported_forbidden {
                self.reported_forbidden = true;
                tracing::error!(error = %forbidden, "Events cannot be written; everything else goes on.");
            }
            Outcome::Failed
        });
        if !self.series.settle(key, outcome, Instant::now()) {
            self.shared.dropped.inc();
        }
    }
}
