//! How many claims are worked on at a time. W is `--worker-threads`.
//!
//! | limit | holds claims that | because | as many as |
//! |---|---|---|---|
//! | the queue's width | are worked on at all, or have their intent recorded and wait for a call | each takes memory, and a place in the journal | 6 W |
//! | the [`Gate`] | of these, are planned or wait for the journal | a full journal would take every place of the queue, and those who empty it need some; and each request of a plan is a connection | 2 W |
//! | [`Failing`] | of a class, have failed and may be half made | a backend that is down would fill the journal, and take every call, before others | W in one place, 10 W in all |
//! | the calls | of these, have the driver make the volume, or write its object | so much a driver and a server are asked to do at once | W |
//!
//! Intents are recorded ahead of their calls, so that no call waits for the journal: its writes take their turn among
//! those of volumes, and each serves all claims that wait for it. A gate of twice the calls lets more through with each
//! write than calls end meanwhile.

mod failing;
mod gate;

use stowage_kubernetes::queue::{Key, Queue};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use self::failing::Failing;
use self::gate::{Gate, Inside};
use crate::intent::Intent;

/// Places in the queue for each call at a time.
const WIDTH: usize = 6;
/// Places inside the gate for each call at a time.
const INSIDE: usize = 2;

/// The limits of one provisioner.
pub(crate) struct Limits {
    /// None: nothing new is taken up.
    gate: Option<Gate>,
    failing: Option<Failing>,
    calls: Semaphore,
}

impl Limits {
    /// For claims of `queue`, of which [`width`] are worked on.
    pub(crate) fn new(workers: usize, queue: &Queue) -> Self {
        Self {
            gate: Some(Gate::new(queue.clone(), workers * INSIDE)),
            failing: Some(Failing::new(queue.clone(), workers)),
            ..Self::without_new(workers)
        }
    }

    /// For claims that have an intent: all others are left alone.
    pub(crate) fn without_new(workers: usize) -> Self {
        Self {
            gate: None,
            failing: None,
            calls: Semaphore::new(workers),
        }
    }

    /// A place inside the gate. `None`: there is none now, and the claim comes back when there is.
    pub(crate) fn enter(&self, claim: &Key) -> Option<Inside<'_>> {
        self.gate.as_ref()?.enter(claim)
    }

    /// A claim that came back for a place inside the gate does not need it any more.
    pub(crate) fn pass_on(&self) {
        self.gate.iter().for_each(Gate::next);
    }

    /// Whether a new claim may begin, or waits because others like it fail; then it comes back.
    pub(crate) fn may_begin(&self, intent: &Intent) -> bool {
        let failing = self.failing.as_ref();
        failing.is_none_or(|failing| failing.may_begin(intent))
    }

    /// A call failed, and the volume may be half made.
    pub(crate) fn failed(&self, intent: &Intent) {
        self.failing
            .iter()
            .for_each(|failing| failing.failed(intent));
    }

    /// A claim has its volume, or nothing is left of it.
    pub(crate) fn ended(&self, intent: &Intent, made: bool) {
        let failing = self.failing.iter();
        failing.for_each(|failing| failing.ended(intent, made));
    }

    /// Waits for the right to call the driver.
    pub(crate) async fn call(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.calls.acquire().await
    }
}

/// How many claims are worked on.
pub(crate) fn width(workers: usize) -> usize {
    workers * WIDTH
}
