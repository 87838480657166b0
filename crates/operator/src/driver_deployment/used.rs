//! What holds on to the driver of an instance that is about to go, or to get another name.

use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::CSIDriverDeployment;

use super::context::Context;
use super::mounted;
use crate::cluster::intents;
use crate::cluster::usage::{self, Usage};

/// What uses the driver by this name: what is made of it, what its sidecars are about to make, and what is still mounted.
pub(super) async fn used(
    instance: &CSIDriverDeployment,
    driver: &str,
    context: &Context,
) -> Result<Usage, Error> {
    let namespace = instance.namespace().unwrap_or_default();
    let usage = usage::of(&context.client, &context.cluster, driver).await?;
    let intents = intents::open(&context.client, &namespace, driver).await?;
    mounted::with_mounts(usage.with_intents(intents), instance, driver, context).await
}
