//! What is seen of Weka clients and their drivers.

use std::collections::BTreeSet;

use serde_json::Value;
use stowage_tests::{condition, eventually, eventually_or, get, text};

use super::weka_owned::{CLASS, CSI, NODES, Owned, cluster};

/// Containers of the controller and of node pods where sidecars and driver are those of other projects.
const CONTROLLER: &str =
    "wekafs csi-attacher csi-provisioner csi-resizer csi-snapshotter csi-probe";
const NODE: &str = "wekafs csi-driver-registrar csi-probe";

/// The pods of the controller.
const OF_CONTROLLER: &str = "-lcsidriver.storage.openshift.io/deployment=weka-csi-controller";

impl Owned {
    /// The pods are those of other projects, and each driver's own livenessprobe answers for it: what pods on their nodes hear.
    pub fn others_run(&self, pod: &str) {
        for (label, containers, port) in [
            (OF_CONTROLLER, CONTROLLER, 9809),
            ("-lweka.io/mode=csi_node", NODE, 9808),
        ] {
            let lines = "jsonpath={range .items[*]}{.status.podIP} {.spec.containers[*].name}{\"\\n\"}{end}";
            let pods = cluster().kubectl(&["get", "pods", CSI, label, "-o", lines]);
            let pods = pods.unwrap();
            let addresses: Vec<_> = pods
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter(|(_, names)| *names == containers)
                .map(|(address, _)| address)
                .collect();
            assert!(!addresses.is_empty(), "no pod with {containers}: {pods}");
            for address in addresses {
                let asks = format!("wget -qO- http://{address}:{port}/healthz");
                eventually(&format!("the driver at {address}:{port} is alive"), || {
                    let words = ["exec", pod, "--", "sh", "-c", &asks];
                    self.namespace.kubectl(&words).ok()
                });
            }
        }
    }

    /// What a client says in a field.
    pub fn said(&self, client: &str, path: &str) -> String {
        let found = get(&self.namespace, "wekaclient", client);
        match found.as_ref().and_then(|client| client.pointer(path)) {
            Some(Value::String(said)) => said.clone(),
            Some(said) => said.to_string(),
            None => String::new(),
        }
    }

    /// Waits until a client says something in a field.
    pub fn until(&self, client: &str, path: &str, wanted: &str) {
        until_nothing(&format!("{path} is {wanted}"), || {
            if self.said(client, path) == wanted {
                String::new()
            } else {
                format!("the status is {}", self.said(client, "/status"))
            }
        });
    }

    /// The array has a container of each node in its list.
    pub fn array_lists_clients(&self, asked_from: &str) {
        let script = "wget -qO- --header \"$authorized\" $api/containers";
        let list = self.prod.ask_from(&self.namespace, asked_from, script);
        let list: Value = serde_json::from_str(&list).unwrap();
        let clients = list["data"].as_array().unwrap().iter();
        let clients = clients.filter(|it| it["mode"] == "client" && it["status"] == "UP");
        let mut hosts: Vec<_> = clients.map(|it| text(&it["hostname"]).to_owned()).collect();
        hosts.sort();
        assert_eq!(hosts, NODES, "{list}");
    }

    /// The driver of a client runs on so many nodes.
    pub fn until_deployed(&self, client: &str, nodes: usize) {
        self.until(client, "/status/csiDeployed", "true");
        self.until(client, "/status/csi/nodes", &format!("{nodes}/{nodes}"));
        let controller = self.said(client, "/status/csi/controller");
        let (_, controller) = controller.split_once('/').unwrap();
        let controller = format!("deployment/{controller}");
        let rollout = ["rollout", "status", &controller, "--timeout=180s"];
        cluster().kubectl(&[&[CSI], &rollout[..]].concat()).unwrap();
        eventually("the secret of the driver is found", || {
            let client = get(&self.namespace, "wekaclient", client)?;
            (condition(&client, "CsiSecretFound")?["status"] == "True").then_some(())
        });
    }

