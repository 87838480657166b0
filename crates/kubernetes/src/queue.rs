//! Work that waits, one entry per object.
//!
//! An object is worked on by one worker at a time and waits once, however often it is added. What fails comes back
//! after a pause that doubles; an object that changed meanwhile comes back at once. Nothing is ever given up.
//! A panic in the work on one object is that object's failure and nobody else's.

mod metrics;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
pub use stowage_api::backoff::Backoff;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use metrics::QueueMetrics;

/// How many objects an empty queue keeps room for.
const KEPT_ROOM: usize = 256;

/// The name of an object: a uid, or a name.
pub type Key = Arc<str>;

/// What came of the work on an object.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing is left to do until the object changes.
    Done,
    /// Try again, later each time. The text says what is wrong, for metrics and people.
    Retry(String),
    /// Try again after this time; where it is a failure, the text says what is wrong.
    After(Duration, Option<String>),
}

/// A queue. Clones are the same queue.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    backoff: Backoff,
    state: Mutex<State>,
    changed: Notify,
    metrics: QueueMetrics,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    ready: VecDeque<Key>,
    /// When entries that wait become ready. An entry that changed its mind is found by its own `stage`.
    timers: BinaryHeap<Reverse<(Instant, Key)>>,
}

struct Entry {
    stage: Stage,
    failures: u32,
    failing_since: Option<Instant>,
    error: Option<String>,
}

enum Stage {
    Waiting(Instant),
    Ready {
        since: Instant,
    },
    /// `again`: something changed meanwhile, and is to be looked at from then on.
    Running {
        since: Instant,
        again: Option<Instant>,
    },
}

impl Queue {
    /// An empty queue; `name` is its label in the metrics.
    pub fn new(name: &'static str, backoff: Backoff, registry: &mut Registry) -> Self {
        let shared = Arc::new(Shared {
            name,
            backoff,
            state: Mutex::default(),
            changed: Notify::new(),
            metrics: QueueMetrics::of(name, registry),
        });
        registry.register_collector(Box::new(metrics::Snapshot(Arc::clone(&shared))));
        Self { shared }
    }

    /// There is something to do for this object now, even if it waits because of a failure.
    pub fn add(&self, key: impl Into<Key>) {
        let key = key.into();
        self.shared.metrics.adds.inc();
        self.shared.state.lock().add(key);
        self.shared.changed.notify_one();
    }

    /// There is something to do for this object after a while, unless it waits already.
    pub fn add_after(&self, key: impl Into<Key>, delay: Duration) {
        let key = key.into();
        self.shared.state.lock().add_at(key, Instant::now() + delay);
        self.shared.changed.notify_one();
    }

    /// How many objects are in the queue, whatever they do there.
    pub fn len(&self) -> usize {
        self.shared.state.lock().entries.len()
    }

    /// Whether nothing is in the queue.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Works on what comes, on `workers` objects at a time, until `stop`; then finishes what is under way.
    pub async fn run<W, F>(&self, workers: usize, stop: CancellationToken, work: W)
    where
        W: Fn(Key) -> F,
        F: Future<Output = Verdict> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let mut keys = HashMap::new();
        while !stop.is_cancelled() {
            let next_timer = self.shared.state.lock().advance();
            while running.len() < workers {
                let Some(key) = self.shared.take_ready() else {
                    break;
                };
                let handle = running.spawn(work(Arc::clone(&key)));
                keys.insert(handle.id(), key);
            }
            let timer = async {
                match next_timer {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(ended) = running.join_next_with_id() => self.settle(ended, &mut keys),
                () = self.shared.changed.notified() => {}
                () = timer => {}
                () = stop.cancelled() => {}
            }
        }
        while let Some(ended) = running.join_next_with_id().await {
            self.settle(ended, &mut keys);
        }
    }

