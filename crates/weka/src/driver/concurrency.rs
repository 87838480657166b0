//! How many calls of a kind are worked on at a time, for each cluster separately: a slow one does not delay another.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::Concurrency;
use crate::error::Error;
use crate::metrics::{Metrics, Operation};
use crate::rest::Deadline;

/// Limits for calls of all kinds.
pub(crate) struct ConcurrencyLimits {
    limits: Concurrency,
    metrics: Metrics,
    semaphores: Mutex<HashMap<(Operation, String), Arc<Semaphore>>>,
}

impl ConcurrencyLimits {
    pub(crate) fn new(limits: Concurrency, metrics: Metrics) -> Self {
        Self {
            limits,
            metrics,
            semaphores: Mutex::default(),
        }
    }

    /// Waits until the limit allows it, does the work and counts it. `bytes` reads the size of the volume from the answer.
    pub(crate) async fn run<T>(
        &self,
        operation: Operation,
        cluster: &str,
        deadline: Deadline,
        bytes: impl Fn(&T) -> Option<u64>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let came = Instant::now();
        let permit = match self.limit(operation) {
            None => None,
            Some(limit) => {
                let semaphore = self.semaphore(operation, cluster, limit);
                let permit = timeout(deadline.remaining(), semaphore.acquire_owned()).await;
                Some(permit.map_err(|_| Error::Crowded)?)
            }
        };
        let under_way = self.metrics.start_operation(operation, came.elapsed());
        let done = work.await;
        drop(permit);
        under_way.end(done.is_ok(), done.as_ref().ok().and_then(bytes));
        done
    }

    fn limit(&self, operation: Operation) -> Option<usize> {
        match operation {
            Operation::CreateVolume => Some(self.limits.creates),
            Operation::DeleteVolume => Some(self.limits.deletes),
            Operation::ExpandVolume => Some(self.limits.expansions),
            Operation::PublishVolume => Some(self.limits.publications),
            // A pod that goes away waits for nobody; each volume has its lock.
            Operation::UnpublishVolume | Operation::GetVolumeStats => None,
        }
    }

    fn semaphore(&self, operation: Operation, cluster: &str, limit: usize) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock();
        // Those that nobody holds can be replaced by new ones.
        semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let key = (operation, cluster.to_owned());
        semaphores
            .entry(key)
            .or_insert_with(|| Arc::new(Semaphore::new(limit)))
            .clone()
    }
}

/// Which cluster a request is about, without asking it.
pub(crate) fn cluster_of(secrets: &BTreeMap<String, String>) -> &str {
    secrets.get("endpoints").map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_slow_cluster_does_not_delay_another() {
        let limits = Concurrency {
            creates: 1,
            deletes: 1,
            expansions: 1,
            publications: 1,
        };
        let limits = ConcurrencyLimits::new(limits, Metrics::default());
        let soon = || Deadline::after(Duration::from_millis(50));
        let create =
            |cluster, work| limits.run(Operation::CreateVolume, cluster, soon(), |()| None, work);
        let slow = create(
            "slow",
            Box::pin(async { std::future::pending().await })
                as std::pin::Pin<Box<dyn Future<Output = _>>>,
        );
        let others = async {
            tokio::task::yield_now().await;
            assert!(matches!(
                create("slow", Box::pin(async { Ok(()) })).await,
                Err(Error::Crowded)
            ));
            assert!(create("other", Box::pin(async { Ok(()) })).await.is_ok());
        };
        tokio::select! {
            biased;
            _ = slow => unreachable!("it never ends"),
            () = others => {}
        }
        assert!(
            create("slow", Box::pin(async { Ok(()) })).await.is_ok(),
            "its permit was given back"
        );
    }
}
