//! The pods of a driver.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt};

use crate::cluster::{WORKLOADS, instance_of};

/// Every pod of an instance, whether its workload is still there or not.
pub(super) async fn of_instance(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Vec<Pod>, Error> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut pods = Vec::new();
    for (label, suffix) in WORKLOADS {
        // Workloads for some nodes have come and gone with the instance's spec.
        let of_workloads = api.list(&ListParams::default().labels(label)).await?;
        pods.extend(of_workloads.into_iter().filter(|pod| {
            let workload = pod.labels().get(label);
            workload.and_then(|it| instance_of(it, suffix)) == Some(name)
        }));
    }
    Ok(pods)
}
