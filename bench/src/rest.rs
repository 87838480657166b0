//! Operators at rest: when they come to it, and that nothing is written then.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use crate::control_plane::Measured;
use crate::requests::Requests;
use crate::table::{Goal, Row, Table};

/// How long nothing may be written before all is taken to be done.
const QUIET: Duration = Duration::from_secs(5);

/// Waits until nothing but the lease has been written for a while; all requests since `begin`.
pub async fn until_quiet(
    stage: &Measured,
    begin: u64,
    patience: Duration,
) -> anyhow::Result<Requests> {
    let started = Instant::now();
    loop {
        let before = stage.audit.end();
        sleep(QUIET).await;
        if written(&stage.audit.since(before)?) == 0 {
            return stage.audit.since(begin);
        }
        ensure!(
            started.elapsed() < patience,
            "the operator does not come to rest"
        );
    }
}

/// Adds what is written and read while nothing happens.
pub async fn at_rest(stage: &Measured, rest: Duration, table: &mut Table) -> anyhow::Result<()> {
    let begin = stage.audit.end();
    sleep(rest).await;
    let requests = stage.audit.since(begin)?;
    let row = Row::new(
        format!("writes in {} s of rest", rest.as_secs()),
        many(written(&requests)),
    );
    table.add(row.goal(Goal::AtMost(0.0)));
    table.add(Row::new("reads meanwhile", many(requests.reads())));
    let all = requests.reads() + requests.writes() + requests.events();
    let a_minute = many(all) * 60.0 / rest.as_secs_f64();
    table.add(Row::new(
        "requests per minute, the lease included",
        a_minute,
    ));
    Ok(())
}

/// Everything that changes something in the store, apart from the lease.
pub fn written(requests: &Requests) -> usize {
    requests.writes() + requests.events() - requests.lease_writes()
}

/// A count as a figure.
#[allow(clippy::cast_precision_loss, reason = "a few thousand objects")]
pub fn many(count: usize) -> f64 {
    count as f64
}
