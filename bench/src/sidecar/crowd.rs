//! Many volumes and claims that exist when the sidecar starts, and one claim that waits.
//!
//! The last of the measurements: Kubernetes' controllers are stopped and stay so, because they would take minutes to go
//! through it all.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

use super::arrival::{Arrivals, Seen};
use super::claims::many;
use super::objects::{self, Model};
use super::stage::Stage;
use super::{bare, provisioned};
use crate::memory::Most;
use crate::table::{Goal, Row, Table};

const NAMESPACE: &str = "crowd";
const WAITING: &str = "waiting";

pub async fn measure(stage: &Stage, model: &Model, count: usize) -> anyhow::Result<Table> {
    stage.plane.stop_controllers()?;
    provisioned::by_hand(stage, model, NAMESPACE, count).await?;
    stage.namespace(WAITING).await?;
    let waiting = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), WAITING);
    let claim = objects::claim_for_driver(WAITING, 0);
    waiting.create(&PostParams::default(), &claim).await?;

    let started = Instant::now();
    let listed = bare::list(&stage.bare().await?).await?;
    let listing = started.elapsed().as_secs_f64();

    let mut made = Arrivals::of::<PersistentVolume>(&stage.admin, |volume: &Seen| {
        volume.claimed_in() == Some(WAITING)
    })
    .await?;
    let mut sidecar = stage.controller().await?;
    let first = made.all(1).await?.pop().unwrap_or_else(Instant::now);
    let took = (first - sidecar.process.started()).as_secs_f64();
    sidecar.process.wait_until_ready().await?;
    tokio::time::sleep(stage.rest).await;

    let mut table = Table::new(format!("{count} PVs and PVCs that exist"));
    table.add(Row::new("objects listed", many(listed)));
    let row = Row::new("start to the first PV for a claim, s", took);
    table.add(
        row.beside("bare client listing them", listing)
            .goal(Goal::AtMost(1.5)),
    );
    let most = Most {
        working_set: None,
        anonymous: Some(30.0),
    };
    sidecar
        .process
        .finish(&mut table, "controller", most)
        .await?;
    Ok(table)
}
