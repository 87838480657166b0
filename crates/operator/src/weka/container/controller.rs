//! Controllers of drivers on a node whose client stops to serve: there they can mount nothing.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use stowage_api::driver_deployment::DEPLOYMENT_LABEL;
use stowage_kubernetes::deletion;

use crate::weka::context::Context;
use crate::weka::names::accessible_label;
use crate::weka::problem::Problem;

/// Sends the controller pods of a driver away from a node, if the client of another node serves: the scheduler prefers that
/// one. Where no client serves, a controller is as well off here as anywhere.
/// Called twice: those that went are elsewhere by then.
pub(super) async fn send_away(driver: &str, node: &str, context: &Context) -> Result<(), Problem> {
    let label = accessible_label(driver);
    let serves = |it: &crate::weka::nodes::Node| it.name != node && it.labels.contains_key(&label);
    let plan = context.plan();
    let Some(wanted) = plan.drivers.get(driver) else {
        // It goes with its driver.
        return Ok(());
    };
    if !context.cluster.all_nodes().iter().any(|it| serves(&it.0)) {
        return Ok(());
    }
    let namespace = context.config.borrow().csi.namespace.clone();
    let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let here = ListParams::default()
        .labels(&format!("{DEPLOYMENT_LABEL}={}", wanted.names.controller))
        .fields(&format!("spec.nodeName={node}"));
    for pod in api.list(&here).await? {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        deletion::delete(&api, &name, &uid).await?;
        tracing::info!(
            pod = name,
            node,
            "A controller was sent away: the client of its node does not serve."
        );
    }
    Ok(())
}
