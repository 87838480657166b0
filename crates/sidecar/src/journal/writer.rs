//! The one task that writes the journal.

use std::error::Error as _;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::entries::Entries;
use super::lease::IntentLease;
use super::state::Due;
use super::{JournalError, LIMIT, Shared, Sharing};

/// Between the beginnings of two writes: under load each write serves more entries, and a single claim waits for none.
const PACE: Duration = Duration::from_millis(10);
/// The same, for each byte of the text: a full journal is written every 60 ms at most.
const PACE_PER_BYTE: Duration = Duration::from_nanos(250);
/// How often the Lease is looked at when nothing is written: it may be gone, or another process's.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// After a failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Between two attempts to open a journal that somebody else writes to.
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// A full journal has room for a moment whenever a volume is done: that is not worth a line each time.
const FULL_SAID_EVERY: Duration = Duration::from_secs(600);

/// The task's own memory.
pub(super) struct Writer {
    lease: IntentLease,
    sharing: Sharing,
    /// No request is sent before.
    rest_until: Instant,
    check_at: Instant,
    pause: Duration,
    /// What was said of a failure that lasts; empty when all is well.
    said: String,
    full_said: Option<Instant>,
}

/// What the writer is to do.
enum Call {
    Look,
    Write,
    Check,
}

impl Writer {
    pub(super) fn new(lease: IntentLease, sharing: Sharing) -> Self {
        let now = Instant::now();
        Self {
            lease,
            sharing,
            rest_until: now,
            check_at: now + CHECK_EVERY,
            pause: FIRST_PAUSE,
            said: String::new(),
            full_said: None,
        }
    }

    /// Reads the journal and takes it over.
    pub(super) async fn open(&mut self) -> Result<Entries, JournalError> {
        let (entries, previous) = loop {
            self.lease.read().await?;
            let (entries, previous) = (self.lease.entries()?, self.lease.other_holder());
            if self.lease.write(&entries.text()).await?.is_some() {
                break (entries, previous);
            }
            sleep(OPEN_AGAIN).await;
        };
        if let Some(previous) = previous {
            tracing::info!(lease = %self.lease, %previous, intents = entries.len(), "The intent journal is taken over.");
        }
        Ok(entries)
    }

