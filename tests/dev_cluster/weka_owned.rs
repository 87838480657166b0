//! Two simulated Weka clusters whose clients the operator starts. On a Kubernetes cluster of their own: it has three nodes, a taint
//! drives everybody's pods away, and there is one configuration of the operator.

use std::sync::OnceLock;

use devcluster::testing::{Namespace, TestCluster};
use stowage_tests::OwnCluster;
use stowage_tests::deployed::install_operator;

use super::weka_array::Array;

/// The driver, by the `csiDriverName` of the WekaCluster: that of the plugin before it.
pub const DRIVER: &str = "moved.weka.io";
pub const CLASS: &str = "storageclass-moved-weka-io-default";
pub const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];

/// Where the driver's pods are.
pub const CSI: &str = "--namespace=weka-operator-system";
const CLUSTER: &str = "test-weka-clients";
const SECRETS: &str = include_str!("../../deploy/weka/secrets.yaml");
const IMAGE: &str = concat!("stowage.dev/stowage-sim:", env!("CARGO_PKG_VERSION"));

/// The fields of the configuration that choose the driver and the sidecars of other projects, and whose image each is.
const OF_OTHERS: [(&str, &str); 7] = [
    ("image", "csi-wekafs"),
    ("attacherImage", "csi-attacher"),
    ("provisionerImage", "csi-provisioner"),
    ("resizerImage", "csi-resizer"),
    ("snapshotterImage", "csi-snapshotter"),
    ("registrarImage", "csi-node-driver-registrar"),
    ("livenessProbeImage", "livenessprobe"),
];

/// What the configuration of the operator says of the driver.
#[derive(Clone, Copy, PartialEq)]
pub enum Csi {
    Off,
    /// Our own, with one sidecar.
    Ours,
    /// The driver and the sidecars of other projects. Ours is behind their names: it gets the flags that are meant for theirs.
    OfOthers,
}

/// The arrays, and the namespace of their clients.
pub struct Owned {
    pub prod: Array,
    pub second: Array,
    pub namespace: Namespace<'static>,
    /// The last to go.
    _cluster: OwnCluster,
}

/// The way to the Kubernetes cluster.
pub fn cluster() -> &'static TestCluster {
    static WAY: OnceLock<TestCluster> = OnceLock::new();
    WAY.get_or_init(|| TestCluster::named(CLUSTER).unwrap())
}

impl Owned {
    /// Arrays run, and clients of the first on all nodes; the driver is off.
    pub fn start() -> Self {
        let own = OwnCluster::named(CLUSTER);
        own.run(&["up", "--nodes", "3"]);
        // What must be there all the time is where nobody drives it away.
        cluster().kubectl(&["cordon", NODES[1], NODES[2]]).unwrap();
        let [prod, second] = ["prod", "second"].map(|name| {
            let mut array = Array::on(cluster()).called(name);
            // Clients see the files of both.
            array.weka.data.set_file_name("weka-arrays");
            array.weka.data.push(name);
            array.weka.has_clients = false;
            array.apply_without_waiting();
            array
        });
        install_operator(cluster());
        prod.wait();
        second.wait();
        cluster()
            .kubectl(&["uncordon", NODES[1], NODES[2]])
            .unwrap();
        let owned = Self {
            prod,
            second,
            namespace: cluster().namespace("weka-clients").unwrap(),
            _cluster: own,
        };
        owned.configure(Csi::Off);
        let secrets = SECRETS
            .replace("weka-clients", owned.namespace.name())
            .replace("weka-csi-NAME", "weka-csi-prod, weka-csi-second");
        cluster().apply(&secrets).unwrap();
        let of_driver = format!("csiDriverName: {DRIVER}");
        owned.start_clients("clients", &owned.prod, &of_driver, "");
        owned.until("clients", "/status/printer/containers", "3/3/3");
        owned
    }

    /// Starts clients of an array. `csi` is the configuration of the WekaCluster, `more` what else the WekaClient says, one line
    /// each.
    pub fn start_clients(&self, name: &str, array: &Array, csi: &str, more: &str) {
        let (own, of, address) = (self.namespace.name(), &array.weka.name, array.address());
        for secret in [format!("weka-csi-{of}"), format!("weka-client-{of}")] {
            array.apply_secret(&secret, own);
        }
        let manifest = format!(
            "\
apiVersion: weka.weka.io/v1alpha1
kind: WekaCluster
metadata: {{name: {of}}}
spec: {{csiConfig: {{{csi}}}}}
---
apiVersion: weka.weka.io/v1alpha1
kind: WekaClient
metadata: {{name: {name}}}
spec:
  image: {IMAGE}
  targetCluster: {{name: {of}, namespace: {own}}}
  joinIpPorts: [\"{address}:14000\", \"{address}:14001\"]
{more}"
        );
        self.namespace.apply(&manifest).unwrap();
    }

    /// Each client finds the files of its own array, and labels follow its health soon.
    pub fn configure(&self, csi: Csi) {
        let image = |(field, project): (&str, &str)| {
            format!("{field}: stowage.dev/in-place-of/{project}:ours")
        };
        let mut lines = vec!["nodeLabelPatienceSeconds: 2".to_owned()];
        if csi == Csi::OfOthers {
            lines.extend(OF_OTHERS.map(image));
        }
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let mut arrays = self.prod.weka.clone();
        arrays.data.pop();
        let target = "{fieldRef: {fieldPath: \"metadata.labels['weka.io/target-cluster-name']\"}}";
        let config = arrays
            .operator_config(csi != Csi::Off, &lines)
            .replace("--data=/data\n", "--data=/data/$(CLUSTER)\n")
            .replace(
                "        - {name: NODE_IP,",
                &format!(
                    "        - {{name: CLUSTER, valueFrom: {target}}}\n        - {{name: NODE_IP,"
                ),
            );
        cluster().apply(&config).unwrap();
    }

    /// Changes an object of the clients.
    pub fn patch(&self, object: &str, patch: &str) {
        self.namespace
            .kubectl(&["patch", object, "--type=merge", "-p", patch])
            .unwrap();
    }
}
