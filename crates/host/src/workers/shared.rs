//! Calls of which at most one per key is under way.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Stuck, Workers, start, wait};

/// All calls of one kind share the limit; what hangs is identified by its key.
const PLACE: &str = "";

/// A call under way, and where its answer will be.
struct Call<T> {
    started: Instant,
    answer: watch::Receiver<Option<T>>,
}

type UnderWay<K, T> = Arc<Mutex<HashMap<K, Call<T>>>>;

/// Calls under way, by key.
pub struct SharedCalls<K, T> {
    workers: Workers,
    under_way: UnderWay<K, T>,
}

impl<K, T> SharedCalls<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// At most `limit` calls may be under way.
    pub fn new(limit: usize) -> Self {
        Self {
            workers: Workers::new(limit),
            under_way: UnderWay::default(),
        }
    }

    /// Makes the call, or joins the one with the same key that is under way.
    ///
    /// Called twice at the same time: both get the answer of one call. While a call has been hanging for longer
    /// than `patience`, others for its key fail at once.
    pub async fn run(
        &self,
        key: K,
        patience: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stuck> {
        let (started, mut answer) = self.join_or_start(key, call)?;
        let since = started.elapsed();
        if since >= patience && answer.borrow().is_none() {
            return Err(Stuck::Hung { since });
        }
        let answer = wait(started, patience, answer.wait_for(Option::is_some)).await?;
        let answer = answer.map_err(|_| Stuck::Lost)?;
        answer.clone().ok_or(Stuck::Lost)
    }

    fn join_or_start(
        &self,
        key: K,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Instant, watch::Receiver<Option<T>>), Stuck> {
        let mut under_way = self.under_way.lock();
        if let Some(call) = under_way.get(&key) {
            return Ok((call.started, call.answer.clone()));
        }
        let permit = self.workers.permit(PLACE)?;
        let started = Instant::now();
        let (sender, answer) = watch::channel(None);
        let call_under_way = Call {
            started,
            answer: answer.clone(),
        };
        under_way.insert(key.clone(), call_under_way);
        // The entry may be dropped from here on, and takes the same lock then.
        drop(under_way);
        let entry = Entry {
            under_way: Arc::clone(&self.under_way),
            key,
        };
        let work = move || {
            let done = call();
            drop(entry);
            done
        };
        start(permit, work, move |done| {
            sender.send_replace(Some(done));
        })?;
        Ok((started, answer))
    }
}

/// A call's place among those under way; given back when the call ends, by a panic too.
struct Entry<K: Eq + Hash, T> {
    under_way: UnderWay<K, T>,
    key: K,
}

impl<K: Eq + Hash, T> Drop for Entry<K, T> {
    fn drop(&mut self) {
        self.under_way.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_hung_call_is_neither_waited_for_nor_doubled() {
        let calls = SharedCalls::new(8);
        let (release, gate) = mpsc::channel::<()>();
        let first = calls.run("a", SHORT, move || gate.recv().is_ok()).await;
        assert!(matches!(first, Err(Stuck::Hung { .. })), "{first:?}");
        let second = calls.run("a", SHORT, || {
            unreachable!("a second thread for the same key")
        });
        let second = timeout(Duration::ZERO, second).await;
        let second = second.expect("the second caller waited again");
        assert!(matches!(second, Err(Stuck::Hung { .. })), "{second:?}");
        assert_eq!(calls.under_way.lock().len(), 1);
        assert!(
            calls.run("b", LONG, || true).await.unwrap(),
            "another key is not concerned"
        );

        release.send(()).unwrap();
        for _ in 0..1000 {
            if calls.under_way.lock().is_empty() {
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
        let calls = SharedCalls::new(8);
        let made = Arc::new(AtomicUsize::new(0));
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let call = || {
            let (made, gate) = (Arc::clone(&made), Arc::clone(&gate));
            move || {
                // Until both have called.
                let _ = gate.lock().recv();
                made.fetch_add(1, Ordering::SeqCst)
            }
        };
        let both_called = async { drop(release) };
        let (one, two, ()) = tokio::join!(
            calls.run("a", LONG, call()),
            calls.run("a", LONG, call()),
            both_called
        );
        assert_eq!(
            (one.unwrap(), two.unwrap(), made.load(Ordering::SeqCst)),
            (0, 0, 1)
        );
    }

    #[tokio::test]
    async fn hung_calls_do_not_pile_up_without_limit() {
        let calls = SharedCalls::new(2);
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
        let calls = SharedCalls::new(1);
        let lost = calls
            .run("a", LONG, || panic!("expected by this test"))
            .await;
        assert!(matches!(lost, Err(Stuck::Lost)), "{lost:?}");
        assert!(calls.run("a", LONG, || ()).await.is_ok());
    }
}
