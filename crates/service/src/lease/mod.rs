//! Leader election on `coordination.k8s.io/v1` Leases.
//!
//! The protocol is that of client-go, so that our processes and the Go sidecars can take turns on one lease: the
//! holder renews, and whoever sees the lease unchanged for its whole duration may take it over.
//!
//! Guarantees:
//! - Expiry is judged by observation on our own clock. The times inside a Lease are for people; clock skew is harmless.
//! - A leader stops at the renew deadline, counted from the moment *before* its last successful write was sent, and
//!   checked while it waits as well as when it writes. The others wait longer than that, so that there is never a
//!   second leader, except for work that ignores its token.
//! - At shutdown the lease is renewed until the work has ended, and then handed over at once.
//! - Writes are updates with a resourceVersion, never patches: upstream's roles grant no patch, and a write that is
//!   based on an old reading must fail.
//!
//! Why not an existing crate: the best of them checks the deadline only when it writes, so that a leader may work on
//! past it until its next attempt, and it does not say who holds the lease.

mod candidate;
mod election;
mod record;

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;

use crate::client::ClientError;
use crate::duration;
pub use election::Elections;

const HEADING: &str = "Leader election";

/// Whether and how this process competes for leases. Names, defaults and forms are upstream's.
#[derive(clap::Args, Clone, Debug)]
pub struct LeaseArgs {
    /// Wait for the lease before working, so that several replicas can run
    #[arg(long, help_heading = HEADING, value_name = "BOOL", value_parser = BoolishValueParser::new(),
        action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true")]
    pub leader_election: bool,

    /// Namespace of the lease; without it that of the pod or kubeconfig
    #[arg(
        long,
        help_heading = HEADING,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE"
    )]
    pub leader_election_namespace: Option<String>,

    /// How long others wait for a leader that no longer renews
    #[arg(long, help_heading = HEADING, value_name = "DURATION",
        value_parser = duration::parse, default_value = "15s")]
    pub leader_election_lease_duration: Duration,

    /// How long a leader tries to renew before it gives up
    #[arg(long, help_heading = HEADING, value_name = "DURATION",
        value_parser = duration::parse, default_value = "10s")]
    pub leader_election_renew_deadline: Duration,

    /// How often leaders renew and others look
    #[arg(long, help_heading = HEADING, value_name = "DURATION",
        value_parser = duration::parse, default_value = "5s")]
    pub leader_election_retry_period: Duration,

    /// Labels for the lease, as `key:value,key:value`
    #[arg(long, help_heading = HEADING, value_name = "LABELS",
        value_delimiter = ',', value_parser = label)]
    pub leader_election_labels: Vec<(String, String)>,
}

/// What goes wrong with leases.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The flags contradict each other.
    #[error(
        "leader election needs lease duration > renew deadline > retry period > 0, but they are {} s, {} s and {} s: \
         change --leader-election-lease-duration, -renew-deadline or -retry-period",
        .0.lease_duration.as_secs_f64(), .0.renew_deadline.as_secs_f64(), .0.retry_period.as_secs_f64()
    )]
    Timings(Timings),
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// This process cannot give itself a name of its own.
    #[error("cannot read a random name for this process from the kernel")]
    Identity(#[source] std::io::Error),
    /// Leadership was lost. The process should end: the next leader may already be at work.
    #[error("leadership of lease `{lease}` is lost: {reason}")]
    Lost {
        /// The lease.
        lease: String,
        /// How it was lost.
        reason: Loss,
    },
}

/// How leadership was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No renewal succeeded in time.
    #[error("it could not be renewed before the renew deadline")]
    Deadline,
    /// Somebody else holds it.
    #[error("`{0}` holds it now")]
    TakenBy(String),
    /// Somebody cleared the holder, which is how a person forces a change of leader.
    #[error("its holder was cleared by somebody else")]
    Cleared,
}

/// The three durations, known to fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl LeaseArgs {
    fn timings(&self) -> Result<Timings, LeaseError> {
        let timings = Timings {
            lease_duration: self.leader_election_lease_duration,
            renew_deadline: self.leader_election_renew_deadline,
            retry_period: self.leader_election_retry_period,
        };
        let ordered = timings.lease_duration > timings.renew_deadline
            && timings.renew_deadline > timings.retry_period
            && timings.retry_period > Duration::ZERO;
        if ordered {
            Ok(timings)
        } else {
            Err(LeaseError::Timings(timings))
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write labels as `key:value,key:value`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        lease: LeaseArgs,
    }

    fn args(arguments: &[&str]) -> LeaseArgs {
        Command::try_parse_from([&["test"], arguments].concat())
            .unwrap()
            .lease
    }

    #[test]
    fn the_defaults_are_upstreams() {
        let args = args(&[]);
        assert!(!args.leader_election);
        let timings = args.timings().unwrap();
        assert_eq!(timings.lease_duration, Duration::from_secs(15));
        assert_eq!(timings.renew_deadline, Duration::from_secs(10));
        assert_eq!(timings.retry_period, Duration::from_secs(5));
    }

    #[test]
    fn the_switch_takes_every_form_that_go_takes() {
        for on in [
            "--leader-election",
            "--leader-election=true",
            "--leader-election=1",
            "--leader-election=T",
        ] {
            assert!(args(&[on]).leader_election, "{on}");
        }
        for off in [
            "--leader-election=false",
            "--leader-election=0",
            "--leader-election=F",
        ] {
            assert!(!args(&[off]).leader_election, "{off}");
        }
    }

    #[test]
    fn the_switch_does_not_swallow_the_next_argument() {
        let args = args(&[
            "--leader-election",
            "--leader-election-namespace",
            "storage",
        ]);
        assert!(args.leader_election);
        assert_eq!(args.leader_election_namespace.as_deref(), Some("storage"));
        assert!(Command::try_parse_from(["test", "--leader-election", "false"]).is_err());
    }

    #[test]
    fn timings_that_allow_two_leaders_are_refused() {
        for wrong in [
            ["--leader-election-lease-duration=10s"].as_slice(),
            &["--leader-election-renew-deadline=5s"],
            &["--leader-election-renew-deadline=1m30s"],
            &["--leader-election-retry-period=0s"],
        ] {
            let error = args(wrong).timings().unwrap_err().to_string();
            assert!(
                error.contains("lease duration > renew deadline > retry period"),
                "{error}"
            );
        }
    }

    #[test]
    fn labels_are_key_colon_value_pairs() {
        let expected =
            [("team", "storage"), ("tier", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(
            args(&["--leader-election-labels=team:storage,tier:"]).leader_election_labels,
            expected
        );
        assert!(Command::try_parse_from(["test", "--leader-election-labels=team"]).is_err());
    }
}
