//! What the node plugin reads and writes in Kubernetes: the labels of its node, the annotations of claims and pods, the
//! names of volumes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::isolated;
use devcluster::testing::{ApiServer, Rule};
use serde_json::{Value, json};
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{NodeGetInfoRequest, NodePublishVolumeRequest};
use tonic::{Code, Status};

use crate::cluster::Cluster;
use crate::rig::{GIB, Map, Rig, capability, eventually, map};

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

/// The label by which pods choose nodes.
const ACCESSIBLE: &str = "topology.csi.weka.io/accessible";

/// Whom the driver is to the API server.
const NODE_USER: &str = "csi-wekafs-node";

/// What the sample grants to nodes.
const OF_SAMPLE: Rule = Rule {
    groups: &[""],
    resources: &["nodes"],
    verbs: &["get", "patch"],
};

/// What may be granted besides.
const READ_VOLUMES: Rule = Rule {
    groups: &[""],
    resources: &["persistentvolumes"],
    verbs: &["get"],
};

pub async fn api_server() -> ApiServer {
    api_server_with(Vec::new()).await
}

async fn api_server_with(arguments: Vec<String>) -> ApiServer {
    let start = move || {
        let server = ApiServer::start_with(&arguments).unwrap();
        // The account first: without it no pod is taken.
        for _ in 0..2 {
            let _ = server.kubectl_with_input(&["apply", "-f", "-"], OBJECTS);
        }
        server
    };
    tokio::task::spawn_blocking(start).await.unwrap()
}

/// Arguments for an API server that notes who changes nodes, in a file.
fn watching_nodes(directory: &Path) -> Vec<String> {
    let policy = directory.join("audit-policy");
    let rules = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "Metadata",
                "users": [NODE_USER],
                "verbs": ["create", "update", "patch", "delete"],
            },
            { "level": "None" },
        ],
    });
    std::fs::write(&policy, rules.to_string()).unwrap();
    let log = directory.join("audit.log");
    vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ]
}

/// How often the driver has written anything at all.
fn writes(directory: &Path) -> usize {
    let log = std::fs::read_to_string(directory.join("audit.log")).unwrap_or_default();
    log.lines().count()
}

