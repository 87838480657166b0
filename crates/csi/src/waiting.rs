//! How much of a call was spent waiting for the machine: tools, mounts, ioctls, files. The rest is our own overhead,
//! the only part that better code could save.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

tokio::task_local! {
    static SPENT: Spent;
}

/// Time of one call that went to the machine. Clones add up in the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent(Arc<AtomicU64>);

impl Spent {
    /// Runs a call's handler; what it awaits through [`on_machine`] is added up here.
    pub(crate) async fn during<F: Future>(&self, handler: F) -> F::Output {
        SPENT.scope(self.clone(), handler).await
    }

    /// The sum so far.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Lets work that a call hands to another task count as the call's. Wrap the future before it is spawned.
pub fn of_this_call<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let spent = SPENT.try_with(Clone::clone).unwrap_or_default();
    async move { spent.during(work).await }
}

/// Waits for the machine, or for an array behind it. Outside of a call the time is not counted.
pub async fn on_machine<F: Future>(work: F) -> F::Output {
    let started = Instant::now();
    let result = work.await;
    let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // No call is under way here: nobody asks.
    let _ = SPENT.try_with(|spent| spent.0.fetch_add(nanoseconds, Ordering::Relaxed));
    result
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn only_waiting_for_the_machine_is_added_up() {
        let (spent, started) = (Spent::default(), Instant::now());
        spent
            .during(async {
                sleep(Duration::from_millis(30)).await;
                on_machine(sleep(Duration::from_millis(20))).await;
                on_machine(sleep(Duration::from_millis(20))).await;
            })
            .await;
        let (total, whole) = (spent.total(), started.elapsed());
        assert!(total >= Duration::from_millis(40), "{total:?}");
        assert!(
            total + Duration::from_millis(30) <= whole,
            "{total:?} of {whole:?}"
        );
        let elsewhere = spent.during(async {
            tokio::spawn(of_this_call(on_machine(sleep(Duration::from_millis(5))))).await
        });
        elsewhere.await.unwrap();
        assert!(
            spent.total() >= total + Duration::from_millis(5),
            "work on another task counts"
        );
        let total = spent.total();
        on_machine(sleep(Duration::from_millis(1))).await;
        assert_eq!(
            spent.total(),
            total,
            "outside of the call nothing is counted"
        );
    }
}
