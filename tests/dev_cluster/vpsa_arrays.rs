//! Two simulated VPSAs, with what the kernels of nodes do with their shares and disks, and the driver as the guide installs it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use devcluster::error::Result;
use devcluster::testing::TestCluster;
use devcluster::vpsa_sim::{ACCESS_KEY, ARRAYS, NAMESPACE, SimulatedVpsas};
use serde_json::Value;
use stowage_testing::Look;
use stowage_tests::deployed::install_operator;
use stowage_tests::{cluster, eventually, text, until_available, until_no_pods};

const DRIVER: &str = include_str!("../../deploy/samples/vpsa.yaml");

/// Where the arrays of the manifest answer.
const REST_PORT: u16 = 14443;
const CONTROL_PORT: u16 = 14500;

/// Name of the instance and of its namespace.
const INSTANCE: &str = "csi-vpsa";

/// What people wait for in minutes takes seconds here; arrays are empty when everything is deleted; and nodes have zones.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--monitor-interval=1s"},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--refresh-period=2s"},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--empty-recycle-bin"},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--topology-keys=example.com/zone"},
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/containers/0/args/-", "value": "--topology-keys=example.com/zone"}
"#;

/// Says in which zone a node is.
pub const ZONE: &str = "example.com/zone";

/// What nodes need to read it.
const TOPOLOGY: &str = include_str!("../../deploy/samples/vpsa-topology.yaml");

/// The nodes, each in a zone of its own: `a` and `b`.
pub const NODES: [&str; 2] = ["node-a", "node-b"];

/// Arrays and driver.
pub struct Vpsas {
    cluster: &'static TestCluster,
    sim: SimulatedVpsas,
    /// What is added to the sample of the driver: operations of a JSON patch, and further objects.
    changes: &'static str,
    more: &'static str,
}

impl Vpsas {
    /// Starts all of it on the cluster that tests share, whose nodes get zones; there is no array in the cluster yet.
    pub fn start() -> Self {
        let cluster = cluster();
        for (node, zone) in NODES.into_iter().zip(["a", "b"]) {
            let label = format!("{ZONE}={zone}");
            cluster
                .kubectl(&["label", "--overwrite", "node", node, &label])
                .unwrap();
        }
        Self::start_on(cluster, CHANGES, TOPOLOGY)
    }

    /// Starts all of it, with further flags and objects.
    pub fn start_on(
        cluster: &'static TestCluster,
        changes: &'static str,
        more: &'static str,
    ) -> Self {
        install_operator(cluster);
        let data = cluster.dev().unwrap().directory().join("vpsa-sim");
        let sim = SimulatedVpsas::new(&data);
        sim.apply(|| cluster.command(), INSTANCE).unwrap();
        // The driver's nodes show links that the hosts make.
        sim.wait(|| cluster.command()).unwrap();
        let vpsas = Self {
            cluster,
            sim,
            changes,
            more,
        };
        vpsas.install();
        vpsas
    }

    /// Installs the driver, and waits until it can be used.
    pub fn install(&self) {
        let driver = self.sim.with_stand_ins(DRIVER, self.changes).unwrap();
        self.cluster.apply(&driver).unwrap();
        self.cluster.apply(self.more).unwrap();
        until_available(self.cluster, INSTANCE, INSTANCE);
    }

    /// Removes the driver, and waits until its pods are gone.
    pub fn uninstall(&self) {
        self.kubectl(&["delete", "csidriverdeployment", INSTANCE]);
        until_no_pods(self.cluster, INSTANCE, "");
    }

    /// The driver's pods.
    pub fn pods(&self) -> Vec<Value> {
        eventually("the driver's pods can be read", || {
            Look::at(self.cluster.kubeconfig()).list("pods", Some(INSTANCE), "", "")
        })
    }

