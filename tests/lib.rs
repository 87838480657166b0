//! What end-to-end tests share: waiting for what a cluster will do, and running `./x` as a person would.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where: that is what unwrap does"
)]

pub mod claims;
pub mod copies;
pub mod deployed;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread;

use devcluster::testing::{Namespace, TestCluster};
use serde_json::Value;
use stowage_testing::{Look, Turn};

pub use stowage_testing::look::PATIENCE;
pub use stowage_testing::{eventually, eventually_or};

/// The image under test.
pub const STOWAGE_IMAGE: &str = concat!("stowage.dev/stowage:", env!("CARGO_PKG_VERSION"));

/// The cluster all tests of a process share.
pub fn cluster() -> &'static TestCluster {
    static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| TestCluster::get().unwrap_or_else(|error| panic!("{error}")))
}

/// The nodes of the cluster that take ordinary pods, in the order of their names.
pub fn nodes() -> &'static [String] {
    static NODES: OnceLock<Vec<String>> = OnceLock::new();
    NODES.get_or_init(|| {
        let list = cluster().kubectl(&["get", "nodes", "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let takes_pods = |node: &&Value| {
            let taints = node["spec"]["taints"].as_array();
            let keeps_out = |taint: &Value| taint["effect"] != "PreferNoSchedule";
            node["spec"]["unschedulable"] != true
                && !taints.is_some_and(|all| all.iter().any(keeps_out))
        };
        let nodes = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(takes_pods);
        let mut names: Vec<_> = nodes
            .map(|node| text(&node["metadata"]["name"]).to_owned())
            .collect();
        assert!(
            !names.is_empty(),
            "no node of the cluster takes pods: {list}"
        );
        names.sort();
        names
    })
}

/// What the cluster says of pods and other objects, for tests that fail.
fn described(namespace: &Namespace, arguments: &[&str]) -> String {
    let said = namespace.kubectl(&[&["describe"], arguments].concat());
    said.unwrap_or_else(|error| error.to_string())
}

/// An object as JSON, or nothing if it cannot be read now.
pub fn get(namespace: &Namespace, kind: &str, name: &str) -> Option<Value> {
    Look::at(namespace.kubeconfig()).get(kind, namespace.name(), name)
}

/// Waits for a pod's phase and returns the pod.
pub fn pod_in_phase(namespace: &Namespace, name: &str, phase: &str) -> Value {
    let ask = || get(namespace, "pod", name).filter(|pod| pod["status"]["phase"] == phase);
    eventually_or(&format!("pod {name} {phase}"), ask, || {
        described(namespace, &["pod", name])
    })
}

/// Waits until all containers of all pods with a label are ready; returns the pods.
pub fn ready_pods(namespace: &Namespace, label: &str, count: usize) -> Vec<Value> {
    let ask = || find_ready(namespace, label, "").filter(|pods| pods.len() == count);
    eventually_or(&format!("{count} ready pods of {label}"), ask, || {
        described(namespace, &["pods", "-l", label])
    })
}

/// Waits until the one pod with a label on a node is ready; returns it.
pub fn ready_pod_on(namespace: &Namespace, label: &str, node: &str) -> Value {
    let ask = || find_ready_on(namespace, label, node);
    eventually_or(&format!("a ready pod of {label} on {node}"), ask, || {
        described(namespace, &["pods", "-l", label])
    })
}

/// The one pod with a label on a node, if it is ready now.
pub fn find_ready_on(namespace: &Namespace, label: &str, node: &str) -> Option<Value> {
    let mut pods = find_ready(namespace, label, &format!("spec.nodeName={node}"))?;
    pods.pop().filter(|_| pods.is_empty())
}

/// The pods with these labels and fields, if they can be read now.
pub fn pods(namespace: &Namespace, labels: &str, fields: &str) -> Option<Vec<Value>> {
    Look::at(namespace.kubeconfig()).list("pods", Some(namespace.name()), labels, fields)
}

/// Waits until a driver's instance can be used.
pub fn until_available(cluster: &TestCluster, namespace: &str, name: &str) {
    let ask = || {
        let look = Look::at(cluster.kubeconfig());
        let instance = look.get("csidriverdeployment", namespace, name)?;
        (condition(&instance, "Available")?["status"] == "True").then_some(())
    };
    eventually_or(&format!("driver {name} is Available"), ask, || {
        let namespace = format!("--namespace={namespace}");
        let said = cluster.kubectl(&["describe", "csidriverdeployment", name, &namespace]);
        said.unwrap_or_else(|error| error.to_string())
    });
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}

/// Waits until a driver has no volume in the cluster any more.
pub fn until_no_volume_of(cluster: &TestCluster, driver: &str) {
    until_gone(cluster, &format!("volumes of {driver}"), |volume| {
        volume["spec"]["csi"]["driver"] == driver
    });
}

