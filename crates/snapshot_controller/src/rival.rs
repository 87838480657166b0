//! The look for another snapshot controller: two of them in one cluster would work against each other.
//!
//! Replicas of this controller share one lease in one namespace and take turns. A lease of the same name that somebody
//! else renews is another controller: in another namespace nothing keeps the two apart, and in our own it means that
//! two installations overlap.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use stowage_api::snapshot::names::CONTROLLER_LEASE;
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use tokio_util::sync::CancellationToken;

/// The label by which replicas of this controller know each other's lease.
pub const LABEL: (&str, &str) = ("stowage.dev/component", "snapshot-controller");

/// Clocks may differ by so much.
const SKEW: Duration = Duration::from_secs(30);
/// Of a lease that does not say.
const USUAL_DURATION: i32 = 15;

/// Between two questions to an API server that is away.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(1),
};

/// Another controller, or no way to know.
#[derive(Debug, thiserror::Error)]
pub enum Rival {
    /// Somebody else is at work.
    #[error(
        "another snapshot controller is at work: `{holder}` holds lease `{CONTROLLER_LEASE}` in namespace `{namespace}`. \
         A cluster needs one: use that one, or remove it before starting this one"
    )]
    AtWork {
        /// Who.
        holder: String,
        /// Where.
        namespace: String,
    },
    /// The rule is missing.
    #[error(
        "the service account may not list leases: without that it is not known whether another snapshot controller is \
         at work. Add `list` on `leases` to its ClusterRole"
    )]
    Forbidden,
}

/// Fails if another controller is at work. `namespace` is where our own lease is. The outer error: the server does not
/// answer.
async fn refuse(client: &Client, namespace: &str) -> kube::Result<Result<(), Rival>> {
    let params = ListParams::default().fields(&format!("metadata.name={CONTROLLER_LEASE}"));
    let leases = match Api::<Lease>::all(client.clone()).list(&params).await {
        Ok(leases) => leases,
        Err(error) => {
            return match Answer::of(&error) {
                Answer::Forbidden(_) => Ok(Err(Rival::Forbidden)),
                _ => Err(error),
            };
        }
    };
    let now = Timestamp::now();
    for lease in leases {
        let place = lease.namespace().unwrap_or_default();
        let (key, value) = LABEL;
        let ours = place == namespace && lease.labels().get(key).is_some_and(|own| own == value);
        if let Some(holder) = live_holder(&lease, now)
            && !ours
        {
            return Ok(Err(Rival::AtWork {
                holder,
                namespace: place,
            }));
        }
    }
    Ok(Ok(()))
}

/// The same, and waits for an API server that is away: nobody can be at work then, and a process that ends instead
/// would come back later than the server. `None`: asked to stop.
pub async fn refuse_once_known(
    client: &Client,
    namespace: &str,
    stop: &CancellationToken,
) -> Option<Result<(), Rival>> {
    let ask = || async {
        let known = refuse(client, namespace).await;
        known.map_err(|error| answer::chain(&error))
    };
    let tell = |reason: &str| {
        tracing::warn!(
            reason,
            "The API server cannot be asked for other snapshot controllers; waiting."
        );
    };
    patiently(stop, PAUSES, ask, tell).await
}

/// Who holds a lease and has renewed it in time.
fn live_holder(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone();
    let holder = holder.filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let seconds = spec.lease_duration_seconds.unwrap_or(USUAL_DURATION);
    let good_for = Duration::from_secs(seconds.unsigned_abs().into()) + SKEW;
    let age = now.duration_since(renewed);
    (age.as_secs_f64() < good_for.as_secs_f64()).then_some(holder)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(holder: &str, age: i64) -> Lease {
        let now = Timestamp::UNIX_EPOCH;
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                renew_time: Some(MicroTime(now - Duration::from_secs(age.unsigned_abs()))),
                lease_duration_seconds: Some(15),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn only_a_lease_that_is_held_and_renewed_counts() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(live_holder(&lease("go", 10), now), Some("go".to_owned()));
        assert_eq!(live_holder(&lease("go", 44), now), Some("go".to_owned()));
        assert_eq!(live_holder(&lease("go", 46), now), None);
        assert_eq!(live_holder(&lease("", 1), now), None);
        assert_eq!(live_holder(&Lease::default(), now), None);
    }
}
