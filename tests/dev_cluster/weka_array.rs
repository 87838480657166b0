//! Simulated Weka clusters with clients on nodes, and drivers that use them, as the guide installs them.

use std::path::PathBuf;
use std::sync::OnceLock;

use devcluster::error::Error;
use devcluster::testing::{Namespace, TestCluster};
use devcluster::weka_sim::{ARRAY_WORKLOAD, SimulatedWeka};
use stowage_testing::{Look, once_in_run};
use stowage_tests::deployed::install_operator;
use stowage_tests::{cluster, condition, ended, eventually, restarts, text, until_no_pods};

const DRIVER: &str = include_str!("../../deploy/samples/weka.yaml");

/// A simulated cluster that runs.
pub struct Array {
    cluster: &'static TestCluster,
    pub weka: SimulatedWeka,
}

impl Array {
    /// The array of the guide. Its files go with the dev cluster, and all nodes see them.
    pub fn new() -> Self {
        Self::on(cluster())
    }

    /// The same on another cluster.
    pub fn on(cluster: &'static TestCluster) -> Self {
        let data = cluster.dev().unwrap().directory().join("weka-sim");
        let weka = SimulatedWeka::new(Some(data));
        Self { cluster, weka }
    }

    /// Another one. Nodes are clients at once of all that have the same `run`.
    pub fn named(name: &str, container: &str, run: &str) -> Self {
        let mut array = Self::new().called(name);
        container.clone_into(&mut array.weka.container);
        array.weka.run = format!("/run/{run}");
        array
    }

    /// The same under another name, with files of its own.
    pub fn called(mut self, name: &str) -> Self {
        self.weka.data.set_file_name(name);
        name.clone_into(&mut self.weka.name);
        self
    }

    /// Starts it, or changes it to what it is to be.
    pub fn apply(&self) {
        self.apply_without_waiting();
        self.wait();
    }

    pub fn apply_without_waiting(&self) {
        self.weka.apply(self.cluster.command()).unwrap();
    }

    pub fn wait(&self) {
        self.weka.wait(|| self.cluster.command()).unwrap();
    }

    /// `kubectl` where the array is.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let namespace = format!("--namespace={}", self.weka.name);
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments).unwrap()
    }

    /// The array dies, or comes back.
    pub fn run(&self, is_alive: bool) {
        let replicas = format!("--replicas={}", u8::from(is_alive));
        self.kubectl(&["scale", ARRAY_WORKLOAD, &replicas]);
        if is_alive {
            self.kubectl(&["rollout", "status", ARRAY_WORKLOAD, "--timeout=120s"]);
        } else {
            until_no_pods(self.cluster, &self.weka.name, "app=weka-array");
        }
    }

    /// Where pods find it.
    pub fn address(&self) -> String {
        self.weka.address(|| self.cluster.command()).unwrap()
    }

    /// A secret for a driver.
    pub fn apply_secret(&self, name: &str, namespace: &str) {
        let kubectl = || self.cluster.command();
        self.weka.apply_secret(kubectl, name, namespace).unwrap();
    }

    /// Asks the array as its administrator would: `$api` is its address, `$control` that of its control API, `$authorized`
    /// the header to send. `put PATH JSON` changes something by the control API.
    pub fn ask(&self, name: &str, script: &str) -> String {
        let script = as_administrator(script);
        let manifest = format!(
            "\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {}}}
spec:
  restartPolicy: Never
  containers: [{{name: main, image: busybox, command: [sh, -c, {script:?}]}}]
",
            self.weka.name
        );
        self.cluster.apply(&manifest).unwrap();
        let phase = ended(self.cluster, &self.weka.name, name);
        let log = self.kubectl(&["logs", name]);
        assert_eq!(phase, "Succeeded", "{name}: {log}");
        self.kubectl(&["delete", "pod", name, "--wait=false"]);
        log
    }

    /// The same from a pod that is there, which takes less time.
    pub fn ask_from(&self, namespace: &Namespace, pod: &str, script: &str) -> String {
        let (address, script) = (self.address(), as_administrator(script));
        let script = format!("WEKA_SERVICE_HOST={address}; {script}");
        let words = ["exec", pod, "--", "sh", "-c", &script];
        namespace.kubectl(&words).unwrap()
    }

    /// Where the files of a filesystem are. The array has few, and tests know theirs by name.
    pub fn files(&self, directory_in_it: &str) -> Option<PathBuf> {
        let filesystems = std::fs::read_dir(self.weka.data.join("filesystems")).ok()?;
        let mut found = filesystems
            .flatten()
            .map(|filesystem| filesystem.path().join("root").join(directory_in_it))
            .filter(|path| path.exists());
        found.next()
    }
}

