//! One process on one lease: the loop that waits for it, the loop that renews it, and the requests they send.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::record::{self, Observer, Standing};
use super::{Loss, Timings};

/// Said in place of an error when a request was given up.
const NO_ANSWER: &str = "the API server does not answer";

/// A candidate for one lease.
pub(super) struct Candidate {
    pub(super) api: Api<Lease>,
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) timings: Timings,
}

/// A lease that this process holds.
pub(super) struct Held {
    /// As last written.
    lease: Lease,
    /// Just before the last successful write was sent: the others may have seen that write from then on.
    renewed: Instant,
}

impl Held {
    /// From this moment on another process may hold the lease.
    pub(super) fn expires(&self, timings: Timings) -> Instant {
        self.renewed + timings.lease_duration
    }
}

/// What one look at a lease brought.
enum Attempt {
    Acquired(Box<Lease>),
    HeldBy(String),
    /// Somebody else wrote between our reading and our writing.
    Raced,
}

impl Attempt {
    fn of_write(written: Option<Lease>) -> Self {
        written.map_or(Self::Raced, |lease| Self::Acquired(Box::new(lease)))
    }
}

impl Candidate {
    /// Waits for the lease. `None`: `shutdown` came first.
    pub(super) async fn acquire(&self, shutdown: &CancellationToken) -> Option<Held> {
        let mut observer = Observer::default();
        let mut said = String::new();
        // An attempt is never interrupted: a write whose answer we do not wait for may still make us the holder.
        while !shutdown.is_cancelled() {
            let started = Instant::now();
            // Bounded, so that a lease won by a request that hung is not already about to expire.
            match timeout(self.timings.renew_deadline, self.try_acquire(&mut observer)).await {
                Ok(Ok(Attempt::Acquired(lease))) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "This process is the leader.");
                    return Some(Held {
                        lease: *lease,
                        renewed: started,
                    });
                }
                Ok(Ok(Attempt::HeldBy(holder))) => {
                    if changed(&mut said, &holder) {
                        tracing::info!(lease = %self.name, %holder, "Another process is the leader; waiting.");
                    }
                }
                Ok(Err(error)) => self.report(&error, &mut said),
                Err(_) if changed(&mut said, NO_ANSWER) => {
                    self.warn("The lease cannot be acquired; trying again.", NO_ANSWER);
                }
                Ok(Ok(Attempt::Raced)) | Err(_) => {}
            }
            let _ = timeout(self.timings.retry_period, shutdown.cancelled()).await;
        }
        None
    }

    /// Says what went wrong while waiting, once per kind.
    fn report(&self, error: &kube::Error, said: &mut String) {
        let text = plain(error);
        if !changed(said, &text) {
            return;
        }
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => tracing::error!(
                lease = %self.name, error = %text,
                "Leases cannot be used: grant get, create and update on leases.coordination.k8s.io to this process.",
            ),
            _ => self.warn("The lease cannot be acquired; trying again.", &text),
        }
    }

    fn warn(&self, sentence: &str, error: &str) {
        tracing::warn!(lease = %self.name, error, "{sentence}");
    }

    async fn try_acquire(&self, observer: &mut Observer) -> kube::Result<Attempt> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            return Ok(Attempt::of_write(self.create().await?));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        match observer.judge(
            &spec,
            &self.identity,
            Instant::now(),
            self.timings.lease_duration,
        ) {
            Standing::HeldBy(holder) => Ok(Attempt::HeldBy(holder)),
            Standing::Free | Standing::Ours => Ok(Attempt::of_write(self.write(lease).await?)),
        }
    }

    /// Renews until leadership is lost.
    pub(super) async fn hold(&self, held: &mut Held) -> Loss {
        let mut next = held.renewed + self.timings.retry_period;
        loop {
            let deadline = held.renewed + self.timings.renew_deadline;
            sleep_until(next.min(deadline)).await;
            let started = Instant::now();
            let remaining = deadline.saturating_duration_since(started);
            if remaining.is_zero() {
                return Loss::Deadline;
            }
            // Half of what remains: if this request hangs on a dead connection, another one still has a chance.
            let patience = (remaining / 2).max(Duration::from_secs(1)).min(remaining);
            // Failed attempts are repeated sooner than renewals are due, for the same reason.
            next = started + self.timings.retry_period / 5;
            match timeout(patience, self.renew(&held.lease)).await {
                Ok(Ok(Ok(lease))) => {
                    *held = Held {
                        lease,
                        renewed: started,
                    };
                    next = started + self.timings.retry_period;
                }
                Ok(Ok(Err(loss))) => return loss,
                Ok(Err(error)) => {
                    self.warn("The lease was not renewed; trying again.", &plain(&error));
                }
                Err(_) => self.warn("The lease was not renewed; trying again.", NO_ANSWER),
            }
        }
    }

    async fn renew(&self, last: &Lease) -> kube::Result<Result<Lease, Loss>> {
        if let Some(lease) = self.write(last.clone()).await? {
            return Ok(Ok(lease));
        }
        // Somebody touched it. That may be a person with an editor: only a change of the holder ends our leadership.
        let Some(current) = self.api.get_opt(&self.name).await? else {
            tracing::warn!(lease = %self.name, "The lease was deleted; making it again.");
            return Ok(self
                .create()
                .await?
                .ok_or_else(|| Loss::TakenBy("another process".to_owned())));
        };
        match record::holder(&current.spec.clone().unwrap_or_default()) {
            Some(holder) if holder == self.identity => {}
            Some(holder) => return Ok(Err(Loss::TakenBy(holder.to_owned()))),
            None => return Ok(Err(Loss::Cleared)),
        }
        self.write(current)
            .await?
            .map(Ok)
            .ok_or_else(|| conflict(&self.name))
    }

    /// Clears the holder, if it is still us, so that the next candidate need not wait for the lease to expire.
    pub(super) async fn release(&self) {
        // One retry: a renewal that was still under way may have changed the lease.
        let release = async {
            for _ in 0..2 {
                if self.try_release().await? {
                    return Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
            Err(conflict(&self.name))
        };
        match timeout(self.timings.renew_deadline / 2, release).await {
            Ok(Ok(())) => {
                tracing::info!(lease = %self.name, "This process is no longer the leader.");
            }
            Ok(Err(error)) => self.warn(
                "The lease was not released; it will expire.",
                &plain(&error),
            ),
            Err(_) => self.warn("The lease was not released; it will expire.", NO_ANSWER),
        }
    }

    /// True: it is not ours, or not any more.
    async fn try_release(&self) -> kube::Result<bool> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            return Ok(true);
        };
        let spec = lease.spec.take().unwrap_or_default();
        if record::holder(&spec) != Some(&self.identity) {
            return Ok(true);
        }
        lease.spec = Some(record::released(&spec));
        Ok(unless_changed(
            self.api
                .replace(&self.name, &PostParams::default(), &lease)
                .await,
        )?
        .is_some())
    }

    /// Makes the lease with us as its holder. `None`: somebody else made it first.
    async fn create(&self) -> kube::Result<Option<Lease>> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.held(&LeaseSpec::default())),
        };
        unless_changed(self.api.create(&PostParams::default(), &lease).await)
    }

    /// Makes us the holder of a lease that exists. `None`: it was changed or deleted since it was read.
    async fn write(&self, mut lease: Lease) -> kube::Result<Option<Lease>> {
        lease.spec = Some(self.held(&lease.spec.unwrap_or_default()));
        lease
            .metadata
            .labels
            .get_or_insert_default()
            .extend(self.labels.clone());
        unless_changed(
            self.api
                .replace(&self.name, &PostParams::default(), &lease)
                .await,
        )
    }

    fn held(&self, previous: &LeaseSpec) -> LeaseSpec {
        record::held(
            previous,
            &self.identity,
            self.timings.lease_duration,
            Timestamp::now(),
        )
    }
}

/// `None` when the write was refused because the object is not what we thought it was.
fn unless_changed(result: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

fn conflict(name: &str) -> kube::Error {
    let message = format!("lease {name} is being changed by somebody else");
    kube::Error::Api(Box::new(
        kube::core::Status::failure(&message, "Conflict").with_code(409),
    ))
}

/// The server's own words; the client's error text repeats them with every field of the answer.
fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// True when `now` was not what was said last.
fn changed(said: &mut String, now: &str) -> bool {
    let new = said != now;
    if new {
        now.clone_into(said);
    }
    new
}