/// Waits until a volume is gone from the cluster.
pub fn until_volume_is_gone(cluster: &TestCluster, volume: &str) {
    until_gone(cluster, volume, |one| one["metadata"]["name"] == volume);
}

/// Waits until the cluster has no volume any more.
pub fn until_no_volume_is_left(cluster: &TestCluster) {
    until_gone(cluster, "all volumes", |_| true);
}

fn until_gone(cluster: &TestCluster, what: &str, is_meant: impl Fn(&Value) -> bool) {
    eventually(&format!("{what} are gone"), || {
        let volumes = Look::at(cluster.kubeconfig()).list("pv", None, "", "")?;
        (!volumes.iter().any(&is_meant)).then_some(())
    });
}

/// Waits until a pod has ended; returns its phase.
pub fn ended(cluster: &TestCluster, namespace: &str, pod: &str) -> String {
    eventually(&format!("pod {pod} ends"), || {
        let pod = Look::at(cluster.kubeconfig()).get("pod", namespace, pod)?;
        let phase = text(&pod["status"]["phase"]);
        (phase == "Succeeded" || phase == "Failed").then(|| phase.to_owned())
    })
}

/// Waits until a namespace has no pod with these labels any more.
pub fn until_no_pods(cluster: &TestCluster, namespace: &str, labels: &str) {
    eventually(&format!("no pod {labels} of {namespace} is left"), || {
        let look = Look::at(cluster.kubeconfig());
        let pods = look.list("pods", Some(namespace), labels, "")?;
        pods.is_empty().then_some(())
    });
}

/// The pods that fit, if all containers of all of them are ready.
fn find_ready(namespace: &Namespace, labels: &str, fields: &str) -> Option<Vec<Value>> {
    let pods = pods(namespace, labels, fields)?;
    let is_ready = |pod: &Value| {
        let containers = pod["status"]["containerStatuses"].as_array();
        containers.is_some_and(|all| all.iter().all(|one| one["ready"] == true))
    };
    pods.iter().all(is_ready).then_some(pods)
}

/// How often the containers of a pod were started again. One that ended because a busy machine lost it a lease has done what it
/// should, and says nothing of what a test is about.
pub fn restarts(pod: &Value) -> u64 {
    let containers = pod["status"]["containerStatuses"].as_array();
    let has_failed = |container: &&Value| {
        let last_words = text(&container["lastState"]["terminated"]["message"]);
        !last_words.starts_with("leadership of lease")
    };
    let counts = containers.into_iter().flatten().filter(has_failed);
    counts.filter_map(|one| one["restartCount"].as_u64()).sum()
}

/// A name inside a JSON object.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `./x` without its shell wrapper: what `./x test` itself runs as.
pub fn x(cluster: &str) -> Command {
    let program = std::env::var_os("STOWAGE_X")
        .map(PathBuf::from)
        .expect("this test runs ./x: start it with `./x test`");
    let mut command = Command::new(program);
    // Cargo tells a test what it is a test of. A cargo that `./x` runs would take that for a change, and build everything again.
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_") && told != "CARGO_HOME" && told != "CARGO_TARGET_DIR" {
            command.env_remove(&name);
        }
    }
    command
        .env("STOWAGE_CLUSTER", cluster)
        .env_remove("STOWAGE_KUBECONFIG");
    command
}

/// A dev cluster that one test makes for itself; taken down however the test ends.
pub struct OwnCluster {
    name: &'static str,
    _turn: Turn,
}

/// How many tests have a cluster of their own at the same time: with more of them everything takes longer than anybody waits.
const OWN_CLUSTERS: usize = 3;

impl OwnCluster {
    /// Nothing is made yet: the test says `up` itself. What a test left that was killed is gone.
    pub fn named(name: &'static str) -> Self {
        let own = Self {
            name,
            _turn: Turn::one_of(OWN_CLUSTERS, "cluster"),
        };
        own.run(&["down"]);
        own
    }

    /// Runs `./x` on it.
    pub fn try_run(&self, arguments: &[&str]) -> Output {
        x(self.name)
            .args(arguments)
            .output()
            .expect("./x can be started")
    }

    /// Runs `./x` on it, which must succeed; returns what it said.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        assert!(
            output.status.success(),
            "./x {arguments:?}: {}",
            said(&output)
        );
        said(&output)
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        let output = self.try_run(&["down"]);
        // A second panic would hide the first.
        if !thread::panicking() {
            assert!(output.status.success(), "down: {}", said(&output));
        }
    }
}

/// Both outputs of a finished command, for looking into.
pub fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
