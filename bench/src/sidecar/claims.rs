//! Claims that wait when the sidecar starts.
//!
//! The ceiling is a bare client that writes the same volumes while nobody binds them, and the floor of the time to the
//! last Bound is what the binder needs when the bare client gives it the volumes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::arrival::{Arrivals, Seen};
use super::bare;
use super::objects::Model;
use super::provisioned::{ask_for, bound_in};
use super::stage::Stage;
use crate::memory::Most;
use crate::requests::Requests;
use crate::say;
use crate::table::{Goal, Row, Table};

/// Where the claims are for which the sidecar makes volumes.
pub const NAMESPACE: &str = "claims";
/// Where those are whose volumes the bare client writes.
const BARE: &str = "bare";
const CEILING: &str = "ceiling";
const FLOOR: &str = "floor";

/// What the bare client and the binder reach.
struct Bounds {
    /// Volumes per second, while nobody binds them.
    alone: f64,
    /// Volumes per second, while the binder works on them.
    with_binder: f64,
    /// From the first volume to the last Bound.
    binder: Duration,
}

pub async fn measure(stage: &Stage, model: &Model, count: usize) -> anyhow::Result<Table> {
    let bounds = bounds(stage, model, count).await?;
    let begin = stage.audit.end();
    let start = async || {
        let sidecar = stage.controller().await?;
        Ok((sidecar.process.started(), sidecar))
    };
    let (made, sidecar) = make(stage, count, start).await?;
    let requests = settled(stage, begin, count).await?;

    let mut table = Table::new(format!("{count} claims that wait"));
    let rate = many(count) / made.last;
    let row = Row::new("PVs per second, from the start of the process", rate);
    table.add(
        row.beside("bare client", bounds.alone)
            .goal(Goal::AtLeast(0.7)),
    );
    let row = Row::new("the same", rate);
    table.add(row.beside("bare client while the binder works", bounds.with_binder));
    table.add(Row::new("start to the first PV, s", made.first));
    table.add(Row::new("start to the last PV, s", made.last));
    let row = Row::new("start to the last Bound, s", made.bound);
    table.add(
        row.beside("the binder alone", bounds.binder.as_secs_f64())
            .goal(Goal::AtMost(1.3)),
    );
    add_requests(&mut table, &requests, count, "claim", Some(1.2));
    tokio::time::sleep(stage.rest).await;
    sidecar
        .process
        .finish(&mut table, "afterwards", Most::default())
        .await?;
    Ok(table)
}

/// In seconds, from the start of whoever made the volumes.
pub struct Made {
    pub first: f64,
    pub last: f64,
    pub bound: f64,
}

/// Makes claims that wait, starts a provisioner, and waits until all of them are bound. `start` also says when that was.
pub async fn make<P>(
    stage: &Stage,
    count: usize,
    start: impl AsyncFnOnce() -> anyhow::Result<(Instant, P)>,
) -> anyhow::Result<(Made, P)> {
    waiting_claims(stage, NAMESPACE, count).await?;
    let mut volumes = volumes_of(stage, NAMESPACE).await?;
    let mut bound = bound_in(stage, NAMESPACE).await?;
    let (started, provisioner) = start().await?;
    let volumes = volumes.all(count).await?;
    let bound = bound.all(count).await?;
    let since = |times: &[Instant]| {
        let last = times.last().copied().unwrap_or_else(Instant::now);
        (last - started).as_secs_f64()
    };
    let made = Made {
        first: since(&volumes[..1]),
        last: since(&volumes),
        bound: since(&bound),
    };
    Ok((made, provisioner))
}

/// Adds requests per object, and prints all of them.
pub fn add_requests(
    table: &mut Table,
    requests: &Requests,
    count: usize,
    what: &str,
    most: Option<f64>,
) {
    let mut add = |kind: &str, number: usize, most: Option<f64>| {
        let row = Row::new(format!("{kind} per {what}"), many(number) / many(count));
        table.add(match most {
            Some(most) => row.goal(Goal::AtMost(most)),
            None => row,
        });
    };
    add("API writes without events", requests.writes(), most);
    add("of them of leases", requests.lease_writes(), None);
    add("events", requests.events(), most.map(|_| 1.0));
    add("API reads", requests.reads(), None);
    say(&format!("requests: {}", requests.summary()));
}

async fn bounds(stage: &Stage, model: &Model, count: usize) -> anyhow::Result<Bounds> {
    let client = stage.bare().await?;
    let volumes = Api::<PersistentVolume>::all(client);
    let waiting = waiting_claims(stage, BARE, count).await?;

    stage.plane.stop_controllers()?;
    let objects = made_for(&waiting, model, CEILING);
    let alone = bare::create(&volumes, &objects, stage.workers).await?;
    bare::delete(&volumes, CEILING, true).await?;
    stage.plane.start_controllers()?;

    let mut bound = bound_in(stage, BARE).await?;
    let objects = made_for(&waiting, model, FLOOR);
    // The controllers have begun when they bind what was there before.
    let (first, rest) = objects.split_at(1);
    bare::create(&volumes, first, 1).await?;
    bound.all(1).await?;
    let started = Instant::now();
    let with_binder = bare::create(&volumes, rest, stage.workers).await?;
    let last = bound.all(count).await?.pop().unwrap_or(started);

    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), BARE);
    bare::delete(&claims, BARE, false).await?;
    bare::delete(&volumes, FLOOR, true).await?;
    Ok(Bounds {
        alone: alone.per_second(),
        with_binder: with_binder.per_second(),
        binder: last - started,
    })
}

fn made_for(claims: &[PersistentVolumeClaim], model: &Model, part: &str) -> Vec<PersistentVolume> {
    let volume = |claim| model.volume(part, claim);
    claims.iter().map(volume).collect()
}

/// Makes claims, and waits until Kubernetes has said of each that the driver has to provide for it.
async fn waiting_claims(
    stage: &Stage,
    namespace: &'static str,
    count: usize,
) -> anyhow::Result<Vec<PersistentVolumeClaim>> {
    stage.namespace(namespace).await?;
    let provisioner = "volume.beta.kubernetes.io/storage-provisioner";
    let mut waiting = Arrivals::of::<PersistentVolumeClaim>(&stage.admin, move |claim| {
        claim.is_in(namespace) && claim.has_annotation(provisioner)
    })
    .await?;
    let claims = ask_for(stage, namespace, count).await?;
    waiting.all(count).await?;
    Ok(claims.list(&ListParams::default()).await?.items)
}

async fn volumes_of(stage: &Stage, namespace: &'static str) -> anyhow::Result<Arrivals> {
    let claimed = move |volume: &Seen| volume.claimed_in() == Some(namespace);
    Arrivals::of::<PersistentVolume>(&stage.admin, claimed).await
}

/// The requests so far, with `count` events: they come last, and nobody else waits for them.
pub async fn settled(stage: &Stage, begin: u64, count: usize) -> anyhow::Result<Requests> {
    for _ in 0..200 {
        let requests = stage.audit.since(begin)?;
        if requests.events() >= count {
            return Ok(requests);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.audit.since(begin)
}

/// A number of objects, to calculate with.
#[allow(clippy::cast_precision_loss, reason = "a few thousand objects")]
pub fn many(count: usize) -> f64 {
    count as f64
}
