//! Many snapshots and contents that exist when the sidecar and the snapshot controller start, and one of each that
//! needs something.
//!
//! The least that can be needed: a content has a mark too many, and a snapshot does not say yet that it is ready. The
//! driver is not asked, so that what is measured is how soon the work begins.

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent, names};
use tokio::time::Instant;

use super::arrival::{Arrivals, Seen};
use super::claims::many;
use super::stage::Stage;
use super::{bare, snapshot_objects};
use crate::latency::Latency;
use crate::memory::Most;
use crate::table::{Row, Table};

const NAMESPACE: &str = "contents";

pub async fn measure(stage: &Stage, count: usize) -> anyhow::Result<Table> {
    let waiting = fill(stage, count).await?;
    let started = Instant::now();
    let listed = bare::list_snapshots(&stage.bare().await?).await?;
    let listing = started.elapsed().as_secs_f64();

    let mut table = Table::new(format!("{count} snapshots and contents that exist"));
    table.add(Row::new("objects listed", many(listed)));
    let beside = "bare client listing them";

    let own = waiting.content;
    let unmarked = move |content: &Seen| {
        content.has_name(&own) && !content.has_annotation(names::SNAPSHOT.being_created)
    };
    let mut unmarked = Arrivals::of::<VolumeSnapshotContent>(&stage.admin, unmarked).await?;
    let mut sidecar = stage.controller().await?;
    let first = unmarked.all(1).await?.pop().unwrap_or_else(Instant::now);
    let took = (first - sidecar.process.started()).as_secs_f64();
    let row = Row::new("sidecar: start to the first content, s", took);
    table.add(row.beside(beside, listing));
    sidecar.process.wait_until_ready().await?;
    tokio::time::sleep(stage.rest).await;
    sidecar
        .process
        .finish(&mut table, "sidecar", Most::default())
        .await?;

    let own = waiting.snapshot;
    let ready = move |snapshot: &Seen| snapshot.has_name(&own) && snapshot.is_ready();
    let mut ready = Arrivals::of::<VolumeSnapshot>(&stage.admin, ready).await?;
    let mut controller = stage.snapshot_controller().await?;
    let first = ready.all(1).await?.pop().unwrap_or_else(Instant::now);
    let took = (first - controller.started()).as_secs_f64();
    let row = Row::new("snapshot controller: start to the first, s", took);
    table.add(row.beside(beside, listing));
    controller.wait_until_ready().await?;
    tokio::time::sleep(stage.rest).await;
    controller
        .finish(&mut table, "snapshot controller", Most::default())
        .await?;
    Ok(table)
}

/// What needs something.
struct Waiting {
    content: String,
    snapshot: String,
}

/// Writes snapshots that have their contents, and the contents.
async fn fill(stage: &Stage, count: usize) -> anyhow::Result<Waiting> {
    stage.namespace(NAMESPACE).await?;
    Latency::measure(0..count, stage.workers, async |number| {
        let content = written(stage, number, true).await?;
        drop(content);
        Ok(())
    })
    .await?;
    let contents = Api::<VolumeSnapshotContent>::all(stage.admin.clone());
    let (_, content) = written(stage, count, true).await?;
    let mark = json!({"metadata": {"annotations": {names::SNAPSHOT.being_created: names::YES}}});
    let params = PatchParams::default();
    contents
        .patch(&content, &params, &Patch::Merge(mark))
        .await?;
    let (snapshot, _) = written(stage, count + 1, false).await?;
    Ok(Waiting { content, snapshot })
}

/// Writes one snapshot with its content, which is ready; the snapshot need not say so. Returns their names.
async fn written(
    stage: &Stage,
    number: usize,
    is_reported: bool,
) -> anyhow::Result<(String, String)> {
    let snapshots = Api::<VolumeSnapshot>::namespaced(stage.admin.clone(), NAMESPACE);
    let contents = Api::<VolumeSnapshotContent>::all(stage.admin.clone());
    let (post, params) = (PostParams::default(), PatchParams::default());
    let snapshot = snapshot_objects::kept_snapshot(NAMESPACE, number);
    let snapshot = snapshots.create(&post, &snapshot).await?;
    let content = snapshot_objects::content(NAMESPACE, &snapshot);
    contents.create(&post, &content).await?;
    let (snapshot, content) = (snapshot.name_any(), content.name_any());
    let ready = Patch::Merge(snapshot_objects::content_ready());
    contents.patch_status(&content, &params, &ready).await?;
    if is_reported {
        let ready = Patch::Merge(snapshot_objects::ready(&content));
        snapshots.patch_status(&snapshot, &params, &ready).await?;
    }
    Ok((snapshot, content))
}
