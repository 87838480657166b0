//! A simulated Weka cluster whose clients the operator starts, and the configuration of the operator for it.

use std::time::{Duration, Instant};

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::deployed::install_operator;
use stowage_tests::{PATIENCE, cluster, eventually, get, text};

use super::weka_array::Array;

/// The driver, by the `csiDriverName` of the WekaCluster: that of the plugin before it.
pub const DRIVER: &str = "moved.weka.io";
pub const CLASS: &str = "storageclass-moved-weka-io-default";
pub const NODES: [&str; 2] = ["node-a", "node-b"];

/// Where the driver's pods are.
const CSI: &str = "--namespace=weka-operator-system";
const SECRETS: &str = include_str!("../../deploy/weka/secrets.yaml");
const CONFIG: &str = include_str!("../../deploy/prerequisites/06-config.yaml");
const IMAGE: &str = concat!("stowage.dev/stowage-sim:", env!("CARGO_PKG_VERSION"));

/// Containers of the controller and of node pods where sidecars and driver are those of other projects.
const CONTROLLER: &str =
    "wekafs csi-attacher csi-provisioner csi-resizer csi-snapshotter csi-probe";
const NODE: &str = "wekafs csi-driver-registrar csi-probe";

/// The pods of the controller.
const OF_CONTROLLER: &str = "-lcsidriver.storage.openshift.io/deployment=weka-csi-controller";

/// The fields of the configuration that choose them, and whose image each is.
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

/// The array, and the namespace of its clients.
pub struct Owned {
    pub array: Array,
    pub namespace: Namespace<'static>,
}

impl Owned {
    /// Array and clients run; the driver is off.
    pub fn start() -> Self {
        install_operator(cluster());
        let mut array = Array::named("weka-owned", "none", "stowage-sim-owned");
        array.weka.has_clients = false;
        array.apply();
        let namespace = cluster().namespace("weka-clients").unwrap();
        let owned = Self { array, namespace };
        owned.configure(Csi::Off);
        for secret in ["weka-csi-prod", "weka-client-prod"] {
            owned.array.apply_secret(secret, owned.namespace.name());
        }
        for node in NODES {
            label(node, true);
        }
        owned.namespace.apply(&owned.manifest()).unwrap();
        owned.until("{.status.printer.containers}", "2/2/2");
        owned.until_joined();
        owned
    }