    /// Writes whatever is due, until `stop` and nothing is left, or the journal is lost.
    pub(super) async fn work(&mut self, shared: &Shared, stop: &CancellationToken) {
        while !shared.lost.is_cancelled() {
            let ending = stop.is_cancelled();
            let due = self.look(shared, ending);
            if ending && due == Due::Idle {
                return;
            }
            let outcome = match self.wait(shared, due, stop, ending).await {
                Call::Look => continue,
                Call::Write => self.write(shared).await,
                Call::Check => self.check(shared).await,
            };
            match outcome {
                Ok(()) => self.all_is_well(),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn look(&mut self, shared: &Shared, ending: bool) -> Due {
        let mut state = shared.state.lock();
        let due = state.due(ending);
        shared.show(&state);
        let full = state.is_full();
        drop(state);
        let recently = |said: Instant| said.elapsed() < FULL_SAID_EVERY;
        if full && !self.full_said.is_some_and(recently) {
            self.full_said = Some(Instant::now());
            tracing::warn!(
                lease = %self.lease,
                "The intent journal is full: claims wait until volumes that are being made are done. See why the driver \
                 does not finish them.",
            );
        }
        due
    }

    /// `ending`: it was known that `stop` is cancelled when `due` was found. If it was not, `stop` is a reason to look
    /// again, also where it came before this call.
    async fn wait(
        &self,
        shared: &Shared,
        due: Due,
        stop: &CancellationToken,
        ending: bool,
    ) -> Call {
        let write_at = match due {
            Due::Now => Some(self.rest_until),
            Due::At(at) => Some(at.max(self.rest_until)),
            Due::Idle => None,
        };
        let write = async {
            match write_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = write => Call::Write,
            () = shared.changed.notified() => Call::Look,
            () = stop.cancelled(), if !ending => Call::Look,
            () = sleep_until(self.check_at.max(self.rest_until)) => Call::Check,
        }
    }

    async fn write(&mut self, shared: &Shared) -> Result<(), JournalError> {
        let started = Instant::now();
        let draft = shared.state.lock().draft();
        let text = draft.text();
        let pace = PACE_PER_BYTE * u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.rest_until = started + PACE + pace;
        if text.len() > LIMIT && shared.state.lock().lighten() {
            return Ok(());
        }
        match self.lease.write(&text).await {
            Ok(Some(())) => {
                let mut state = shared.state.lock();
                state.settle(draft, text.len());
                shared.metrics.writes.inc();
                shared.show(&state);
                self.check_at = Instant::now() + CHECK_EVERY;
                Ok(())
            }
            Ok(None) => {
                shared.state.lock().retreat();
                self.check(shared).await
            }
            Err(error) => {
                shared.state.lock().retreat();
                Err(error)
            }
        }
    }

    /// Looks at the Lease. Whoever else wrote to it decides what becomes of what we have.
    async fn check(&mut self, shared: &Shared) -> Result<(), JournalError> {
        self.check_at = Instant::now() + CHECK_EVERY;
        if !self.lease.read().await? {
            return Ok(());
        }
        match (self.sharing, self.lease.other_holder()) {
            (Sharing::Exclusive, Some(holder)) => {
                shared.lose(holder);
                return Ok(());
            }
            (Sharing::PerNode, _) if self.lease.content().is_some() => {
                let theirs = self.lease.entries()?;
                shared.state.lock().merge(theirs);
            }
            // Somebody edited or deleted it, or it was us and the answer got lost: what is in memory counts.
            (Sharing::Exclusive | Sharing::PerNode, _) => {}
        }
        let mut state = shared.state.lock();
        state.compare(self.lease.content());
        shared.show(&state);
        Ok(())
    }

    fn all_is_well(&mut self) {
        self.pause = FIRST_PAUSE;
        if !self.said.is_empty() {
            self.said.clear();
            tracing::info!(lease = %self.lease, "The intent journal can be used again.");
        }
    }

    /// Says what is wrong, once per kind, and pauses.
    fn fail(&mut self, error: &JournalError) {
        self.rest_until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let text = error.to_string();
        if text == self.said {
            return;
        }
        let cause = error.source().map(tracing::field::display);
        match error {
            JournalError::Forbidden { .. } | JournalError::Unreadable { .. } => {
                tracing::error!(lease = %self.lease, %error, cause, "The intent journal is not written: claims wait.");
            }
            _ => {
                tracing::warn!(lease = %self.lease, %error, cause, "The intent journal was not written; trying again.");
            }
        }
        self.said = text;
    }
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config};
    use stowage_service::Metrics;
    use tokio::time::timeout;

    use super::*;
    use crate::journal::{Journal, Place};

    const PLACE: Place<'_> = Place {
        namespace: "storage",
        name: "stowage-intents-x",
        identity: "me",
        driver: "x",
        node: None,
    };

    /// A server that nobody asks.
    fn client() -> Client {
        let config = Config::new("http://127.0.0.1:9".parse().unwrap());
        Client::try_from(config).unwrap()
    }

    fn lease() -> IntentLease {
        IntentLease::new(client(), PLACE)
    }

    /// Whoever flushes and then stops is answered in the middle of a look: the request comes before the wait.
    #[tokio::test]
    async fn a_request_to_stop_between_look_and_wait_is_heard() {
        let stop = CancellationToken::new();
        stop.cancel();
        let journal = Journal::new(client(), PLACE, Sharing::Exclusive, &Metrics::new());
        let shared = &journal.shared;
        let writer = Writer::new(lease(), Sharing::Exclusive);
        let waiting = writer.wait(shared, Due::Idle, &stop, false);
        let call = timeout(Duration::from_secs(2), waiting).await;
        assert!(matches!(call, Ok(Call::Look)));
    }
}
