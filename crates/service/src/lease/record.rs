//! What a Lease says and what it should say next: pure, no I/O, no clock of its own.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// How a lease stands, seen from one candidate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody holds it, or the holder has let it expire.
    Free,
    /// We hold it: an earlier write of ours succeeded although its answer was lost.
    Ours,
    /// Another process holds it.
    HeldBy(String),
}

/// What a candidate has seen of a lease that another process holds, and since when.
#[derive(Debug, Default)]
pub(super) struct Observer {
    seen: Option<(LeaseSpec, Instant)>,
}

impl Observer {
    /// Judges the lease as read at `now`.
    ///
    /// The holder's own duration counts, because the holder relies on it; `fallback` is for leases that state none.
    pub(super) fn judge(
        &mut self,
        spec: &LeaseSpec,
        me: &str,
        now: Instant,
        fallback: Duration,
    ) -> Standing {
        let Some(holder) = holder(spec) else {
            return Standing::Free;
        };
        if holder == me {
            return Standing::Ours;
        }
        match &self.seen {
            Some((seen, since)) if seen == spec => {
                if now.duration_since(*since) > duration(spec).unwrap_or(fallback) {
                    return Standing::Free;
                }
            }
            _ => self.seen = Some((spec.clone(), now)),
        }
        Standing::HeldBy(holder.to_owned())
    }
}

/// Who holds the lease; released leases have an empty holder or none.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

fn duration(spec: &LeaseSpec) -> Option<Duration> {
    let seconds = u64::try_from(spec.lease_duration_seconds?).ok()?;
    Some(Duration::from_secs(seconds))
}

/// The lease with `me` as its holder: taken over, or renewed where `me` holds it already.
pub(super) fn held(
    previous: &LeaseSpec,
    me: &str,
    duration: Duration,
    now: Timestamp,
) -> LeaseSpec {
    let renewal = holder(previous) == Some(me);
    let now = MicroTime(now);
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(whole_seconds(duration)),
        acquire_time: if renewal {
            previous.acquire_time.clone()
        } else {
            Some(now.clone())
        },
        renew_time: Some(now),
        lease_transitions: match previous.lease_transitions {
            transitions if renewal => transitions,
            // As client-go counts: the first holder of a new lease is not a transition.
            None if previous.acquire_time.is_none() => Some(0),
            transitions => Some(transitions.unwrap_or(0).saturating_add(1)),
        },
        ..previous.clone()
    }
}

/// The lease without a holder, free for the next candidate that looks.
pub(super) fn released(previous: &LeaseSpec) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        ..previous.clone()
    }
}

/// Rounded up: a lease that states less than its holder relies on would be taken over too early.
fn whole_seconds(duration: Duration) -> i32 {
    let up = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().saturating_add(up)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const FIFTEEN: Duration = Duration::from_secs(15);

    fn held_by(holder: &str) -> LeaseSpec {
        held(
            &LeaseSpec::default(),
            holder,
            FIFTEEN,
            "2020-01-01T00:00:00Z".parse().unwrap(),
        )
    }

    #[test]
    fn a_lease_without_a_holder_is_free() {
        let now = Instant::now();
        for holder in [None, Some(String::new())] {
            let spec = LeaseSpec {
                holder_identity: holder,
                ..held_by("other")
            };
            assert_eq!(
                Observer::default().judge(&spec, "me", now, FIFTEEN),
                Standing::Free
            );
        }
    }

    #[test]
    fn a_lease_is_expired_only_after_it_was_seen_unchanged_for_its_duration() {
        let start = Instant::now();
        let mut observer = Observer::default();
        // The times in it are years old: they do not count.
        let spec = held_by("other");
        let mut judge = |spec: &LeaseSpec, seconds| {
            observer.judge(spec, "me", start + SECOND * seconds, FIFTEEN)
        };
        let held = Standing::HeldBy("other".to_owned());
        assert_eq!(judge(&spec, 0), held);
        assert_eq!(judge(&spec, 15), held);
        let renewed = LeaseSpec {
            renew_time: Some(MicroTime(Timestamp::now())),
            ..spec
        };
        assert_eq!(judge(&renewed, 16), held);
        assert_eq!(judge(&renewed, 31), held);
        assert_eq!(judge(&renewed, 32), Standing::Free);
    }

    #[test]
    fn the_duration_that_the_holder_states_counts() {
        let start = Instant::now();
        let mut observer = Observer::default();
        let spec = LeaseSpec {
            lease_duration_seconds: Some(60),
            ..held_by("other")
        };
        observer.judge(&spec, "me", start, FIFTEEN);
        let standing = observer.judge(&spec, "me", start + SECOND * 59, FIFTEEN);
        assert_eq!(standing, Standing::HeldBy("other".to_owned()));
        assert_eq!(
            observer.judge(&spec, "me", start + SECOND * 61, FIFTEEN),
            Standing::Free
        );
    }

    #[test]
    fn a_lease_that_we_hold_is_ours_at_once() {
        let standing = Observer::default().judge(&held_by("me"), "me", Instant::now(), FIFTEEN);
        assert_eq!(standing, Standing::Ours);
    }

    #[test]
    fn a_renewal_keeps_the_time_of_acquisition_and_the_count() {
        let before = held_by("me");
        let after = held(&before, "me", FIFTEEN, Timestamp::now());
        assert_eq!(after.acquire_time, before.acquire_time);
        assert_eq!(after.lease_transitions, Some(0));
        assert_ne!(after.renew_time, before.renew_time);
    }

    #[test]
    fn a_takeover_counts_one_transition_also_after_a_release() {
        let before = held_by("other");
        for before in [before.clone(), released(&before)] {
            let after = held(&before, "me", FIFTEEN, Timestamp::now());
            assert_eq!(after.holder_identity.as_deref(), Some("me"));
            assert_eq!(after.lease_transitions, Some(1));
            assert_ne!(after.acquire_time, before.acquire_time);
        }
    }

    #[test]
    fn a_released_lease_has_no_holder() {
        assert_eq!(holder(&released(&held_by("me"))), None);
    }

    #[test]
    fn fractions_of_a_second_are_rounded_up() {
        let spec = held(
            &LeaseSpec::default(),
            "me",
            Duration::from_millis(1500),
            Timestamp::now(),
        );
        assert_eq!(spec.lease_duration_seconds, Some(2));
    }
}
