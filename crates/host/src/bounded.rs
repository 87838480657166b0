//! Calls into the kernel that may never come back, each on a thread of its own and at most one per key.
//!
//! A thread that waits for a dead file server cannot be stopped. So it is left alone, it is never doubled (the next
//! caller waits for the same thread or is told that it hangs), and there is a limit to how many there may be.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stowage_csi::waiting::on_machine;
use tokio::sync::watch;
use tokio::time::timeout;

/// These threads make one system call.
const STACK: usize = 256 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    /// The call is still under way.
    #[error("the kernel has not answered for {} s", since.as_secs_f32())]
    Hung {
        /// How long it has been under way.
        since: Duration,
    },
    /// Too many other calls are under way.
    #[error("{limit} calls are already waiting for mounts that do not answer")]
    Crowded {
        /// The limit that is reached.
        limit: usize,
    },
    /// No thread could be had.
    #[error("no thread for the call")]
    Thread(#[source] io::Error),
    /// The call panicked.
    #[error("the call was lost")]
    Lost,
}

struct Call<T> {
    begun: Instant,
    result: watch::Receiver<Option<T>>,
}

type Calls<K, T> = Arc<Mutex<HashMap<K, Call<T>>>>;

/// Calls under way, by key.
pub(super) struct Bounded<K, T> {
    calls: Calls<K, T>,
    limit: usize,
}

impl<K, T> Bounded<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// At most `limit` calls may be under way.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            calls: Calls::default(),
            limit,
        }
    }

    /// Makes the call, or joins the one with the same key that is under way.
    ///
    /// Called twice at the same time: both get the answer of one call. While a call has been hanging for longer
    /// than `patience`, others for its key fail at once.
    pub(super) async fn run(
        &self,
        key: K,
        patience: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stuck> {
        let (begun, mut result) = self.join_or_begin(key, call)?;
        if begun.elapsed() >= patience && result.borrow().is_none() {
            return Err(Stuck::Hung {
                since: begun.elapsed(),
            });
        }
        let waited = on_machine(timeout(patience, result.wait_for(Option::is_some))).await;
        let answer = match waited {
            Err(_) => Err(Stuck::Hung {
                since: begun.elapsed(),
            }),
            Ok(Err(_)) => Err(Stuck::Lost),
            Ok(Ok(answer)) => Ok(answer.clone()),
        };
        answer?.ok_or(Stuck::Lost)
    }

    /// How many calls are under way.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.calls.lock().len()
    }

    fn join_or_begin(
        &self,
        key: K,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Instant, watch::Receiver<Option<T>>), Stuck> {
        let mut calls = self.calls.lock();
        if let Some(call) = calls.get(&key) {
            return Ok((call.begun, call.result.clone()));
        }
        if calls.len() >= self.limit {
            return Err(Stuck::Crowded { limit: self.limit });
        }
        let begun = Instant::now();
        let (sender, result) = watch::channel(None);
        let entry = Entry {
            calls: Arc::clone(&self.calls),
            key: key.clone(),
        };
        thread::Builder::new()
            .name("host-call".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let answer = call();
                // First the entry, then the answer: who has heard the answer may begin a new call.
                drop(entry);
                sender.send_replace(Some(answer));
            })
            .map_err(Stuck::Thread)?;
        calls.insert(
            key,
            Call {
                begun,
                result: result.clone(),
            },
        );
        Ok((begun, result))
    }
}

/// A call's place among those under way; given back when the call ends, by a panic too.
struct Entry<K: Eq + Hash, T> {
    calls: Calls<K, T>,
    key: K,
}

impl<K: Eq + Hash, T> Drop for Entry<K, T> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_hung_call_is_neither_waited_for_nor_doubled() {
        let calls = Bounded::new(8);
        let (release, gate) = mpsc::channel::<()>();
        let first = calls.run("a", SHORT, move || gate.recv().is_ok()).await;
        assert!(matches!(first, Err(Stuck::Hung { .. })), "{first:?}");
        let begun = Instant::now();
        let second = calls
            .run("a", SHORT, || {
                unreachable!("a second thread for the same key")
            })
            .await;
        assert!(matches!(second, Err(Stuck::Hung { .. })), "{second:?}");
        assert!(begun.elapsed() < SHORT, "the second caller waited again");
        assert_eq!(calls.under_way(), 1);
        assert!(
            calls.run("b", LONG, || true).await.unwrap(),
            "another key is not concerned"
        );

        release.send(()).unwrap();
        for _ in 0..1000 {
            if calls.under_way() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(
            calls.run("a", LONG, || true).await.unwrap(),
            "the key works again"
        );
    }

    #[tokio::test]
    async fn callers_of_one_key_share_one_call() {
        let calls = Bounded::new(8);
        let made = Arc::new(AtomicUsize::new(0));
        let call = || {
            let made = Arc::clone(&made);
            move || {
                thread::sleep(SHORT);
                made.fetch_add(1, Ordering::SeqCst)
            }
        };
        let (one, two) = tokio::join!(calls.run("a", LONG, call()), calls.run("a", LONG, call()));
        assert_eq!(
            (one.unwrap(), two.unwrap(), made.load(Ordering::SeqCst)),
            (0, 0, 1)
        );
    }

    #[tokio::test]
    async fn hung_calls_do_not_pile_up_without_limit() {
        let calls = Bounded::new(2);
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for key in 0..2 {
            let gate = Arc::clone(&gate);
            let hung = calls
                .run(key, SHORT, move || gate.lock().recv().is_ok())
                .await;
            assert!(matches!(hung, Err(Stuck::Hung { .. })), "{hung:?}");
        }
        let third = calls.run(2, SHORT, || true).await;
        assert!(
            matches!(third, Err(Stuck::Crowded { limit: 2 })),
            "{third:?}"
        );
        drop(release);
    }

    #[tokio::test]
    async fn a_panic_frees_the_key() {
        let calls = Bounded::new(1);
        let lost = calls
            .run("a", LONG, || panic!("expected by this test"))
            .await;
        assert!(matches!(lost, Err(Stuck::Lost)), "{lost:?}");
        assert!(calls.run("a", LONG, || ()).await.is_ok());
    }
}
