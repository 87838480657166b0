//! A simulated Weka cluster whose clients the operator starts, and the configuration of the operator for it.

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::deployed::install_operator;
use stowage_tests::{cluster, eventually, get, text};

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
        owned.configure(false);
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

    /// Switches the driver on or off.
    pub fn configure(&self, is_enabled: bool) {
        let config = self.array.weka.operator_config(is_enabled, &[]);
        cluster().apply(&config).unwrap();
    }

    /// What the client says in a field.
    fn said(&self, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let words = ["get", "wekaclient", "clients", "-o", &path];
        self.namespace.kubectl(&words).unwrap_or_default()
    }

    fn until(&self, path: &str, wanted: &str) {
        eventually(&format!("{path} is {wanted}"), || {
            (self.said(path) == wanted).then_some(())
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
    eventually("nothing of the driver is left", || {
        let none = |words: &[&str]| {
            cluster()
                .kubectl(words)
                .is_ok_and(|it| it.trim().is_empty())
        };
        let labels = NODES.iter().all(|node| topology(node).is_empty());
        (none(&objects) && none(&pods) && labels).then_some(())
    });
}
