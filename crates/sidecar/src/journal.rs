//! The intents that are under way, durable in one Lease.
//!
//! An intent is in the journal before the driver hears of it, and leaves it when its volume has an object or is known
//! not to exist. So a process that dies at any line leaves behind either a volume nobody was asked for, or an entry
//! that the next process resolves. Secrets are never in it, only references to them.
//!
//! | file | holds |
//! |---|---|
//! | `document` | the text that is stored, and back |
//! | `entries` | the entries, what they share, and their size: no I/O |
//! | `state` | who waits for what, and what to write next: no I/O |
//! | `lease` | the Lease: read, created, updated |
//! | `writer` | the one task that writes |
//! | `abandoned` | a journal of a node, seen by another one |
//! | [`listing`] | what is in a journal, for people |
//!
//! Guarantees:
//! - One task writes, and one write serves everything that waits.
//! - Each write is an update of what was last seen. Of two processes on one exclusive journal exactly one goes on
//!   recording: the one that opened it last. The other one learns it at its next write, or
//!   within ten seconds.
//! - What cannot be read is never overwritten.

mod abandoned;
mod document;
mod entries;
mod error;
mod lease;
pub mod listing;
mod metrics;
mod name;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use parking_lot::Mutex;
use stowage_service::Metrics;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(crate) use self::abandoned::Abandoned;
use self::document::KnownSets;
use self::entries::{Entries, Kept};
pub use self::error::JournalError;
use self::lease::IntentLease;
use self::metrics::JournalMetrics;
pub use self::name::journal_name;
use self::state::State;
use self::writer::Writer;
use crate::intent::{Intent, Origin};

/// The journal's size at most. A server takes 256 KiB of annotations.
pub const LIMIT: usize = 200_000;
/// How long the last write may take once the process is to end.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Who else may write to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: whoever opens it takes it over, and the process that had it must end.
    Exclusive,
    /// The processes of one node, of which there are two while one replaces the other: their entries are merged.
    PerNode,
}

/// Where a journal is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The Lease's.
    pub namespace: &'a str,
    /// The Lease's.
    pub name: &'a str,
    /// This process's own, not shared with the one before it on the same host.
    pub identity: &'a str,
    /// Whose it is.
    pub driver: &'a str,
    /// On which node, where each has one.
    pub node: Option<&'a str>,
}

/// A journal. Clones are the same journal.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    lost: CancellationToken,
    opened: watch::Sender<bool>,
    /// Where intents are written down, once it is open.
    cluster: OnceLock<Option<String>>,
    known_sets: KnownSets,
    metrics: JournalMetrics,
    /// As `namespace/name`, for people.
    lease: String,
    /// Held by the task that writes.
    writer: tokio::sync::Mutex<Writer>,
}

