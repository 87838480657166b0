//! `startupTaint`: nodes register with a taint, and lose it as soon as their kubelet knows the driver, so that no pod comes
//! there before its storage.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt};
use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::pages;

use super::apply::Applied;
use super::context::Context;
use super::fetch::driver_of;
use super::problem::Problem;
use super::taint;
use crate::driver::ValidDriver;

/// Lets pods to the nodes that have the driver. Called twice: their taint is gone.
pub(super) async fn admit_pods(
    driver: &ValidDriver,
    applied: &mut Applied,
    context: &Context,
) -> Result<(), Error> {
    let (name, key) = (&driver.driver_name, driver.startup_taint.as_deref());
    match admit(name, key, context).await {
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            applied.problems.push(Problem::may_not_untaint(&error));
            Ok(())
        }
        admitted => admitted,
    }
}

/// The same for a driver that is about to go: while something uses it, nodes that are new get it too. Called twice: their
/// taint is gone.
pub(super) async fn keep_admitting(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let key = instance.spec.startup_taint.as_deref();
    admit(driver_of(instance), key, context).await
}

/// The same for an instance that is left as it is, because it is unmanaged or has a mistake: its pods come to new nodes all the
/// same. Called twice: their taint is gone.
pub(super) async fn admit_meanwhile(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let status = instance.status.as_ref();
    // One that never ran has no say about the nodes of a driver that another instance runs.
    if status.is_none_or(|it| it.driver_name.is_none()) {
        return Ok(());
    }
    keep_admitting(instance, context).await
}

async fn admit(driver: &str, key: Option<&str>, context: &Context) -> Result<(), Error> {
    let cluster = &context.cluster;
    cluster.follow_taint(&context.client, driver, key);
    let Some(key) = key else {
        return Ok(());
    };
    let tainted = cluster.tainted_with(key);
    for node in tainted
        .iter()
        .filter(|it| cluster.is_registered(driver, it))
    {
        untaint(node, key, context).await?;
    }
    Ok(())
}

/// Lets pods to every node: of a driver that goes, nobody else would. Called twice: no taint is left.
pub(super) async fn release(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<(), Error> {
    let Some(key) = instance.spec.startup_taint.as_deref() else {
        return Ok(());
    };
    let (client, cluster) = (&context.client, &context.cluster);
    cluster.follow_taint(client, driver_of(instance), None);
    let nodes = Api::<Node>::all(client.clone());
    let tainted = |node: Node| {
        let mut taints = taint::of(&node).into_iter();
        taints.any(|it| it.key == key).then(|| node.name_any())
    };
    for node in pages::list(&nodes, &ListParams::default(), tainted).await? {
        untaint(&node, key, context).await?;
    }
    Ok(())
}

async fn untaint(name: &str, key: &str, context: &Context) -> Result<(), Error> {
    taint::remove_from(&context.client, name, |it| it.key == key).await?;
    tracing::info!(node = name, taint = key, "Pods may come to a new node.");
    Ok(())
}
