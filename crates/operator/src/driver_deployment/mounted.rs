//! What is still mounted of a driver that is about to go, or to get another name, as far as its node pods tell. Those of drivers
//! with `nodeUpdateStrategy: Draining` do: their mounts die with the pod, so that nobody could unmount them afterwards.

use futures::{StreamExt, stream};
use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::CSIDriverDeployment;

use super::context::Context;
use super::pods;
use crate::cluster::usage::{NodeMounts, Usage};
use crate::mounts::tells_at;

/// How many nodes are asked at a time.
const AT_ONCE: usize = 32;

/// The same use, with what is mounted once nothing else is left. Nodes that do not answer say nothing: they may be lost.
pub(super) async fn with_mounts(
    usage: Usage,
    instance: &CSIDriverDeployment,
    driver: &str,
    context: &Context,
) -> Result<Usage, Error> {
    if !usage.is_none() || instance.spec.node_update_strategy != "Draining" {
        return Ok(usage);
    }
    let uid = instance.uid().unwrap_or_default();
    // Without a key nobody can be asked.
    let Some(key) = context.mounts.key_of(&uid).await.ok().flatten() else {
        return Ok(usage);
    };
    let (namespace, name) = (
        instance.namespace().unwrap_or_default(),
        instance.name_any(),
    );
    let pods = pods::of_instance(&context.client, &namespace, &name).await?;
    let sidecars = pods.iter().filter_map(|pod| {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        Some((node, tells_at(pod)?))
    });
    let sidecars: Vec<_> = sidecars.collect();
    let asked = stream::iter(sidecars).map(|(node, sidecar)| {
        let key = &key;
        async move {
            let mounts = key.ask(sidecar, driver).await.ok()?;
            let count = mounts.len();
            (count > 0).then_some(NodeMounts { node, count })
        }
    });
    let told = asked
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready);
    Ok(usage.with_mounts(told.collect().await))
}