/// Waits until the node's labels say so; the node by then.
async fn labelled(server: &ApiServer, accessible: bool) -> Value {
    for _ in 0..300 {
        let node = node(server);
        if (node["metadata"]["labels"][ACCESSIBLE] == "true") == accessible {
            return node;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the labels do not change");
}

fn node(server: &ApiServer) -> Value {
    let text = server
        .kubectl(&["get", "node", "node-1", "-o", "json"])
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The client of the node, as its kernel shows it.
struct Client {
    modules: PathBuf,
    loaded: Vec<u8>,
}

/// How it is.
enum Module {
    Loaded,
    NotLoaded,
    /// The kernel takes none.
    Impossible,
}

impl Client {
    fn of_node(directory: &Path) -> Self {
        let modules = directory.join("modules");
        let loaded = std::fs::read(&modules).unwrap();
        Self { modules, loaded }
    }

    /// It is so from now on; returns once the driver has seen that. What its looks before that had it write is written.
    async fn is(&self, rig: &Rig, module: Module) {
        let trouble = match module {
            Module::Loaded => {
                std::fs::write(&self.modules, &self.loaded).unwrap();
                None
            }
            Module::NotLoaded => {
                std::fs::write(&self.modules, "").unwrap();
                Some("`wekafsgw` is not loaded")
            }
            Module::Impossible => {
                std::fs::remove_file(&self.modules).unwrap();
                Some("its kernel takes no modules")
            }
        };
        let sees = || {
            let report = rig.health.report();
            match trouble {
                Some(trouble) => report.verbose().contains(trouble),
                None => report.is_ready(),
            }
        };
        eventually("a look at the client", sees).await;
    }

    /// It is away for a moment, twice, and there again.
    async fn has_hiccups(&self, rig: &Rig) {
        for _ in 0..2 {
            self.is(rig, Module::NotLoaded).await;
            self.is(rig, Module::Loaded).await;
        }
    }
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
    async fn labels_come_and_go_with_the_client_and_are_written_only_then(directory: &Path) {
        let server = api_server_with(watching_nodes(directory)).await;
        let cluster = Cluster::start(directory, |_| {}).await;
        // With the rights of the sample and no others.
        let kubeconfig = format!("--kubeconfig={}", server.user(NODE_USER, &[OF_SAMPLE]).unwrap().display());
        let flags = [&*kubeconfig, "--managenodetopologylabels", "--node-label-look-milliseconds=100"];
        let [patient, hasty] = ["--node-label-patience-seconds=3600", "--node-label-patience-seconds=1"].map(|patience| [&flags[..], &[patience]].concat());
        let rig = Rig::start(directory, &cluster, &patient);
        let info = rig.node.clone().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        let segments = info.accessible_topology.unwrap().segments;
        assert_eq!(segments["topology.kubernetes.io/zone"], "z1");
        assert_eq!(segments["topology.csi.weka.io/transport"], "wekafs");

        let written = labelled(&server, true).await;
        let labels = written["metadata"]["labels"].as_object().unwrap();
        for (key, value) in [
            ("topology.wekafs.csi/node", "node-1"),
            ("topology.csi.weka.io/node", "node-1"),
            ("topology.csi.weka.io/transport", "wekafs"),
            ("foreign", "stays"),
            ("topology.kubernetes.io/zone", "z1"),
        ] {
            assert_eq!(labels[key], value, "{labels:?}");
        }
        let version = |node: &Value| node["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        // A client that is away for a moment, and several looks at it: nothing is written.
        let client = Client::of_node(directory);
        client.has_hiccups(&rig).await;
        assert_eq!(version(&node(&server)), version(&written));
        assert_eq!(writes(directory), 1);
        rig.stop().await;

        // One that stays away takes the labels along, and only these.
        let rig = Rig::start(directory, &cluster, &hasty);
        client.is(&rig, Module::Loaded).await;
        client.is(&rig, Module::NotLoaded).await;
        let gone = labelled(&server, false).await;
        let left = gone["metadata"]["labels"].as_object().unwrap();
        let ours: Vec<_> = left.keys().filter(|key| key.contains("weka")).collect();
        assert_eq!(ours, Vec::<&String>::new());
        assert_eq!((&left["foreign"], &left["topology.kubernetes.io/zone"]), (&json!("stays"), &json!("z1")));
        client.is(&rig, Module::Impossible).await;
        client.is(&rig, Module::NotLoaded).await;
        assert_eq!(version(&node(&server)), version(&gone), "gone is gone");
        assert_eq!(writes(directory), 2);

        client.is(&rig, Module::Loaded).await;
        let back = labelled(&server, true).await;
        rig.stop().await;
        // Pods go on without the driver; and the next one finds nothing to write.
        let rig = Rig::start(directory, &cluster, &patient);
        client.is(&rig, Module::Loaded).await;
        client.has_hiccups(&rig).await;
        assert_eq!(version(&node(&server)), version(&back));
        assert_eq!(writes(directory), 3);
        rig.stop().await;
    }

    async fn annotations_of_claims_and_pods_change_mount_options(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
        let rig = Rig::start(directory, &cluster, &[&kubeconfig, "--allowmountoptionoverrides"]);
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
        rig.stop().await;
        // Labels were not asked for.
        assert_eq!(node(&server)["metadata"]["labels"][ACCESSIBLE], Value::Null);
    }

    async fn annotations_that_may_not_be_read_keep_no_pod_from_its_volume(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.user(NODE_USER, &[OF_SAMPLE]).unwrap().display());
        let rig = Rig::start(directory, &cluster, &[&kubeconfig, "--allowmountoptionoverrides"]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let context = map(&[
            ("csi.storage.k8s.io/pvc/name", "wrong"),
            ("csi.storage.k8s.io/pvc/namespace", "default"),
            ("csi.storage.k8s.io/pod.name", "pod"),
            ("csi.storage.k8s.io/pod.namespace", "default"),
        ]);
        publish(&rig, &volume, context).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();
        rig.stop().await;
    }

    async fn figures_of_volumes_carry_the_names_of_kubernetes(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.user(NODE_USER, &[OF_SAMPLE]).unwrap().display());
        let flags = [&*kubeconfig, "--managenodetopologylabels"];
        let rig = Rig::start(directory, &cluster, &flags);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        server.kubectl_with_input(&["apply", "-f", "-"], &persistent_volume(&volume)).unwrap();

        // What the context tells, without any further right.
        let context = map(&[
            ("csi.storage.k8s.io/pv/name", "pv-1"),
            ("csi.storage.k8s.io/pvc/name", "plain"),
            ("csi.storage.k8s.io/pvc/namespace", "default"),
        ]);
        publish(&rig, &volume, context).await.unwrap();
        rig.stats(&volume, "pod").await.unwrap();
        let [line] = &rig.metric("weka_csi_volume_used_bytes")[..] else {
            panic!("{:?}", rig.metric("weka_csi_volume_used_bytes"));
        };
        let guid = cluster.call("GET", "cluster", None).await["guid"].as_str().unwrap().to_owned();
        for label in [
            r#"csi_driver_name="csi.weka.io""#,
            r#"pv_name="pv-1""#,
            r#"pvc_name="plain""#,
            r#"pvc_namespace="default""#,
            r#"pvc_uid="""#,
            r#"storage_class_name="""#,
            r#"filesystem_name="default""#,
            r#"volume_type="dir/v1""#,
            &format!("cluster_guid=\"{guid}\""),
        ] {
            assert!(line.contains(label), "{label}: {line}");
        }
        assert_eq!(rig.metric("weka_csi_volume_pv_reported_capacity_bytes"), Vec::<String>::new());
        rig.stop().await;

        // After a restart the kubelet tells the name of the PersistentVolume, and that, where it may be read, the rest.
        let beside = rig_target(directory).parent().unwrap().join("vol_data.json");
        let told = json!({ "specVolID": "pv-1", "volumeHandle": volume, "driverName": "csi.weka.io" });
        std::fs::write(beside, told.to_string()).unwrap();
        server.allow(NODE_USER, &[OF_SAMPLE, READ_VOLUMES]).unwrap();
        let rig = Rig::start(directory, &cluster, &flags);
        rig.stats(&volume, "pod").await.unwrap();
        for name in ["capacity", "used", "free", "pv_reported_capacity"] {
            let lines = rig.metric(&format!("weka_csi_volume_{name}_bytes"));
            assert_eq!(lines.len(), 1, "{lines:?}");
            for label in [
                r#"pv_name="pv-1""#,
                r#"pvc_name="claim""#,
                r#"pvc_namespace="apps""#,
                r#"pvc_uid="uid-1""#,
                r#"storage_class_name="class-1""#,
            ] {
                assert!(lines[0].contains(label), "{label}: {lines:?}");
            }
        }
        let reported = rig.metric("weka_csi_volume_pv_reported_capacity_bytes");
        assert!(reported[0].ends_with(&format!(" {}", 1536 * GIB)), "{reported:?}");
        // Nothing stays of a volume that goes.
        rig.unpublish(&volume, "pod").await.unwrap();
        for name in ["capacity", "used", "free", "pv_reported_capacity"] {
            assert_eq!(rig.metric(&format!("weka_csi_volume_{name}_bytes")), Vec::<String>::new());
        }
        rig.stop().await;
    }
}

fn rig_target(directory: &Path) -> PathBuf {
    directory.join("pods/pod/mount")
}

fn persistent_volume(handle: &str) -> String {
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": "pv-1" },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": { "storage": "1.5Ti" },
            "storageClassName": "class-1",
            "claimRef": { "name": "claim", "namespace": "apps", "uid": "uid-1" },
            "csi": { "driver": "csi.weka.io", "volumeHandle": handle },
        },
    });
    volume.to_string()
}
