//! Claims that have their volumes: written by hand, or made by the sidecar, so that the driver knows them too.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::PostParams;

use super::arrival::{Arrivals, Seen};
use super::bare;
use super::objects::{self, Model};
use super::stage::Stage;
use crate::latency::Latency;

/// Writes claims that have their volumes, and the volumes.
pub async fn by_hand(
    stage: &Stage,
    model: &Model,
    namespace: &'static str,
    count: usize,
) -> anyhow::Result<()> {
    stage.namespace(namespace).await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), namespace);
    let volumes = Api::<PersistentVolume>::all(stage.admin.clone());
    let (claims, volumes) = (&claims, &volumes);
    Latency::measure(0..count, stage.workers, |number| async move {
        let params = PostParams::default();
        let name = volume_by_hand(namespace, number);
        let claim = objects::bound_claim(namespace, number, &name);
        let claim = claims.create(&params, &claim).await?;
        let mut volume = model.volume(namespace, &claim);
        volume.metadata.name = Some(name);
        volumes.create(&params, &volume).await?;
        Ok(())
    })
    .await
    .map(drop)
}

/// The name of a claim's volume that is written by hand; as long as others are.
pub fn volume_by_hand(namespace: &str, number: usize) -> String {
    format!("pvc-{namespace}-{number:08}-0000-0000-000000000000")
}

/// Has a sidecar make volumes for claims, and waits until all are bound. It is stopped again.
pub async fn by_the_sidecar(
    stage: &Stage,
    namespace: &'static str,
    count: usize,
) -> anyhow::Result<()> {
    stage.namespace(namespace).await?;
    let mut bound = bound_in(stage, namespace).await?;
    ask_for(stage, namespace, count).await?;
    let sidecar = stage.controller().await?;
    bound.all(count).await?;
    sidecar.process.stop().await
}

/// Makes claims.
pub async fn ask_for(
    stage: &Stage,
    namespace: &str,
    count: usize,
) -> anyhow::Result<Api<PersistentVolumeClaim>> {
    let claims = Api::namespaced(stage.admin.clone(), namespace);
    let objects: Vec<_> = (0..count)
        .map(|number| objects::claim(namespace, number))
        .collect();
    bare::create(&claims, &objects, stage.workers).await?;
    Ok(claims)
}

/// Claims of a namespace that are bound.
pub async fn bound_in(stage: &Stage, namespace: &'static str) -> anyhow::Result<Arrivals> {
    let bound = move |claim: &Seen| claim.is_in(namespace) && claim.is_bound();
    Arrivals::of::<PersistentVolumeClaim>(&stage.admin, bound).await
}