    /// The four commands of the documentation.
    pub fn commands_show_it(&self) {
        let path = "jsonpath={.status.csiDeployed}";
        let deployed = ["get", "wekaclient", "clients", "-o", path];
        assert_eq!(self.namespace.kubectl(&deployed).unwrap(), "true");
        let lines = |words: &[&str], word: &str| {
            let said = cluster().kubectl(words).unwrap();
            let lines = said.lines().filter(|line| line.contains(word));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let classes = lines(&["get", "storageclass"], "moved-weka-io");
        assert_eq!(classes.len(), 2, "{classes:?}");
        assert!(
            classes[0].starts_with(CLASS) && classes[1].contains("-default-forcedirect"),
            "{classes:?}"
        );
        let controllers = lines(&["get", "deployment", CSI], "csi-controller");
        assert!(
            matches!(&controllers[..], [one] if one.contains("1/1")),
            "{controllers:?}"
        );
        let pods = lines(&["get", "pods", CSI], "csi-node");
        let is_running = |line: &String| line.contains("2/2") && line.contains("Running");
        assert!(pods.len() == 3 && pods.iter().all(is_running), "{pods:?}");
    }

    /// The container of a client on a node, if it is there.
    pub fn container(&self, client: &str, node: &str) -> Option<Value> {
        get(
            &self.namespace,
            "wekacontainer",
            &format!("{client}-{node}"),
        )
    }

    /// Waits until a container is in a state.
    pub fn until_container_is(&self, client: &str, node: &str, state: &str) -> Value {
        eventually(&format!("{client} on {node} is {state}"), || {
            let container = self.container(client, node)?;
            (text(&container["status"]["status"]) == state).then_some(container)
        })
    }

    /// The pod of a client on a node, and the driver's beside it, as far as they are there.
    pub fn pods_on(&self, client: &str, node: &str) -> [Option<Value>; 2] {
        let name = format!("{client}-{node}");
        let beside = format!("{name}-csi-node");
        let beside = cluster().kubectl(&["get", "pod", CSI, &beside, "-o", "json"]);
        [
            get(&self.namespace, "pod", &name),
            beside.ok().and_then(|it| serde_json::from_str(&it).ok()),
        ]
    }

    /// Whether both pods are there.
    pub fn has_pods(&self, client: &str, node: &str) -> bool {
        self.pods_on(client, node).iter().all(Option::is_some)
    }

    /// Nothing of a client is on a node: container, pods, controller, labels.
    pub fn until_left(&self, client: &str, node: &str) {
        eventually(&format!("nothing of {client} is left on {node}"), || {
            let pods = self.pods_on(client, node);
            let is_left = self.container(client, node).is_some()
                || pods.iter().any(Option::is_some)
                || has_controller(node)
                || !topology(node).is_empty();
            (!is_left).then_some(())
        });
    }
}

/// The uids of pods that are there.
pub fn uids(pods: &[Option<Value>]) -> Vec<String> {
    let there = pods.iter().flatten();
    there
        .map(|it| text(&it["metadata"]["uid"]).to_owned())
        .collect()
}

/// Whether an object is told to go.
pub fn is_going(object: Option<&Value>) -> bool {
    object.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_null())
}

/// Whether the controller of the first driver runs on a node, or ends there.
fn has_controller(node: &str) -> bool {
    let here = format!("--field-selector=spec.nodeName={node}");
    let pods = ["get", "pods", CSI, OF_CONTROLLER, &here, "-o", "name"];
    !cluster()
        .kubectl(&pods)
        .is_ok_and(|it| it.trim().is_empty())
}

/// The labels of the operator by which volumes of any driver find a node. The kubelet has others, of drivers that it has ever known.
pub fn topology(node: &str) -> Vec<String> {
    let labels = ["get", "node", node, "-o", "jsonpath={.metadata.labels}"];
    let labels: Value = serde_json::from_str(&cluster().kubectl(&labels).unwrap()).unwrap();
    let keys = labels.as_object().unwrap().keys();
    let is_ours = |key: &&String| {
        let (driver, word) = key.split_once('/').unwrap_or_default();
        driver.ends_with(".weka.io") && ["accessible", "node", "transport"].contains(&word)
    };
    let ours = keys.filter(is_ours);
    ours.cloned().collect()
}

/// All objects of a driver but its pods.
pub fn objects(driver: &str) -> BTreeSet<String> {
    const KINDS: &str = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,\
                         csidrivers,storageclasses,poddisruptionbudgets";
    let label = format!("weka.io/csi-driver-name={driver}");
    let objects = ["get", KINDS, "--all-namespaces", "-l", &label, "-o", "name"];
    let found = cluster()
        .kubectl(&objects)
        .unwrap_or_else(|it| it.to_string());
    found.lines().map(str::to_owned).collect()
}

/// No object of a driver, none of its node pods and no label of it is left.
pub fn until_driver_is_gone(driver: &str) {
    // Those of the controller take their time to end; nobody waits for them.
    let label = format!("weka.io/mode=csi_node,weka.io/csi-driver-name={driver}");
    let pods = ["get", "pods", CSI, "-l", &label, "-o", "name"];
    until_nothing(&format!("nothing of {driver} is left"), || {
        let pods = cluster().kubectl(&pods);
        let pods = pods.unwrap_or_else(|it| it.to_string());
        let labels = NODES.iter().flat_map(|node| topology(node));
        let labels = labels.filter(|it| it.starts_with(&format!("topology.{driver}/")));
        let left = [
            objects(driver).into_iter().collect(),
            pods,
            labels.collect(),
        ];
        left.concat().trim().to_owned()
    });
}

/// Waits until an answer is empty; panics with the last one.
fn until_nothing(what: &str, left: impl Fn() -> String) {
    eventually_or(what, || left().is_empty().then_some(()), &left);
}
