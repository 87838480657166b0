//! Two simulated Weka clusters, and one instance of the driver that uses both.

use std::path::PathBuf;

use devcluster::testing::Namespace;
use stowage_testing::{Turn, once_in_run};
use stowage_tests::eventually;

use super::claims::{MIB, ask};
use super::weka_array::{Array, Driver};
use super::weka_volumes::{class, directory};

/// The driver's readiness as a probe, and its controller on a node that the test knows.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/containers/0/args/-", "value": "--http-endpoint=:9810"},
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/containers/0/readinessProbe", "value":
    {"httpGet": {"path": "/readyz", "port": 9810}, "periodSeconds": 1, "timeoutSeconds": 10}},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/nodeSelector", "value": {"kubernetes.io/hostname": "node-a"}}
"#;

pub const NODES: [&str; 2] = ["node-a", "node-b"];

/// The clusters and the driver. Tests take turns: each says which nodes are clients of which cluster.
pub struct Pair {
    pub east: Array,
    pub west: Array,
    pub driver: Driver,
    _turn: Turn,
}

/// Once it is the test's turn.
pub fn pair() -> Pair {
    let turn = Turn::of_run("weka-pair");
    let pair = Pair {
        east: Array::named("weka-east", "east", "stowage-sim-pair"),
        west: Array::named("weka-west", "west", "stowage-sim-pair"),
        driver: Driver::named("csi-weka-pair", "pair.weka.io"),
        _turn: turn,
    };
    once_in_run("weka-pair-set-up", || pair.set_up());
    pair
}

impl Pair {
    fn set_up(&self) {
        for array in self.arrays() {
            array.apply_without_waiting();
        }
        self.driver.deploy(&self.east, CHANGES);
        for array in self.arrays() {
            let secret = ["secret", &array.weka.name].join("-");
            array.apply_secret(&secret, &self.driver.name);
        }
        self.driver.wait();
    }

    pub fn arrays(&self) -> [&Array; 2] {
        [&self.east, &self.west]
    }

    /// Every node is a client of both, by containers of different names.
    pub fn everywhere(&mut self) {
        self.lay_out([("east", None), ("west", None)]);
    }

    /// Each node is a client of one, by a container of the name that is usual.
    pub fn apart(&mut self) {
        self.lay_out(NODES.map(|node| ("client", Some(node))));
    }

    fn lay_out(&mut self, clients: [(&str, Option<&str>); 2]) {
        let arrays = [&mut self.east, &mut self.west].into_iter();
        for (array, (container, node)) in arrays.zip(clients) {
            container.clone_into(&mut array.weka.container);
            array.weka.node = node.map(str::to_owned);
            array.apply_without_waiting();
        }
        for array in self.arrays() {
            array.wait();
        }
    }

    /// Claims of classes of both arrays, named after them.
    pub fn claims(&self, namespace: &Namespace) -> [String; 2] {
        self.arrays().map(|array| {
            let name = &array.weka.name;
            let secret = format!("secret-{name}");
            let class = class(namespace, &self.driver, name, "default", Some([&secret; 3]));
            ask(namespace, name, &class, 16 * MIB, false);
            class
        })
    }
}

/// Where the volume of the claim of an array is.
pub fn place(namespace: &Namespace, array: &Array) -> PathBuf {
    let directory = directory(namespace, &array.weka.name);
    eventually("the directory is on its array", || array.files(&directory))
}