    fn settle(
        &self,
        ended: Result<(tokio::task::Id, Verdict), tokio::task::JoinError>,
        keys: &mut HashMap<tokio::task::Id, Key>,
    ) {
        let (id, verdict) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let verdict = Verdict::Retry("the work panicked; the log says where".to_owned());
                (error.id(), verdict)
            }
        };
        if let Some(key) = keys.remove(&id) {
            self.shared.settle(key, verdict);
        }
    }
}

impl Shared {
    fn take_ready(&self) -> Option<Key> {
        let mut state = self.state.lock();
        let key = state.ready.pop_front()?;
        let now = Instant::now();
        if let Some(entry) = state.entries.get_mut(&key) {
            if let Stage::Ready { since } = entry.stage {
                self.metrics.waited.observe((now - since).as_secs_f64());
            }
            entry.stage = Stage::Running {
                since: now,
                again: None,
            };
        }
        Some(key)
    }

    fn settle(&self, key: Key, verdict: Verdict) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(&key) else {
            return;
        };
        let Stage::Running { since, again } = entry.stage else {
            return;
        };
        self.metrics.worked.observe(since.elapsed().as_secs_f64());
        let pause = match verdict {
            Verdict::Done => {
                entry.succeeded();
                None
            }
            Verdict::Retry(error) => {
                self.metrics.retries.inc();
                entry.failed(error);
                Some(self.backoff.after(entry.failures))
            }
            Verdict::After(pause, error) => {
                match error {
                    Some(error) => entry.failed(error),
                    None => entry.succeeded(),
                }
                Some(pause)
            }
        };
        let now = Instant::now();
        match again.or(pause.map(|pause| now + pause)) {
            None => {
                state.entries.remove(&key);
                state.shrink();
            }
            Some(at) if at <= now => state.make_ready(key),
            Some(at) => state.wait(key, at),
        }
    }
}

impl Entry {
    fn new(stage: Stage) -> Self {
        Self {
            stage,
            failures: 0,
            failing_since: None,
            error: None,
        }
    }

    fn failed(&mut self, error: String) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert_with(Instant::now);
        self.error = Some(error);
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.failing_since = None;
        self.error = None;
    }
}

impl State {
    /// Something changed: the object is to be worked on, after the worker that has it now.
    fn add(&mut self, key: Key) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.stage) {
            Some(Stage::Ready { .. }) => {}
            Some(Stage::Running { again, .. }) => *again = Some(Instant::now()),
            Some(Stage::Waiting(_)) | None => self.make_ready(key),
        }
    }

    /// The same, later. What waits already keeps its time.
    fn add_at(&mut self, key: Key, at: Instant) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.stage) {
            Some(Stage::Ready { .. } | Stage::Waiting(_)) => {}
            Some(Stage::Running { again, .. }) => {
                again.get_or_insert(at);
            }
            None => self.wait(key, at),
        }
    }

    fn make_ready(&mut self, key: Key) {
        let since = Instant::now();
        self.set_stage(&key, Stage::Ready { since });
        self.ready.push_back(key);
    }

    fn wait(&mut self, key: Key, until: Instant) {
        self.set_stage(&key, Stage::Waiting(until));
        self.timers.push(Reverse((until, key)));
    }

    fn set_stage(&mut self, key: &Key, stage: Stage) {
        match self.entries.get_mut(key) {
            Some(entry) => entry.stage = stage,
            None => {
                self.entries.insert(Arc::clone(key), Entry::new(stage));
            }
        }
    }

    /// Gives back what a start with thousands of objects took, once all is done.
    fn shrink(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > KEPT_ROOM {
            *self = Self::default();
        }
    }

    /// Makes ready what has waited long enough; says when to look again.
    fn advance(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(Reverse((at, _))) = self.timers.peek() {
            if *at > now {
                return Some(*at);
            }
            let Some(Reverse((at, key))) = self.timers.pop() else {
                break;
            };
            // A timer whose entry was taken up meanwhile means nothing any more.
            let waits = matches!(self.entries.get(&key), Some(Entry { stage: Stage::Waiting(until), .. }) if *until == at);
            if waits {
                self.make_ready(key);
            }
        }
        None
    }
}
