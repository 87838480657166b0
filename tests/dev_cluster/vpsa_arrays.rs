//! Two simulated VPSAs, with what the kernels of nodes do with their shares and disks, and the driver as the guide installs it.

use devcluster::testing::TestCluster;
use devcluster::vpsa_sim::{ARRAYS, NAMESPACE, SimulatedVpsas};
use serde_json::Value;
use stowage_tests::deployed::install_operator;
use stowage_tests::{cluster, eventually, text};

const DRIVER: &str = include_str!("../../deploy/samples/vpsa.yaml");

/// Name of the instance and of its namespace.
const INSTANCE: &str = "csi-vpsa";

/// What people wait for in minutes takes seconds here.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--monitor-interval=1s"}
"#;

/// Arrays and driver.
pub struct Vpsas {
    cluster: &'static TestCluster,
    sim: SimulatedVpsas,
}

impl Vpsas {
    /// Starts all of it; there is no array in the cluster yet.
    pub fn start() -> Self {
        let cluster = cluster();
        install_operator(cluster);
        let data = cluster.dev().unwrap().directory().join("vpsa-sim");
        let sim = SimulatedVpsas::new(&data);
        sim.apply(|| cluster.command(), INSTANCE).unwrap();
        // The driver's nodes show links that the hosts make.
        sim.wait(|| cluster.command()).unwrap();
        let vpsas = Self { cluster, sim };
        vpsas.install();
        vpsas
    }

    /// Installs the driver, and waits until it can be used.
    pub fn install(&self) {
        let driver = self.sim.with_stand_ins(DRIVER, CHANGES).unwrap();
        self.cluster.apply(&driver).unwrap();
        eventually("the driver is available", || {
            let path = "jsonpath={.status.conditions[?(@.type=='Available')].status}";
            let said = ["get", "csidriverdeployment", INSTANCE, "-o", path];
            (self.kubectl(&said) == "True").then_some(())
        });
    }

    /// Removes the driver, and waits until its pods are gone.
    pub fn uninstall(&self) {
        self.kubectl(&["delete", "csidriverdeployment", INSTANCE]);
        eventually("the driver's pods are gone", || {
            let pods = self.kubectl(&["get", "pods", "-o", "name"]);
            pods.is_empty().then_some(())
        });
    }

    /// `kubectl` where the driver is.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let namespace = format!("--namespace={INSTANCE}");
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments).unwrap()
    }

    /// Tells the cluster of an array and its access key, or of another key.
    pub fn add(&self, array: &str, key: &str) {
        self.sim.add(|| self.cluster.command(), array, key).unwrap();
    }

    /// A custom resource, once its status has this state.
    pub fn in_state(&self, kind: &str, name: &str, state: &str) -> Value {
        eventually(&format!("{kind} {name} is {state}"), || {
            let kind = format!("{kind}.storage.zadara.com");
            let found = self.kubectl(&["get", &kind, name, "-o", "json", "--ignore-not-found"]);
            let found: Value = serde_json::from_str(&found).ok()?;
            (found["status"]["state"] == state).then_some(found)
        })
    }

    /// The names of all custom resources of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let kind = format!("{kind}.storage.zadara.com");
        let names = self.kubectl(&["get", &kind, "-o", "name"]);
        names.lines().map(str::to_owned).collect()
    }

    /// The array on which the volume of a PersistentVolume is.
    pub fn place(&self, volume: &str) -> String {
        let volume = self.in_state("volume", volume, "Ready");
        text(&volume["status"]["VPSAID"]).to_owned()
    }

    /// What the arrays themselves say that they have: volumes, snapshots, sessions.
    pub fn on_arrays(&self) -> [(usize, usize, usize); 2] {
        ARRAYS.map(|array| {
            let ask = |what: &str| -> Value {
                let path =
                    format!("/api/v1/namespaces/{NAMESPACE}/services/{array}:14500/proxy/{what}");
                let answer = self.cluster.kubectl(&["get", "--raw", &path]).unwrap();
                serde_json::from_str(&answer).unwrap()
            };
            let (objects, sessions) = (ask("objects"), ask("sessions"));
            let objects = objects.as_array().unwrap();
            let count = |kind: &str| objects.iter().filter(|it| it["kind"] == kind).count();
            let sessions = sessions.as_array().unwrap().len();
            (count("Volume"), count("Snapshot"), sessions)
        })
    }
}
