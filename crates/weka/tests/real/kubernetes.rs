//! What the node plugin reads and writes in Kubernetes: the labels of its node, the annotations of claims and pods.

use std::path::Path;
use std::time::Duration;

use devcluster::testing::ApiServer;
use serde_json::Value;
use stowage_csi::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{NodeGetInfoRequest, NodePublishVolumeRequest};
use tonic::{Code, Status};

use crate::cluster::Cluster;
use crate::rig::{GIB, Map, Rig, capability, map};

const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {topology.kubernetes.io/zone: z1, foreign: stays}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: plain, namespace: default}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: wrong
  namespace: default
  annotations: {weka.io/mount-options-override: "-writecache,+of_claim"}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: pod
  namespace: default
  annotations: {weka.io/mount-options-overrides: "other: +acl; pla.*: +of_pod"}
spec: {containers: [{name: c, image: i}], automountServiceAccountToken: false}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: default}
"#;

fn node(server: &ApiServer) -> Value {
    let text = server
        .kubectl(&["get", "node", "node-1", "-o", "json"])
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

async fn publish(rig: &Rig, id: &str, context: Map) -> Result<(), Status> {
    let request = NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: rig.target("pod").to_str().unwrap().to_owned(),
        volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
        volume_context: context,
        secrets: rig.secret.clone(),
        ..NodePublishVolumeRequest::default()
    };
    rig.node.clone().node_publish_volume(request).await?;
    Ok(())
}

isolated! {
    async fn labels_and_annotations_are_those_of_kubernetes(directory: &Path) {
        let server = tokio::task::spawn_blocking(|| {
            let server = ApiServer::start().unwrap();
            // The account first: without it no pod is taken.
            for _ in 0..2 {
                let _ = server.kubectl_with_input(&["apply", "-f", "-"], OBJECTS);
            }
            server
        }).await.unwrap();
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
        let rig = Rig::start(directory, &cluster, &[&kubeconfig, "--managenodetopologylabels", "--allowmountoptionoverrides"]);
        let info = rig.node.clone().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        let segments = info.accessible_topology.unwrap().segments;
        assert_eq!(segments["topology.kubernetes.io/zone"], "z1");
        let written = loop {
            let node = node(&server);
            if node["metadata"]["labels"]["topology.csi.weka.io/accessible"] == "true" {
                break node;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(written["metadata"]["labels"]["topology.wekafs.csi/node"], "node-1");
        assert_eq!(written["metadata"]["labels"]["foreign"], "stays");

        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let of_claim = |name: &str| map(&[("csi.storage.k8s.io/pvc/name", name), ("csi.storage.k8s.io/pvc/namespace", "default")]);
        let refused = publish(&rig, &volume, of_claim("wrong")).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("`of_claim`"), "{refused}");
        let mut of_pod = of_claim("plain");
        of_pod.extend(map(&[("csi.storage.k8s.io/pod.name", "pod"), ("csi.storage.k8s.io/pod.namespace", "default")]));
        let refused = publish(&rig, &volume, of_pod).await.unwrap_err();
        assert!(refused.message().contains("`of_pod`"), "{refused}");
        publish(&rig, &volume, of_claim("plain")).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();

        // More than one look at the client later nothing was written again.
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(node(&server)["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"]);
        rig.stop().await;
        assert_eq!(node(&server)["metadata"]["labels"]["topology.csi.weka.io/accessible"], "true", "pods go on without the driver");
    }
}
