//! Drivers that the operator deploys: the samples, under names of a test's own.

use std::path::Path;

use devcluster::testing::{Namespace, TestCluster};
use serde_json::Value;
use stowage_testing::{Look, once_in_run};

use crate::{condition, eventually, eventually_or, get, pods, text};

const FUSE: &str = include_str!("../deploy/sim/fuse.yaml");
const EVERY_NODE: &str = include_str!("../deploy/samples/hostpath-every-node.yaml");
const ONE_CONTROLLER: &str = include_str!("../deploy/samples/hostpath.yaml");

/// The label of a driver's node pods, and of its controller's.
const NODE_LABEL: &str = "csidriver.storage.openshift.io/daemonset";
const CONTROLLER_LABEL: &str = "csidriver.storage.openshift.io/deployment";

/// Kinds of which an instance has objects.
pub const KINDS: &str = "daemonset,deployment,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,\
                         csidriver,storageclass,poddisruptionbudget";

/// Installs the operator as the guide says, once for all tests of a cluster.
pub fn install_operator(cluster: &TestCluster) {
    once_in_run(&format!("operator-{}", incarnation(cluster)), || {
        apply_files(
            cluster,
            &["prerequisites", "draining.yaml", "startup-taint.yaml"],
        );
        // On a cluster of somebody's own, Weka's operator may take care of them.
        if cluster.dev().is_ok() {
            apply_files(
                cluster,
                &[
                    "crds/weka.weka.io.yaml",
                    "weka/rules.yaml",
                    "weka/binding.yaml",
                ],
            );
        }
        apply_files(cluster, &["operator.yaml"]);
        let rollout = ["rollout", "status", "deployment/csi-operator"];
        let patience = ["--namespace=csi-operator", "--timeout=120s"];
        cluster
            .kubectl(&[&rollout[..], &patience[..]].concat())
            .unwrap();
    });
}

/// A word for a cluster that is another one when the cluster was made again under its name.
pub fn incarnation(cluster: &TestCluster) -> String {
    let namespace = Look::at(cluster.kubeconfig()).get("namespace", "", "kube-system");
    let namespace = namespace.expect("the cluster can be read");
    text(&namespace["metadata"]["uid"]).to_owned()
}

/// Applies files of `deploy`.
fn apply_files(cluster: &TestCluster, files: &[&str]) {
    for file in files {
        let file = format!("{}/../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
        cluster.kubectl(&["apply", "-f", &file]).unwrap();
    }
}

/// An instance in a test's namespace; it and its class are called like the namespace.
pub struct Deployed<'a> {
    /// The test's namespace.
    pub namespace: &'a Namespace<'a>,
    /// The driver's name.
    pub driver: String,
}

impl<'a> Deployed<'a> {
    /// The driver on every node.
    pub fn every_node(namespace: &'a Namespace<'a>, change: impl FnOnce(String) -> String) -> Self {
        let driver = format!("{}.stowage.dev", namespace.name());
        let manifest = EVERY_NODE
            .replace("local.hostpath.stowage.dev", &driver)
            .replace("stowage/hostpath\n", &format!("stowage/{driver}\n"))
            .replace("hostpath-local", namespace.name());
        Self::apply(namespace, driver, &change(manifest))
    }

    /// The driver with one controller, as in the original documentation.
    pub fn one_controller(namespace: &'a Namespace<'a>) -> Self {
        let driver = format!("{}.stowage.dev", namespace.name());
        // The sample's driver has its default name.
        let named = format!("        - hostpath\n        - --drivername={driver}\n");
        let manifest = ONE_CONTROLLER
            .replace("        - hostpath\n", &named)
            .replace("driverName: csi-hostpath", &format!("driverName: {driver}"))
            .replace("stowage/csi-hostpath\n", &format!("stowage/{driver}\n"))
            .replace(
                "  name: hostpath\n",
                &format!("  name: {}\n", namespace.name()),
            )
            .replace("my-default-class", namespace.name())
            .replace("my-non-default-class", &format!("{}-b", namespace.name()))
            .replace("default: true", "default: false");
        Self::apply(namespace, driver, &manifest)
    }

