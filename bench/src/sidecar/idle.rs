//! A sidecar that has nothing to do: what it costs to have it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::arrival::Arrivals;
use super::objects::{self, Model, volume_name};
use super::stage::{Sidecar, Stage};
use crate::memory::Most;
use crate::table::{Goal, Row, Table};

const NAMESPACE: &str = "model";

/// What memory an idle process may have.
const NODE: Most = Most {
    working_set: Some(2.0),
    anonymous: Some(1.2),
};
const CONTROLLER: Most = Most {
    working_set: Some(4.0),
    anonymous: Some(2.5),
};

/// Also returns a volume as the sidecar writes it.
pub async fn measure(stage: &Stage) -> anyhow::Result<(Table, Model)> {
    let mut table = Table::new("nothing to do");
    let (mut node, registered) = stage.node().await?;
    serve(&mut node, "node role", &mut table).await?;
    node.process.wait_for_file(&registered).await?;
    tokio::time::sleep(stage.rest).await;
    node.process.memory()?.add_to(&mut table, "node role", NODE);
    node.process.stop().await?;

    let mut controller = stage.controller().await?;
    serve(&mut controller, "controller", &mut table).await?;
    controller.process.wait_until_ready().await?;
    tokio::time::sleep(stage.rest).await;
    controller
        .process
        .memory()?
        .add_to(&mut table, "controller", CONTROLLER);
    let model = model(stage).await?;
    controller.process.stop().await?;
    Ok((table, model))
}

async fn serve(sidecar: &mut Sidecar, name: &str, table: &mut Table) -> anyhow::Result<()> {
    let port = sidecar.liveness_port;
    let took = sidecar.process.wait_until_serving(port).await?;
    let what = format!("{name}: start to serving, ms");
    table.add(Row::new(what, took.as_secs_f64() * 1000.0).goal(Goal::AtMost(200.0)));
    Ok(())
}

/// Has the sidecar that runs make one volume.
async fn model(stage: &Stage) -> anyhow::Result<Model> {
    stage.namespace(NAMESPACE).await?;
    let in_namespace = |claim: Option<&str>| claim == Some(NAMESPACE);
    let mut made = Arrivals::of::<PersistentVolume>(&stage.admin, move |volume| {
        in_namespace(volume.claimed_in())
    })
    .await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), NAMESPACE);
    let claim = claims
        .create(&PostParams::default(), &objects::claim(NAMESPACE, 0))
        .await?;
    made.all(1).await?;
    let volumes = Api::<PersistentVolume>::all(stage.admin.clone());
    let name = volume_name(&claim.uid().unwrap_or_default());
    Model::of(&volumes.get(&name).await?)
}
