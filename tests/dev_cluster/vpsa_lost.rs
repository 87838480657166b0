//! A pod with a share of a VPSA, on a node that is powered off: the node is fenced, and the pod starts elsewhere.

use std::sync::OnceLock;

use devcluster::testing::TestCluster;
use devcluster::vpsa_sim::{ACCESS_KEY, ARRAYS};
use serde_json::Value;
use stowage_tests::copies::exec;
use stowage_tests::{OwnCluster, eventually, get, pod_in_phase, text};

use super::vpsa::{CLASSES, class};
use super::vpsa_arrays::{NODES, Vpsas};

/// Nodes are given up after seconds.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--monitor-interval=1s"},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--node-loss-timeout=5s"}
"#;

/// The rights for that.
const RIGHTS: &str = include_str!("../../deploy/samples/vpsa-node-loss.yaml");

/// On a VSCNode to which nothing is attached any more.
const FENCED: &str = "storage.zadara.com/vsc-fenced";

/// One pod, which adds a line to its share whenever it starts.
const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  serviceName: set
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: busybox
        command: [sh, -c, 'echo started >> /data/log; sync; sleep 1000000']
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: vpsa-gold
      resources: {requests: {storage: 1Gi}}
";

/// The way to the cluster whose nodes are stopped.
fn way(name: &str) -> &'static TestCluster {
    static WAY: OnceLock<TestCluster> = OnceLock::new();
    WAY.get_or_init(|| TestCluster::named(name).unwrap())
}

/// The pod of the set runs on the second of two nodes, which is stopped.
pub fn a_pod_moves_from_a_node_that_is_lost_once_that_is_fenced(own: &OwnCluster, name: &str) {
    let [stays, goes] = NODES;
    let cluster = way(name);
    // What must be there all the time is on the first node, and the pod on the other.
    cluster.kubectl(&["cordon", goes]).unwrap();
    let vpsas = Vpsas::start_on(cluster, CHANGES, RIGHTS);
    cluster.apply(&class()).unwrap();
    vpsas.add(ARRAYS[0], ACCESS_KEY);
    vpsas.in_state("vpsa", ARRAYS[0], "Ready");
    cluster.kubectl(&["uncordon", goes]).unwrap();
    cluster.kubectl(&["cordon", stays]).unwrap();
    let namespace = cluster.namespace("lost").unwrap();
    namespace.apply(CLASSES).unwrap();
    namespace.apply(STATEFUL_SET).unwrap();
    let pod = pod_in_phase(&namespace, "set-0", "Running");
    assert_eq!(pod["spec"]["nodeName"], goes);
    cluster.kubectl(&["uncordon", stays]).unwrap();
    assert_eq!(vpsas.servers(ARRAYS[0]), [goes]);

    own.run(&["node", "stop", goes]);
    let uid = text(&pod["metadata"]["uid"]);
    eventually("another pod runs on the node that is left", || {
        let now = get(&namespace, "pod", "set-0")?;
        let runs = now["status"]["phase"] == "Running" && now["spec"]["nodeName"] == stays;
        (runs && now["metadata"]["uid"] != uid).then_some(())
    });
    vpsas.wait_for_event(goes, "Fenced");
    let node = || -> Value {
        let words = ["get", "vscnode.storage.zadara.com", goes, "-o", "json"];
        serde_json::from_str(&vpsas.kubectl(&words)).unwrap()
    };
    assert!(node()["metadata"]["annotations"][FENCED].is_string());
    assert_eq!(vpsas.servers(ARRAYS[0]), [stays], "nobody else can write");
    assert_eq!(
        exec(&namespace, "set-0", "cat /data/log"),
        "started\nstarted"
    );

    own.run(&["node", "start", goes]);
    eventually("the node is let in again", || {
        node()["metadata"]["annotations"][FENCED]
            .is_null()
            .then_some(())
    });
}
