//! When all volumes are read from their arrays: again and again in the controller that shows their figures, and in any other when
//! it is asked about them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use stowage_api::backoff::Backoff;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Inventory, KnownVolume, SecretName};
use crate::driver::Driver;
use crate::error::{Error, chain};
use crate::rest::Deadline;

/// The longest pause after something failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The volumes that one secret leads to.
pub(super) type Group = (Option<SecretName>, Vec<Arc<KnownVolume>>);

/// What can fail by itself: a secret, or one filesystem of the cluster that it leads to.
pub(super) type Part = (Option<SecretName>, Option<String>);

/// Parts that failed: how often, and until when they are left alone.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<Part, (u32, Instant)>);

impl Failures {
    pub(super) fn is_due(&self, part: &Part, now: Instant) -> bool {
        self.0.get(part).is_none_or(|(_, until)| *until <= now)
    }

    /// Notes how it went. What failed is asked less and less.
    fn note(&mut self, part: Part, is_failure: bool, interval: Duration) {
        if !is_failure {
            self.0.remove(&part);
            return;
        }
        let count = self.0.get(&part).map_or(0, |(count, _)| *count) + 1;
        let pauses = Backoff {
            first: interval,
            longest: LONGEST_PAUSE.max(interval),
        };
        let until = Instant::now() + pauses.after_with_jitter(count);
        self.0.insert(part, (count, until));
    }
}

impl Driver {
    /// Sweeps until the process ends, and shows what is found.
    pub(crate) async fn keep_sweeping(&self, inventory: &Inventory) {
        inventory.volumes.synced().await;
        let mut ticks = interval(self.config.figures.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let began = Instant::now();
            let mut failures = inventory.failures.lock().await;
            let volumes = self.sweep(inventory, &mut failures).await;
            drop(failures);
            self.show(inventory, &volumes);
            let seconds = began.elapsed().as_secs_f64();
            self.metrics.fleet.swept(volumes.len(), seconds);
        }
    }

    /// Makes sure that what is known of volumes is not old, as far as there is time for that: another controller may be the one
    /// that sweeps. While a sweep is under way, what the one before found is good enough.
    pub(crate) async fn freshen(&self, inventory: &Inventory, deadline: Deadline) {
        let fresh = self.config.figures.interval.saturating_mul(2);
        let swept = || *inventory.swept.lock();
        if swept().is_some_and(|at| at.elapsed() < fresh) {
            return;
        }
        let look = async {
            inventory.volumes.synced().await;
            let mut failures = match inventory.failures.try_lock() {
                Ok(failures) => failures,
                Err(_) if swept().is_some() => return,
                Err(_) => inventory.failures.lock().await,
            };
            if swept().is_none_or(|at| at.elapsed() >= fresh) {
                self.sweep(inventory, &mut failures).await;
            }
        };
        // Whoever asks is told what was found until then.
        let _ = timeout(deadline.remaining(), look).await;
    }

    /// Reads all volumes once; returns them. One sweep at a time: who holds the failures.
    async fn sweep(&self, inventory: &Inventory, failures: &mut Failures) -> Vec<Arc<KnownVolume>> {
        let rules = &self.config.figures;
        let volumes = inventory.volumes();
        let began = Instant::now();
        let due = by_secret(&volumes)
            .into_iter()
            .filter(|(secret, _)| failures.is_due(&(secret.clone(), None), began));
        let reads = due.map(|group| self.read_group(inventory, failures, group));
        let reads: Vec<_> = reads.collect();
        let reads = stream::iter(reads).buffer_unordered(rules.clusters_at_a_time);
        let outcomes: Vec<_> = reads.collect().await;
        for (part, outcome) in outcomes.into_iter().flatten() {
            if let Err(error) = &outcome {
                warn(&part, error);
            }
            failures.note(part, outcome.is_err(), rules.interval);
        }
        inventory.forget_all_but(&volumes);
        *inventory.swept.lock() = Some(Instant::now());
        volumes
    }

    /// Shows what is known of all volumes.
    fn show(&self, inventory: &Inventory, volumes: &[Arc<KnownVolume>]) {
        let readings = inventory.readings.lock();
        let shown = volumes.iter().filter_map(|volume| {
            let reading = readings.get(&volume.name)?;
            Some((
                volume.labels(&reading.cluster),
                volume.bytes,
                &reading.state,
            ))
        });
        self.metrics.fleet.show(shown);
    }
}

fn warn((_, filesystem): &Part, error: &Error) {
    let error = chain(error);
    match filesystem {
        Some(filesystem) => tracing::warn!(
            error,
            filesystem,
            "Cannot read volumes of a filesystem; trying again later."
        ),
        None => tracing::warn!(
            error,
            "Cannot read volumes from a cluster; trying again later."
        ),
    }
}

fn by_secret(volumes: &[Arc<KnownVolume>]) -> Vec<Group> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for volume in volumes {
        let group = groups.entry(volume.secret_name()).or_default();
        group.push(volume.clone());
    }
    groups.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_left_alone_for_longer_and_longer_and_nothing_else_is() {
        let mut failures = Failures::default();
        let (sick, well) = ((None, Some("sick".to_owned())), (None, None));
        let interval = Duration::from_secs(60);
        for _ in 0..3 {
            failures.note(sick.clone(), true, interval);
        }
        let now = Instant::now();
        assert!(!failures.is_due(&sick, now) && failures.is_due(&well, now));
        assert!(!failures.is_due(&sick, now + interval), "not the next time");
        assert!(failures.is_due(&sick, now + 2 * LONGEST_PAUSE));
        failures.note(sick.clone(), false, interval);
        assert!(failures.is_due(&sick, now));
    }
}
