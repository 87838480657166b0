//! A pod with a share of a VPSA, on a node that is powered off, or cut off and alive: the node is fenced, and the pod starts
//! elsewhere.

use std::sync::OnceLock;

use devcluster::testing::{Namespace, TestCluster};
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

/// The pod of the set runs on the second of two nodes, which is lost in one way and then in the other.
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
    let namespace = cluster.namespace("lost").unwrap();
    cluster.kubectl(&["cordon", stays]).unwrap();
    namespace.apply(CLASSES).unwrap();
    namespace.apply(STATEFUL_SET).unwrap();
    let lost = Lost {
        own,
        vpsas: &vpsas,
        namespace: &namespace,
    };
    lost.by(cluster, "stop", 2);
    cluster.kubectl(&["cordon", stays]).unwrap();
    namespace.kubectl(&["delete", "pod", "set-0"]).unwrap();
    // Its kubelet, its containers and its mounts go on: only the array keeps it from writing.
    lost.by(cluster, "cut", 4);
}

struct Lost<'a> {
    own: &'a OwnCluster,
    vpsas: &'a Vpsas,
    namespace: &'a Namespace<'a>,
}

impl Lost<'_> {
    /// The pod is on the node that is lost, runs elsewhere then, and the node is let in again when it is back. So often the pod
    /// has been started by then.
    fn by(&self, cluster: &TestCluster, verb: &str, starts: usize) {
        let ([stays, goes], namespace) = (NODES, self.namespace);
        let pod = pod_in_phase(namespace, "set-0", "Running");
        assert_eq!(pod["spec"]["nodeName"], goes);
        cluster.kubectl(&["uncordon", stays]).unwrap();
        assert_eq!(self.vpsas.servers(ARRAYS[0]), [goes]);

        self.own.run(&["node", verb, goes]);
        let uid = text(&pod["metadata"]["uid"]);
        eventually("another pod runs on the node that is left", || {
            let now = get(namespace, "pod", "set-0")?;
            let runs = now["status"]["phase"] == "Running" && now["spec"]["nodeName"] == stays;
            (runs && now["metadata"]["uid"] != uid).then_some(())
        });
        self.vpsas.wait_for_event(goes, "Fenced");
        assert!(self.fence().is_string(), "{verb}");
        let servers = self.vpsas.servers(ARRAYS[0]);
        assert_eq!(servers, [stays], "nobody else can write: {verb}");
        let log = exec(namespace, "set-0", "cat /data/log");
        assert_eq!(log, vec!["started"; starts].join("\n"), "{verb}");

        self.own.run(&["node", "start", goes]);
        eventually("the node is let in again", || {
            self.fence().is_null().then_some(())
        });
    }

    /// What the VSCNode says about having been fenced.
    fn fence(&self) -> Value {
        let words = ["get", "vscnode.storage.zadara.com", NODES[1], "-o", "json"];
        let node: Value = serde_json::from_str(&self.vpsas.kubectl(&words)).unwrap();
        node["metadata"]["annotations"][FENCED].clone()
    }
}
