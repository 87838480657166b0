//! Under which name kubelets know a driver that they do not know by the name that its instance gives it.
//!
//! The built-in sidecar compares the names and says so. That of the Kubernetes project registers whatever the driver reports: then
//! only the kubelet tells.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DAEMON_SET_LABEL};

use crate::driver_deployment::context::Context;

/// How many nodes are looked at: a driver has one name everywhere.
const NODES: u32 = 5;

/// Names that all kubelets know where pods of the driver run, and that nobody else has.
pub(super) async fn unclaimed_names(
    instance: &CSIDriverDeployment,
    set: &str,
    context: &Context,
) -> Result<Vec<String>, Error> {
    let namespace = instance.namespace().unwrap_or_default();
    let pods = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let some = ListParams::default().labels(&format!("{DAEMON_SET_LABEL}={set}"));
    let pods = pods.list(&some.limit(NODES)).await?;
    let nodes = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref());
    let known = nodes.map(|node| context.cluster.drivers_on(node));
    let mut names = known.reduce(|one, other| &one & &other).unwrap_or_default();
    let claimed = claimed_by_instances(context);
    names.retain(|name| !claimed.contains(name));
    let drivers = Api::<CSIDriver>::all(context.client.clone());
    let mut unclaimed = Vec::new();
    for name in names {
        if drivers.get_metadata_opt(&name).await?.is_none() {
            unclaimed.push(name);
        }
    }
    Ok(unclaimed)
}

/// The drivers that instances have or want.
fn claimed_by_instances(context: &Context) -> BTreeSet<String> {
    let all = context.instances.state();
    let all = all.iter().filter_map(|it| it.0.as_ref().ok());
    let names = all.flat_map(|it| {
        let runs = it.status.as_ref().and_then(|it| it.driver_name.clone());
        [Some(it.spec.driver_name.clone()), runs]
    });
    names.flatten().collect()
}