    /// The driver whose mounts die with its pod, with volumes in this directory.
    pub fn fuse(namespace: &'a Namespace<'a>, data: &Path) -> Self {
        let driver = format!("{}.stowage.dev", namespace.name());
        let manifest = FUSE
            .replace("fuse.sim.stowage.dev", &driver)
            .replace("/srv/stowage-sim-fuse", &data.display().to_string())
            .replace("name: fuse\n", &format!("name: {}\n", namespace.name()));
        Self::apply(namespace, driver, &manifest)
    }

    fn apply(namespace: &'a Namespace<'a>, driver: String, manifest: &str) -> Self {
        let own = format!("namespace: {}", namespace.name());
        namespace
            .apply(&manifest.replace("namespace: default", &own))
            .unwrap();
        Self { namespace, driver }
    }

    /// The name of the instance and of its class.
    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// One of its conditions.
    pub fn condition(&self, about: &str) -> Option<Value> {
        let instance = get(self.namespace, "csidriverdeployment", self.name())?;
        condition(&instance, about).cloned()
    }

    /// Waits until a condition has a status and says something.
    pub fn wait_for(&self, about: &str, status: &str, saying: &str) -> Value {
        let what = format!("{}: {about} {status} with `{saying}`", self.name());
        let look = || {
            let condition = self.condition(about)?;
            let mut fields = ["reason", "message"].iter();
            let says = fields.any(|field| text(&condition[*field]).contains(saying));
            (condition["status"] == status && says).then_some(condition)
        };
        let instead = || self.condition(about).unwrap_or_default().to_string();
        eventually_or(&what, look, instead)
    }

    /// Waits until the driver can be used.
    pub fn wait_until_available(&self) {
        self.wait_for("Available", "True", "");
    }

    /// Waits until all pods are of the current template and the driver can be used.
    pub fn wait_until_rolled_out(&self) {
        eventually("the operator has seen the last change", || {
            let instance = get(self.namespace, "csidriverdeployment", self.name())?;
            let seen = &self.condition("Progressing")?["observedGeneration"];
            (*seen == instance["metadata"]["generation"]).then_some(())
        });
        self.wait_for("Progressing", "False", "Complete");
        self.wait_until_available();
    }

    /// Changes the instance.
    pub fn patch(&self, patch: &str) {
        let change = ["patch", "csidriverdeployment", self.name()];
        let how = ["--type=merge", "-p", patch];
        self.namespace
            .kubectl(&[&change[..], &how[..]].concat())
            .unwrap();
    }

    /// Its node pods that are not on their way out, by node.
    pub fn node_pods(&self) -> Vec<Value> {
        self.pods(&format!("{NODE_LABEL}={}-node", self.name()))
    }

    /// Its controller's pods that are not on their way out.
    pub fn controller_pods(&self) -> Vec<Value> {
        self.pods(&format!("{CONTROLLER_LABEL}={}-controller", self.name()))
    }

    fn pods(&self, label: &str) -> Vec<Value> {
        let mut pods = pods(self.namespace, label, "").expect("pods can be read");
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.sort_by_key(|pod| text(&pod["spec"]["nodeName"]).to_owned());
        pods
    }

    /// Deletes the instance; what it had must be gone, cluster-scoped objects included.
    pub fn remove(&self) {
        let delete = ["delete", "csidriverdeployment", self.name()];
        let delete = [&delete[..], &["--ignore-not-found"]].concat();
        self.namespace.kubectl(&delete).unwrap();
        let label = format!(
            "csidriver.storage.openshift.io/owner-namespace={}",
            self.name()
        );
        let left = ["get", KINDS, "--all-namespaces", "-l", &label, "-o", "name"];
        assert_eq!(self.namespace.kubectl(&left).unwrap().trim(), "");
    }
}

/// The uids of pods.
pub fn uids(pods: &[Value]) -> Vec<String> {
    let uid = |pod: &Value| text(&pod["metadata"]["uid"]).to_owned();
    pods.iter().map(uid).collect()
}
