//! Attachments that wait when the sidecar starts, and go all at once.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::arrival::{Arrivals, Seen};
use super::bare;
use super::claims::{self, add_requests, many};
use super::objects::{self, PART};
use super::stage::{ATTACHING, Stage, nodes};
use crate::memory::Most;
use crate::table::{Row, Table};

const BARE: &str = "bare";
const OURS: &str = "ours";

pub async fn measure(stage: &Stage, count: usize) -> anyhow::Result<Table> {
    let volumes = volumes(stage).await?;
    ensure!(
        volumes.len() >= count,
        "{} volumes were made",
        volumes.len()
    );
    let volumes = &volumes[..count];
    let ceiling = ceiling(stage, volumes).await?;

    wanted(stage, OURS, volumes).await?;
    let mut attached = Arrivals::of::<VolumeAttachment>(&stage.admin, |attachment: &Seen| {
        attachment.is_attached()
    })
    .await?;
    let begin = stage.audit.end();
    let sidecar = stage.controller().await?;
    let times = attached.all(count).await?;
    let requests = stage.audit.since(begin)?;
    let since = |time: Option<&Instant>| {
        let started = sidecar.process.started();
        time.map_or(0.0, |time| (*time - started).as_secs_f64())
    };
    let took = since(times.last());

    let mut table = Table::new(format!("{count} attachments that wait"));
    let row = Row::new("attached per second, from the start", many(count) / took);
    table.add(row.beside("bare client, two patches each", ceiling));
    table.add(Row::new("start to the first, s", since(times.first())));
    table.add(Row::new("start to the last, s", took));
    add_requests(&mut table, &requests, count, "attachment", None);
    detach(stage, count, &mut table).await?;
    tokio::time::sleep(stage.rest).await;
    sidecar
        .process
        .finish(&mut table, "afterwards", Most::default())
        .await?;
    Ok(table)
}

async fn detach(stage: &Stage, count: usize, table: &mut Table) -> anyhow::Result<()> {
    let api = Api::<VolumeAttachment>::all(stage.admin.clone());
    let ours = ListParams::default().labels(&format!("{PART}={OURS}"));
    let begin = stage.audit.end();
    let started = Instant::now();
    api.delete_collection(&DeleteParams::default(), &ours)
        .await?;
    while !api.list_metadata(&ours).await?.items.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = started.elapsed().as_secs_f64();
    let writes = stage.audit.since(begin)?.writes();
    table.add(Row::new("detached per second", many(count) / took));
    let per_detach = many(writes) / many(count);
    table.add(Row::new("API writes per detach", per_detach));
    Ok(())
}

/// The volumes that the sidecar made for claims.
async fn volumes(stage: &Stage) -> anyhow::Result<Vec<String>> {
    let api = Api::<PersistentVolume>::all(stage.admin.clone());
    let all = api.list(&ListParams::default()).await?;
    let made = all.iter().filter(|volume| {
        let claim = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        claim.is_some_and(|claim| claim.namespace.as_deref() == Some(claims::NAMESPACE))
    });
    Ok(made.map(ResourceExt::name_any).collect())
}

/// Attachments per second of a client that makes two patches each.
async fn ceiling(stage: &Stage, volumes: &[String]) -> anyhow::Result<f64> {
    let client = stage.bare().await?;
    let wanted = wanted(stage, BARE, volumes).await?;
    let attached = bare::attach(&client, &wanted, ATTACHING).await?;
    bare::delete(&Api::<VolumeAttachment>::all(client), BARE, true).await?;
    Ok(attached.per_second())
}

/// Has volumes wanted on nodes, each node in turn.
async fn wanted(
    stage: &Stage,
    part: &str,
    volumes: &[String],
) -> anyhow::Result<Vec<VolumeAttachment>> {
    let nodes: Vec<String> = nodes().collect();
    let each = volumes.iter().zip(nodes.iter().cycle()).enumerate();
    let attachments: Vec<_> = each
        .map(|(number, (volume, node))| objects::attachment(part, number, volume, node))
        .collect();
    let api = Api::all(stage.admin.clone());
    bare::create(&api, &attachments, ATTACHING).await?;
    Ok(attachments)
}