impl Journal {
    /// The journal in this place. Nothing is read yet, and nothing can be recorded: see [`Journal::open`].
    pub fn new(client: Client, place: Place<'_>, sharing: Sharing, metrics: &Metrics) -> Self {
        let lease = IntentLease::new(client, place);
        let shared = Shared {
            state: Mutex::new(State::new(Entries::default(), LIMIT)),
            changed: Notify::new(),
            lost: CancellationToken::new(),
            opened: watch::Sender::new(false),
            cluster: OnceLock::new(),
            known_sets: KnownSets::default(),
            metrics: JournalMetrics::register(metrics),
            lease: lease.to_string(),
            writer: tokio::sync::Mutex::new(Writer::new(lease, sharing)),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Reads the journal and takes it over; makes the Lease where there is none. Intents are written down as of
    /// `cluster` from here on. Called again after an error: tries again.
    pub async fn open(&self, cluster: Option<String>) -> Result<(), JournalError> {
        let entries = self.shared.writer.lock().await.open().await?;
        self.shared.metrics.writes.inc();
        let mut state = self.shared.state.lock();
        *state = State::new(entries, LIMIT);
        self.shared.show(&state);
        drop(state);
        let _ = self.shared.cluster.set(cluster);
        self.shared.opened.send_replace(true);
        Ok(())
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        *self.shared.opened.borrow()
    }

    /// Returns when it is open.
    pub async fn opened(&self) {
        let mut opened = self.shared.opened.subscribe();
        // The sender lives as long as we do.
        let _ = opened.wait_for(|opened| *opened).await;
    }

    /// The cluster that intents are written down as of; none while nobody knows.
    pub fn cluster(&self) -> Option<&str> {
        self.shared.cluster.get()?.as_deref()
    }

    /// Of the Lease.
    pub fn namespace(&self) -> &str {
        let namespace = self.shared.lease.split('/').next();
        namespace.unwrap_or_default()
    }

    /// The Lease, for Events.
    pub fn reference(&self) -> ObjectReference {
        let (namespace, name) = self.shared.lease.split_once('/').unwrap_or_default();
        lease::reference(namespace, name)
    }

    /// Writes what is to be written, until `stop`; then once more, within a few seconds.
    ///
    /// Cancel `stop` only after those who record have ended: records that still wait then fail. Called twice: the
    /// second call waits for the first to end.
    pub async fn run(&self, stop: CancellationToken) {
        let mut writer = self.shared.writer.lock().await;
        let too_late = async {
            stop.cancelled().await;
            sleep(LAST_WRITE).await;
        };
        tokio::select! {
            () = writer.work(&self.shared, &stop) => {}
            () = too_late => tracing::warn!(
                lease = %self.shared.lease,
                "The intent journal could not be written at the end; the next process looks at its entries again.",
            ),
        }
        self.shared.state.lock().end(JournalError::Stopped);
    }

    /// Makes an intent durable; returns when it is.
    ///
    /// Waits, in order, while the journal is full or the API server does not answer. A call that is given up before
    /// its entry was sent leaves nothing behind. After that the entry stays: [`Journal::get`] finds it, and it is
    /// harmless, because the driver was not asked for anything yet. Called twice: the same intent is there already;
    /// another one for the same claim replaces it.
    pub async fn record(&self, intent: Intent) -> Result<(), JournalError> {
        let origin = Origin::here(self.cluster().map(str::to_owned));
        let entry = Kept::ours(intent, origin, &self.shared.known_sets);
        let entry = entry.map_err(JournalError::Unwritable)?;
        let Some(answer) = self.shared.state.lock().ask(entry)? else {
            return Ok(());
        };
        // Also wakes the writer when this call is given up: those behind it may fit where this one did not.
        let _wake = WakeWhenDone(&self.shared.changed);
        self.shared.changed.notify_one();
        answer.await.unwrap_or(Err(JournalError::Stopped))
    }

    /// Nothing is under way any more for the claim with this uid. Written with the next entry, or a little later.
    ///
    /// Called twice, or for an entry that does not exist: nothing happens.
    pub fn forget(&self, uid: &str) {
        let mut state = self.shared.state.lock();
        state.forget(uid, Instant::now());
        self.shared.show(&state);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Returns when everything forgotten so far, and everything that waits and has room, is written.
    pub async fn flush(&self) -> Result<(), JournalError> {
        if !self.is_open() {
            return Ok(());
        }
        let answer = self.shared.state.lock().ask_for_flush()?;
        self.shared.changed.notify_one();
        answer.await.unwrap_or(Err(JournalError::Stopped))
    }

    /// The intent for the claim with this uid, if it is durable.
    pub fn get(&self, uid: &str) -> Option<Intent> {
        self.shared
            .state
            .lock()
            .entries()
            .get(uid)
            .map(|kept| kept.intent.clone())
    }

    /// When and where the intent for the claim with this uid was written down; none where nobody said.
    pub fn origin(&self, uid: &str) -> Option<Origin> {
        self.shared.state.lock().entries().get(uid)?.origin.clone()
    }

    /// All durable intents.
    pub fn all(&self) -> Vec<Intent> {
        let state = self.shared.state.lock();
        state
            .entries()
            .iter()
            .map(|kept| kept.intent.clone())
            .collect()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.shared.state.lock().entries().len() == 0
    }

    /// Cancelled when another process took the journal over: all calls must stop, and this process must end.
    pub fn lost(&self) -> CancellationToken {
        self.shared.lost.clone()
    }

    /// Why the journal is lost, to end the process with.
    pub fn loss(&self) -> Option<JournalError> {
        let ended = self.shared.state.lock().ended().cloned();
        ended.filter(|_| self.shared.lost.is_cancelled())
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shared.lease)
    }
}

impl Shared {
    /// Brings the metrics up to date.
    fn show(&self, state: &State) {
        self.metrics.show(state);
    }

    /// Another process has the journal: nothing of ours is written from now on.
    fn lose(&self, holder: String) {
        let loss = JournalError::TakenOver {
            lease: self.lease.clone(),
            holder,
        };
        tracing::error!(error = %loss, "The intent journal is lost.");
        self.state.lock().end(loss);
        self.lost.cancel();
    }
}

/// Wakes the writer when dropped.
struct WakeWhenDone<'a>(&'a Notify);

impl Drop for WakeWhenDone<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