    fn manifest(&self) -> String {
        let (own, address) = (self.namespace.name(), self.array.address());
        let secrets = SECRETS
            .replace("namespace: weka-clients", &format!("namespace: {own}"))
            .replace("weka-csi-NAME", "weka-csi-prod");
        format!(
            "\
{secrets}
---
apiVersion: weka.weka.io/v1alpha1
kind: WekaCluster
metadata: {{name: prod}}
spec: {{csiConfig: {{csiDriverName: {DRIVER}}}}}
---
apiVersion: weka.weka.io/v1alpha1
kind: WekaClient
metadata: {{name: clients}}
spec:
  image: {IMAGE}
  targetCluster: {{name: prod, namespace: {own}}}
  joinIpPorts: [\"{address}:14000\", \"{address}:14001\"]
  nodeSelector: {{weka-owned: \"true\"}}
"
        )
    }

    pub fn configure(&self, csi: Csi) {
        let image = |(field, project): (&str, &str)| {
            format!("{field}: stowage.dev/in-place-of/{project}:ours")
        };
        let chosen = match csi {
            Csi::OfOthers => OF_OTHERS.map(image).to_vec(),
            Csi::Off | Csi::Ours => Vec::new(),
        };
        let chosen: Vec<_> = chosen.iter().map(String::as_str).collect();
        let config = self.array.weka.operator_config(csi != Csi::Off, &chosen);
        cluster().apply(&config).unwrap();
    }

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

    /// What the client says in a field.
    fn said(&self, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let words = ["get", "wekaclient", "clients", "-o", &path];
        self.namespace.kubectl(&words).unwrap_or_default()
    }

    fn until(&self, path: &str, wanted: &str) {
        until_nothing(&format!("{path} is {wanted}"), || {
            if self.said(path) == wanted {
                String::new()
            } else {
                format!("the status is {}", self.said("{.status}"))
            }
        });
    }

    /// Waits for `status.csiDeployed`.
    pub fn until_deployed_is(&self, wanted: bool) {
        self.until("{.status.csiDeployed}", &wanted.to_string());
    }

    /// The array has a container of each node in its list.
    fn until_joined(&self) {
        let list = self.array.ask(
            "joined",
            "wget -qO- --header \"$authorized\" $api/containers",
        );
        let list: Value = serde_json::from_str(&list).unwrap();
        let clients = list["data"].as_array().unwrap().iter();
        let clients = clients.filter(|it| it["mode"] == "client" && it["status"] == "UP");
        let mut hosts: Vec<_> = clients.map(|it| text(&it["hostname"]).to_owned()).collect();
        hosts.sort();
        assert_eq!(hosts, NODES, "{list}");
    }

    /// The driver runs on so many nodes.
    pub fn until_deployed(&self, nodes: usize) {
        self.until_deployed_is(true);
        self.until("{.status.csi.nodes}", &format!("{nodes}/{nodes}"));
        let rollout = [
            "rollout",
            "status",
            "deployment/weka-csi-controller",
            "--timeout=180s",
        ];
        cluster().kubectl(&[&[CSI], &rollout[..]].concat()).unwrap();
        self.until(
            "{.status.conditions[?(@.type=='CsiSecretFound')].status}",
            "True",
        );
    }

    /// The four commands of the documentation.
    pub fn commands_show_it(&self) {
        assert_eq!(self.said("{.status.csiDeployed}"), "true");
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
        assert!(pods.len() == 2 && pods.iter().all(is_running), "{pods:?}");
    }

    /// Waits until the container on a node waits for what is mounted.
    pub fn until_draining(&self, node: &str) {
        eventually("it drains", || {
            let container = get(&self.namespace, "wekacontainer", &format!("clients-{node}"))?;
            (text(&container["status"]["status"]) == "Draining").then_some(())
        });
    }

    /// How many pods a node has of the client and its driver.
    pub fn pods_on(&self, node: &str) -> usize {
        let client = format!("clients-{node}");
        let beside = format!("{client}-csi-node");
        let has_client = get(&self.namespace, "pod", &client).is_some();
        let has_driver = cluster().kubectl(&["get", "pod", CSI, &beside]).is_ok();
        usize::from(has_client) + usize::from(has_driver)
    }

    /// Takes away what nobody is left to take away: the volume whose driver is gone, and the configuration.
    pub fn clean_up(&self) {
        cluster().apply(CONFIG).unwrap();
        label(NODES[0], false);
        let claim = get(&self.namespace, "pvc", "shared").unwrap();
        let volume = text(&claim["spec"]["volumeName"]).to_owned();
        self.namespace
            .kubectl(&["delete", "pvc", "shared"])
            .unwrap();
        cluster()
            .kubectl(&["delete", "pv", &volume, "--wait=false"])
            .unwrap();
        let nobody = r#"{"metadata": {"finalizers": null}}"#;
        // It may be gone already.
        let _ = cluster().kubectl(&["patch", "pv", &volume, "--type=merge", "-p", nobody]);
    }
}

/// Whether a node is to have a client.
pub fn label(node: &str, is_wanted: bool) {
    let label = if is_wanted {
        "weka-owned=true"
    } else {
        "weka-owned-"
    };
    cluster()
        .kubectl(&["label", "node", node, "--overwrite", label])
        .unwrap();
}

/// Whether the controller runs on a node, or ends there.
pub fn has_controller(node: &str) -> bool {
    let here = format!("--field-selector=spec.nodeName={node}");
    let pods = ["get", "pods", CSI, OF_CONTROLLER, &here, "-o", "name"];
    !cluster()
        .kubectl(&pods)
        .is_ok_and(|it| it.trim().is_empty())
}

/// The labels by which volumes find a node.
pub fn topology(node: &str) -> Vec<String> {
    let labels = ["get", "node", node, "-o", "jsonpath={.metadata.labels}"];
    let labels: Value = serde_json::from_str(&cluster().kubectl(&labels).unwrap()).unwrap();
    let keys = labels.as_object().unwrap().keys();
    let ours = keys.filter(|key| key.starts_with(&format!("topology.{DRIVER}/")));
    ours.cloned().collect()
}

/// No object of the driver, no node pod and no label of it is left.
pub fn until_driver_is_gone() {
    const KINDS: &str = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,\
                         csidrivers,storageclasses,poddisruptionbudgets";
    let label = format!("weka.io/csi-driver-name={DRIVER}");
    let objects = ["get", KINDS, "--all-namespaces", "-l", &label, "-o", "name"];
    // Those of the controller take their time to end; nobody waits for them.
    let pods = [
        "get",
        "pods",
        CSI,
        "-l",
        "weka.io/mode=csi_node",
        "-o",
        "name",
    ];
    until_nothing("nothing of the driver is left", || {
        let said = |words: &[&str]| cluster().kubectl(words).unwrap_or_else(|it| it.to_string());
        let labels = NODES.iter().flat_map(|node| topology(node));
        let left = [said(&objects), said(&pods), labels.collect()];
        left.concat().trim().to_owned()
    });
}

/// Waits until an answer is empty; panics with the last one.
fn until_nothing(what: &str, left: impl Fn() -> String) {
    let started = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}, but {left}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}
