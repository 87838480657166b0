//! Claims that wait to grow when the sidecar starts.
//!
//! The ceiling is a bare client that makes the same three patches of each claim and its volume.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::arrival::Arrivals;
use super::bare;
use super::claims::{add_requests, many, settled};
use super::objects::{Model, claim_name};
use super::provisioned::{self, bound_in};
use super::stage::Stage;
use crate::memory::Most;
use crate::table::{Row, Table};

const NAMESPACE: &str = "growing";
const BARE: &str = "bare-growing";
const SIZE: &str = "2Gi";
/// That it begins, and that it is done.
const EVENTS: usize = 2;

pub async fn measure(stage: &Stage, model: &Model, count: usize) -> anyhow::Result<Table> {
    let ceiling = ceiling(stage, model, count).await?;
    provisioned::by_the_sidecar(stage, NAMESPACE, count).await?;
    ask(stage, count).await?;
    let mut grown = Arrivals::of::<PersistentVolumeClaim>(&stage.admin, |claim| {
        claim.is_in(NAMESPACE) && claim.has_storage(SIZE)
    })
    .await?;
    let begin = stage.audit.end();
    let sidecar = stage.controller().await?;
    let times = grown.all(count).await?;
    let requests = settled(stage, begin, EVENTS * count).await?;

    let started = sidecar.process.started();
    let since = |index: usize| (times[index] - started).as_secs_f64();
    let took = since(count - 1);
    let mut table = Table::new(format!("{count} expansions that wait"));
    let row = Row::new("grown per second, from the start", many(count) / took);
    table.add(row.beside("bare client, three patches each", ceiling));
    table.add(Row::new("start to the first grown claim, s", since(0)));
    table.add(Row::new("start to the last grown claim, s", took));
    add_requests(&mut table, &requests, count, "expansion", None);
    tokio::time::sleep(stage.rest).await;
    sidecar
        .process
        .finish(&mut table, "afterwards", Most::default())
        .await?;
    Ok(table)
}

/// Asks for more storage.
async fn ask(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), NAMESPACE);
    let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": SIZE}}}}));
    let params = PatchParams::default();
    let names: Vec<String> = (0..count).map(claim_name).collect();
    for few in names.chunks(50) {
        let asked = few.iter().map(|name| claims.patch(name, &params, &more));
        try_join_all(asked).await?;
    }
    Ok(())
}

/// Expansions per second of a client that does nothing else.
async fn ceiling(stage: &Stage, model: &Model, count: usize) -> anyhow::Result<f64> {
    let mut bound = bound_in(stage, BARE).await?;
    provisioned::by_hand(stage, model, BARE, count).await?;
    // Kubernetes' controllers look at new claims: they are to be done with it.
    bound.all(count).await?;
    let client = stage.bare().await?;
    let grown = bare::grow(&client, BARE, count, SIZE).await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), BARE);
    bare::delete(&claims, BARE, false).await?;
    let volumes = Api::<PersistentVolume>::all(stage.admin.clone());
    bare::delete(&volumes, BARE, true).await?;
    Ok(grown.per_second())
}
