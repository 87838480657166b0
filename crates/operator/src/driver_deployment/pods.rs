//! The pods of a driver.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Error, ResourceExt};
use stowage_api::driver_deployment::{DAEMON_SET_LABEL, DEPLOYMENT_LABEL};

use super::context::Guarded;

/// The labels of pods, which are the names of their workloads, and what those names end with.
pub(super) const WORKLOADS: [(&str, &str); 2] = [
    (DAEMON_SET_LABEL, "-node"),
    (DEPLOYMENT_LABEL, "-controller"),
];

/// The instance that a pod belongs to.
pub(super) fn owner_of(pod: &Pod, label: &str, suffix: &str) -> Option<ObjectRef<Guarded>> {
    let workload = pod.labels().get(label)?;
    let name = workload.strip_suffix(suffix)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// Every pod of an instance, whether its workload is still there or not.
pub(super) async fn of_instance(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Vec<Pod>, Error> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut pods = Vec::new();
    for (label, suffix) in WORKLOADS {
        let selector = ListParams::default().labels(&format!("{label}={name}{suffix}"));
        pods.extend(api.list(&selector).await?);
    }
    Ok(pods)
}
