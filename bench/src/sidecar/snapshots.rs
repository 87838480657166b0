//! Snapshots that wait when the sidecar and the snapshot controller start, both at the same time.
//!
//! The ceiling is a bare client that writes one after the other what the two write for a snapshot.

use kube::Api;
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use tokio::time::Instant;

use super::arrival::{Arrivals, Seen};
use super::claims::{add_requests, many, settled};
use super::stage::{SNAPSHOTTING, Stage};
use super::{bare, provisioned, snapshot_objects};
use crate::memory::Most;
use crate::table::{Row, Table};

const NAMESPACE: &str = "snapshots";
/// That it is being taken, that it was, and that it is ready.
const EVENTS: usize = 3;

pub async fn measure(stage: &Stage, count: usize) -> anyhow::Result<Table> {
    let ceiling = ceiling(stage, count).await?;
    provisioned::by_the_sidecar(stage, NAMESPACE, count).await?;
    waiting(stage, NAMESPACE, count).await?;
    let mut taken = Arrivals::of::<VolumeSnapshotContent>(&stage.admin, Seen::is_ready).await?;
    let mut ready = Arrivals::of::<VolumeSnapshot>(&stage.admin, Seen::is_ready).await?;
    let begin = stage.audit.end();
    let controller = stage.snapshot_controller().await?;
    let started = controller.started();
    let sidecar = stage.controller().await?;
    let taken = taken.all(count).await?;
    let ready = ready.all(count).await?;
    let requests = settled(stage, begin, EVENTS * count).await?;

    let since = |time: Instant| (time - started).as_secs_f64();
    let took = since(ready[count - 1]);
    let mut table = Table::new(format!("{count} snapshots that wait"));
    let row = Row::new("ready per second, from the start", many(count) / took);
    table.add(row.beside("bare client, six writes each", ceiling));
    let first = since(ready[0]);
    table.add(Row::new("start to the first ready snapshot, s", first));
    let last = since(taken[count - 1]);
    table.add(Row::new("start to the last ready content, s", last));
    table.add(Row::new("start to the last ready snapshot, s", took));
    add_requests(&mut table, &requests, count, "snapshot", None);
    tokio::time::sleep(stage.rest).await;
    sidecar
        .process
        .finish(&mut table, "sidecar afterwards", Most::default())
        .await?;
    controller
        .finish(&mut table, "snapshot controller", Most::default())
        .await?;
    Ok(table)
}

/// Has snapshots wanted; returns them as the server knows them.
async fn waiting(
    stage: &Stage,
    namespace: &str,
    count: usize,
) -> anyhow::Result<Vec<VolumeSnapshot>> {
    let api = Api::namespaced(stage.admin.clone(), namespace);
    let snapshots: Vec<_> = (0..count)
        .map(|number| snapshot_objects::snapshot(namespace, number))
        .collect();
    bare::create(&api, &snapshots, SNAPSHOTTING).await?;
    Ok(api.list(&kube::api::ListParams::default()).await?.items)
}

/// Snapshots per second of a client that does nothing else.
async fn ceiling(stage: &Stage, count: usize) -> anyhow::Result<f64> {
    stage.namespace(bare::BARE).await?;
    let waiting = waiting(stage, bare::BARE, count).await?;
    let client = stage.bare().await?;
    let made = bare::snapshot(&client, &waiting).await?;
    let snapshots = Api::<VolumeSnapshot>::namespaced(stage.admin.clone(), bare::BARE);
    bare::delete(&snapshots, bare::BARE, true).await?;
    let contents = Api::<VolumeSnapshotContent>::all(stage.admin.clone());
    bare::delete(&contents, bare::BARE, true).await?;
    Ok(made.per_second())
}
