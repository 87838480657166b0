//! Calls that may never come back, each on a thread of its own: system calls on a mount whose server is dead, reads of
//! files that its client serves.
//!
//! A thread that waits for a dead file server cannot be stopped. So it is left alone, nobody waits for it longer than
//! the caller wants to, and there is a limit to how many there may be. The limit holds for each place that can hang, so
//! that one of them takes nothing from the others.
//!
//! [`Workers`] runs any work; [`SharedCalls`] joins equal calls, so that a call that hangs is not made twice.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;
use stowage_csi::waiting::on_machine;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

pub use shared::SharedCalls;

mod shared;

/// Enough for a walk through directories.
const STACK: usize = 512 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    /// The call is still under way.
    #[error("no answer for {:.1} s", since.as_secs_f32())]
    Hung {
        /// How long it has been under way.
        since: Duration,
    },
    /// Too many other calls are under way.
    #[error("{limit} earlier calls are still waiting for an answer")]
    Crowded {
        /// The limit that is reached.
        limit: usize,
    },
    /// No thread could be had.
    #[error("cannot start a thread for the call")]
    Thread(#[source] io::Error),
    /// The call panicked.
    #[error("the call ended without an answer")]
    Lost,
}

/// Threads for work that may hang. Clones share the limit.
#[derive(Clone)]
pub struct Workers {
    limit: usize,
    places: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl Workers {
    /// At most `limit` threads for each place.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            places: Arc::default(),
        }
    }

    /// Does the work on a thread of its own, and waits for it for at most `patience`.
    ///
    /// `place` is what the work may hang in. What the work owns is dropped when the work ends, not when the caller gives
    /// up: a lock that it holds keeps others from starting the same again beside it.
    pub async fn run<T, W>(&self, place: &str, patience: Duration, work: W) -> Result<T, Stuck>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let started = Instant::now();
        let (sender, answer) = oneshot::channel();
        start(self.permit(place)?, work, move |done| {
            // The caller may have given up.
            let _ = sender.send(done);
        })?;
        let answer = wait(started, patience, answer).await?;
        answer.map_err(|_| Stuck::Lost)
    }

    /// The right to one thread. Never waits.
    fn permit(&self, place: &str) -> Result<OwnedSemaphorePermit, Stuck> {
        let mut places = self.places.lock();
        // Where no thread is, a new semaphore is as good as the old one.
        places.retain(|_, semaphore| semaphore.available_permits() < self.limit);
        let semaphore = places
            .entry(place.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(self.limit)));
        let permit = Arc::clone(semaphore).try_acquire_owned();
        permit.map_err(|_| Stuck::Crowded { limit: self.limit })
    }
}

/// Does the work on a thread of its own, gives the permit back, and only then hands over the answer: who has the answer
/// may start the next work.
fn start<T: 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
    hand_over: impl FnOnce(T) + Send + 'static,
) -> Result<(), Stuck> {
    let thread = thread::Builder::new()
        .name("host-call".to_owned())
        .stack_size(STACK);
    let spawned = thread.spawn(move || {
        let done = work();
        drop(permit);
        hand_over(done);
    });
    spawned.map(drop).map_err(Stuck::Thread)
}

/// Waits for an answer, which is the machine's time. `started` is when the call began.
async fn wait<F: Future>(
    started: Instant,
    patience: Duration,
    answer: F,
) -> Result<F::Output, Stuck> {
    let answer = on_machine(timeout(patience, answer)).await;
    answer.map_err(|_| Stuck::Hung {
        since: started.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use stowage_csi::locks::VolumeLocks;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_hung_place_keeps_what_its_work_owns_and_holds_up_no_other() {
        let (workers, locks) = (Workers::new(1), VolumeLocks::default());
        let (release, hang) = mpsc::channel::<()>();
        let guard = locks.lock("hung").unwrap();
        let work = move || {
            let _guard = guard;
            hang.recv()
        };
        let stuck = workers.run("dead", SHORT, work).await;
        assert!(matches!(stuck, Err(Stuck::Hung { .. })), "{stuck:?}");
        assert!(locks.lock("hung").is_err(), "the thread still works on it");
        assert_eq!(workers.run("alive", LONG, || 7).await.unwrap(), 7);
        release.send(()).unwrap();
        while locks.lock("hung").is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn hung_threads_of_one_place_do_not_pile_up_without_limit() {
        let workers = Workers::new(3);
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        for _ in 0..3 {
            let hang = hang.clone();
            let work = move || hang.lock().recv().is_ok();
            let stuck = workers.run("dead", Duration::from_millis(1), work).await;
            assert!(matches!(stuck, Err(Stuck::Hung { .. })), "{stuck:?}");
        }
        let crowded = workers.run("dead", LONG, || ()).await;
        assert!(
            matches!(crowded, Err(Stuck::Crowded { limit: 3 })),
            "{crowded:?}"
        );
        assert!(workers.run("alive", LONG, || ()).await.is_ok());
        drop(release);
    }

    #[tokio::test]
    async fn an_answer_gives_the_place_back_and_so_does_a_panic() {
        let workers = Workers::new(1);
        for round in 0..100 {
            assert_eq!(workers.run("a", LONG, move || round).await.unwrap(), round);
        }
        let lost = workers.run("a", LONG, || panic!("expected by this test"));
        assert!(matches!(lost.await, Err(Stuck::Lost)));
        assert!(workers.run("a", LONG, || ()).await.is_ok());
    }
}
