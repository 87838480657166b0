//! Pods of a driver, which no controller makes here.

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::rig::{Rig, resource};

/// The name of the pod that [`create`] makes.
pub(crate) const NAME: &str = "hostpath-node-x";

/// The node that it is on.
pub(crate) const NODE: &str = "n";

/// A pod of the driver on a node.
pub(crate) async fn create(rig: &Rig) -> Api<DynamicObject> {
    let pod = json!({
        "metadata": {
            "name": NAME,
            "labels": {"csidriver.storage.openshift.io/daemonset": "hostpath-node"},
        },
        "spec": {"nodeName": NODE, "automountServiceAccountToken": false, "containers": [{"name": "csi-sidecar", "image": "x"}]},
    });
    create_as(rig, pod).await
}

/// Any pod.
pub(crate) async fn create_as(rig: &Rig, pod: serde_json::Value) -> Api<DynamicObject> {
    let pods = resource("", "v1", "Pod", "pods");
    let api = Api::namespaced_with(rig.client.clone(), &rig.namespace, &pods);
    // The account of the namespace is made by a controller that does not run here.
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    let _ = rig
        .api(Kind::ServiceAccount)
        .create(&PostParams::default(), &account)
        .await;
    let pod = serde_json::from_value(pod).unwrap();
    api.create(&PostParams::default(), &pod).await.unwrap();
    api
}
