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
use crate::handle::{Backing, Handle};
use crate::metrics::{Metrics, Operation};
use crate::rest::Deadline;

/// What a call is counted as.
pub(crate) struct Counted {
    pub(crate) operation: Operation,
    /// Those with the same text share a limit.
    pub(crate) limited_by: String,
    /// What the volume is, where that is known.
    pub(crate) backing: Option<Backing>,
}

impl Counted {
    /// A call of a controller: a cluster's calls share a limit.
    pub(crate) fn by_cluster(
        operation: Operation,
        secrets: &BTreeMap<String, String>,
        backing: Option<Backing>,
    ) -> Self {
        Self {
            operation,
            limited_by: cluster_of(secrets).to_owned(),
            backing,
        }
    }

    /// A call of a node about a volume: those of one filesystem share a limit.
    pub(crate) fn by_filesystem(operation: Operation, cluster: &str, volume_id: &str) -> Self {
        let handle = Handle::parse(volume_id).ok();
        let filesystem = handle.as_ref().map_or("", Handle::filesystem);
        Self {
            operation,
            limited_by: format!("{cluster}/{filesystem}"),
            backing: handle.as_ref().map(Handle::backing),
        }
    }
}

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
        counted: Counted,
        deadline: Deadline,
        bytes: impl Fn(&T) -> Option<u64>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let came = Instant::now();
        let operation = counted.operation;
        let permit = match self.limit(operation) {
            None => None,
            Some(limit) => {
                let semaphore = self.semaphore(operation, &counted.limited_by, limit);
                let permit = timeout(deadline.remaining(), semaphore.acquire_owned()).await;
                Some(permit.map_err(|_| Error::Crowded)?)
            }
        };
        let waited = came.elapsed();
        let under_way = self
            .metrics
            .start_operation(operation, counted.backing, waited);
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
            Operation::CreateSnapshot => Some(self.limits.snapshots),
            Operation::DeleteSnapshot => Some(self.limits.snapshot_deletions),
            Operation::UnpublishVolume => self.limits.unpublications,
            Operation::GetVolumeStats => None,
        }
    }

    fn semaphore(&self, operation: Operation, limited_by: &str, limit: usize) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock();
        // Those that nobody holds can be replaced by new ones.
        semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let key = (operation, limited_by.to_owned());
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
            snapshots: 1,
            snapshot_deletions: 1,
            unpublications: None,
        };
        let limits = ConcurrencyLimits::new(limits, Metrics::default());
        let soon = || Deadline::after(Duration::from_millis(50));
        let create = |cluster: &str, work| {
            let secrets = [("endpoints".to_owned(), cluster.to_owned())].into();
            let counted = Counted::by_cluster(Operation::CreateVolume, &secrets, None);
            limits.run(counted, soon(), |()| None, work)
        };
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