/// A script that is logged in to the array.
fn as_administrator(script: &str) -> String {
    format!(
        "set -e; api=http://$WEKA_SERVICE_HOST:14000/api/v2; json='content-type: application/json'; \
         control=http://$WEKA_SERVICE_HOST:14100; \
         put() {{ (printf 'PUT %s HTTP/1.0\\r\\n%s\\r\\ncontent-length: %d\\r\\n\\r\\n%s' \"$1\" \"$json\" ${{#2}} \"$2\"; sleep 1) | \
         nc $WEKA_SERVICE_HOST 14100 | head -n 1 | grep ' 2'; }}; \
         token=$(wget -qO- --header \"$json\" --post-data '{{\"username\":\"admin\",\"password\":\"admin\",\"org\":\"Root\"}}' \
         $api/login | sed 's/.*\"access_token\":\"\\([^\"]*\\)\".*/\\1/'); \
         authorized=\"Authorization: Bearer $token\"; {script}"
    )
}

/// An instance of the driver.
pub struct Driver {
    cluster: &'static TestCluster,
    /// Its name and that of its namespace.
    pub name: String,
    /// What classes call it.
    pub provisioner: String,
}

impl Driver {
    /// The sample as it is.
    pub fn of_sample() -> Self {
        Self::named("csi-wekafs", "csi.weka.io")
    }

    pub fn named(name: &str, provisioner: &str) -> Self {
        Self::on(cluster(), name, provisioner)
    }

    /// The same on another cluster.
    pub fn on(cluster: &'static TestCluster, name: &str, provisioner: &str) -> Self {
        Self {
            cluster,
            name: name.to_owned(),
            provisioner: provisioner.to_owned(),
        }
    }

    /// Deploys the sample, with the stand-ins of an array's clients in it from the beginning. `more` are operations of a JSON
    /// patch.
    pub fn deploy(&self, array: &Array, more: &str) {
        self.deploy_sample(DRIVER, array, more);
    }

    /// The same with another instance in place of the sample's.
    pub fn deploy_instance(&self, instance: &str, array: &Array, more: &str) {
        let documents = DRIVER.split("\n---\n");
        let documents = documents.map(|document| {
            let is_instance = document.contains("kind: CSIDriverDeployment");
            if is_instance { instance } else { document }
        });
        let documents: Vec<_> = documents.collect();
        self.deploy_sample(&documents.join("\n---\n"), array, more);
    }

    fn deploy_sample(&self, sample: &str, array: &Array, more: &str) {
        install_operator(self.cluster);
        let sample = sample
            .replace("csi-wekafs", &self.name)
            .replace("csi.weka.io", &self.provisioner);
        let manifest = array.weka.with_stand_ins(&sample, more).unwrap();
        self.cluster.apply(&manifest).unwrap();
    }

    pub fn wait(&self) {
        eventually("the driver is available as it is to be", || {
            let look = Look::at(self.cluster.kubeconfig());
            let instance = look.get("csidriverdeployment", &self.name, &self.name)?;
            let is = |kind, status| Some(condition(&instance, kind)?["status"] == status);
            let is_seen =
                instance["status"]["observedGeneration"] == instance["metadata"]["generation"];
            (is("Available", "True")? && is("Progressing", "False")? && is_seen).then_some(())
        });
    }

    /// Makes objects beside it.
    pub fn apply(&self, manifest: &str) {
        self.cluster.apply(manifest).unwrap();
    }

    /// `kubectl` where the driver is.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap()
    }

    /// The same, for what may not work at the moment.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        let namespace = format!("--namespace={}", self.name);
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments)
    }

    /// Its pods that are not on their way out, each with how often its containers were started again.
    pub fn starts(&self) -> Vec<(String, u64)> {
        let look = || Look::at(self.cluster.kubeconfig()).list("pods", Some(&self.name), "", "");
        let pods = eventually("the driver's pods can be read", look);
        pods.iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| (text(&pod["metadata"]["uid"]).to_owned(), restarts(pod)))
            .collect()
    }
}

/// Snapshots of directories are allowed.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--allowsnapshotsofdirectoryvolumes"}
"#;

/// The filesystems of tests, beside the one that the array has: name, bytes, and what else is said of them.
const FILESYSTEMS: [(&str, &str); 3] = [
    ("podsFilesystem", "4294967296"),
    ("snapshot-volumes", "4294967296"),
    ("guarded", "1073741824,\"auth_required\":true"),
];

/// The array of the guide and its driver, set up once for all tests.
pub struct Weka {
    pub array: Array,
    pub driver: Driver,
}

pub fn weka() -> &'static Weka {
    static WEKA: OnceLock<Weka> = OnceLock::new();
    WEKA.get_or_init(|| {
        let weka = Weka {
            array: Array::new(),
            driver: Driver::of_sample(),
        };
        once_in_run("weka", || weka.set_up());
        weka
    })
}

impl Weka {
    fn set_up(&self) {
        self.array.apply();
        self.driver.deploy(&self.array, CHANGES);
        self.array
            .apply_secret("csi-wekafs-api-secret", "csi-wekafs");
        self.driver.wait();
        // All at once: tests count what is on the array while others run.
        let make = FILESYSTEMS.map(|(name, more)| {
            format!(
                "wget -qO- --header \"$json\" --header \"$authorized\" --post-data \
                 '{{\"name\":\"{name}\",\"group_name\":\"default\",\"total_capacity\":{more}}}' \
                 $api/fileSystems || echo it is there; "
            )
        });
        self.array.ask("make-filesystems", &make.concat());
    }
}