    /// `kubectl` where the driver is.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap()
    }

    /// The same where it may fail.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String> {
        let namespace = format!("--namespace={INSTANCE}");
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments)
    }

    /// Changes a custom resource.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let kind = format!("{kind}.storage.zadara.com");
        let patch = patch.to_string();
        self.kubectl(&["patch", &kind, name, "--type=merge", "-p", &patch]);
    }

    /// Where the files of a share are on this machine.
    pub fn files(&self, array: &str, volume: &str) -> PathBuf {
        let volumes = self.sim.data.join(array).join("volumes");
        volumes.join(volume).join("files")
    }

    /// Tells the cluster of an array and its access key, or of another key.
    pub fn add(&self, array: &str, key: &str) {
        self.sim.add(|| self.cluster.command(), array, key).unwrap();
    }

    /// A custom resource, once its status has this state.
    pub fn in_state(&self, kind: &str, name: &str, state: &str) -> Value {
        eventually(&format!("{kind} {name} is {state}"), || {
            let kind = format!("{kind}.storage.zadara.com");
            let found = Look::at(self.cluster.kubeconfig()).get(&kind, INSTANCE, name)?;
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

    /// Says something to a port of an array, by the verb of `kubectl` that has this method: `create` is POST, `replace` is PUT.
    fn tell(&self, array: &str, port: u16, verb: &str, path: &str, body: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{array}:{port}/proxy/{path}");
        let arguments = [verb, "--raw", &path, "-f", "-"];
        let told = self.cluster.kubectl_with_input(&arguments, body);
        told.unwrap()
    }

    /// Turns something of both arrays by their control API.
    pub fn control(&self, verb: &str, path: &str, body: &Value) {
        for array in ARRAYS {
            self.control_of(array, verb, path, body);
        }
    }

    /// The same of one array; what it says to that.
    pub fn control_of(&self, array: &str, verb: &str, path: &str, body: &Value) -> String {
        self.tell(array, CONTROL_PORT, verb, path, &body.to_string())
    }

    /// Calls the REST API of an array, as a person does at its console; what is in the envelope. Parameters go into the query:
    /// `kubectl` does not say of what type a body is.
    pub fn rest(&self, array: &str, verb: &str, path: &str, parameters: &[(&str, &str)]) -> Value {
        let key = ("access_key", ACCESS_KEY);
        let query = parameters.iter().chain([&key]);
        let query: Vec<_> = query
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let path = format!("api/{path}.json?{}", query.join("&"));
        let answer = self.tell(array, REST_PORT, verb, &path, "");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["response"]["status"], 0, "{path}: {answer}");
        answer["response"].clone()
    }

    /// Asks the control API of an array.
    fn look(&self, array: &str, what: &str) -> Value {
        let path =
            format!("/api/v1/namespaces/{NAMESPACE}/services/{array}:{CONTROL_PORT}/proxy/{what}");
        let answer = self.cluster.kubectl(&["get", "--raw", &path]).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// What the arrays themselves say that they have.
    pub fn on_arrays(&self) -> [OnArray; 2] {
        ARRAYS.map(|array| {
            let (objects, sessions) = (self.look(array, "objects"), self.look(array, "sessions"));
            let objects = objects.as_array().unwrap();
            let count = |kind: &str| objects.iter().filter(|it| it["kind"] == kind).count();
            OnArray {
                volumes: count("Volume"),
                snapshots: count("Snapshot"),
                servers: count("Server"),
                sessions: sessions.as_array().unwrap().len(),
            }
        })
    }

    /// What opens the arrays: access keys, and the CHAP secrets of logins to disks.
    pub fn secrets(&self) -> Vec<String> {
        let objects = ARRAYS.map(|array| self.look(array, "objects"));
        let objects = objects.iter().filter_map(Value::as_array).flatten();
        let secrets = objects.filter_map(|it| match text(&it["kind"]) {
            "AccessKey" => it["object"]["text"].as_str(),
            _ => it["object"]["chap_secret"].as_str(),
        });
        secrets.map(str::to_owned).collect()
    }

    /// The names of the Server records of an array.
    pub fn servers(&self, array: &str) -> Vec<String> {
        let objects = self.look(array, "objects");
        let objects = objects.as_array().unwrap().iter();
        let servers = objects.filter(|it| it["kind"] == "Server");
        servers
            .map(|it| text(&it["object"]["display_name"]).to_owned())
            .collect()
    }

    /// A volume as its array knows it.
    pub fn volume_on(&self, array: &str, id: &str) -> Value {
        let objects = self.look(array, "objects");
        let mut objects = objects.as_array().unwrap().iter().map(|it| &it["object"]);
        let found = objects.find(|it| it["id"] == id);
        found.cloned().unwrap_or(Value::Null)
    }

    /// How often both arrays were asked so far, by kind of request: `POST volumes/*/expand`.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for array in ARRAYS {
            let counters: BTreeMap<String, u64> =
                serde_json::from_value(self.look(array, "counters")).unwrap();
            for (kind, count) in counters {
                *all.entry(kind).or_default() += count;
            }
        }
        all
    }

    /// Waits for an Event about a custom resource.
    pub fn wait_for_event(&self, name: &str, reason: &str) -> String {
        eventually(&format!("an Event {reason} about {name}"), || {
            let about = format!("involvedObject.name={name},reason={reason}");
            let message = "jsonpath={.items[*].message}";
            let events = ["get", "events", "--field-selector", &about, "-o", message];
            let said = self
                .cluster
                .kubectl(&[&["--namespace=default"], &events[..]].concat());
            said.ok().filter(|said| !said.is_empty())
        })
    }
}

/// What an array has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnArray {
    pub volumes: usize,
    pub snapshots: usize,
    pub servers: usize,
    pub sessions: usize,
}
