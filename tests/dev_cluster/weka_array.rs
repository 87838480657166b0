//! A simulated Weka cluster with a client on every node, and the driver that uses it, as the guide installs them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use devcluster::kubernetes::kubectl_program;
use devcluster::process::feed;
use devcluster::testing::TestCluster;

use stowage_tests::{cluster, eventually};

use super::deployed::install_operator;

const ARRAY: &str = include_str!("../../deploy/sim/weka.yaml");
const DRIVER: &str = include_str!("../../deploy/samples/weka.yaml");
const STAND_INS: &str = include_str!("../../deploy/sim/weka-driver-patch.json");
const SECRET: &str = include_str!("../../examples/dynamic_api/csi-wekafs-api-secret.yaml");

/// Where the driver is.
pub const DRIVER_NAMESPACE: &str = "--namespace=csi-wekafs";
const ARRAY_NAMESPACE: &str = "--namespace=weka-sim";

/// The array, its clients, the driver and its secret, set up once for all tests.
pub struct Weka {
    cluster: &'static TestCluster,
    data: PathBuf,
}

pub fn weka() -> &'static Weka {
    static WEKA: OnceLock<Weka> = OnceLock::new();
    WEKA.get_or_init(|| {
        let cluster = cluster();
        let data = cluster.dev().unwrap().directory().join("weka-sim");
        let weka = Weka { cluster, data };
        weka.start_array();
        weka.deploy_driver();
        weka.tell_the_secret();
        weka.wait_for_driver();
        weka
    })
}

impl Weka {
    fn start_array(&self) {
        // A directory that goes with the cluster, and that all of its nodes see.
        let manifest = ARRAY.replace("/srv/stowage-sim", &self.data.display().to_string());
        self.cluster.apply(&manifest).unwrap();
        for workload in ["deployment/weka", "daemonset/weka-client"] {
            let wait = ["rollout", "status", workload, "--timeout=120s"];
            self.array(&wait);
        }
    }

    /// The secret of the examples, with the words and the address of this array.
    fn tell_the_secret(&self) {
        let host = self.array(&["get", "service", "weka", "-o", "jsonpath={.spec.clusterIP}"]);
        let (head, _) = SECRET.split_once("\ndata:").unwrap();
        let data = format!(
            "stringData: {{username: admin, password: admin, organization: Root, scheme: http, \
             endpoints: '{host}:14000,{host}:14001'}}\n"
        );
        self.cluster.apply(&format!("{head}\n{data}")).unwrap();
    }

    /// The sample, with the stand-ins in its instance from the beginning.
    fn deploy_driver(&self) {
        install_operator(self.cluster);
        for document in DRIVER.split("\n---\n") {
            if document.contains("kind: CSIDriverDeployment") {
                let mut patch = Command::new(kubectl_program());
                patch.args(["patch", "--local", "-f", "-", "-o", "yaml"]);
                patch.args(["--type=json", "-p", STAND_INS]);
                let patched = feed(&mut patch, document).unwrap();
                self.cluster.apply(&patched).unwrap();
            } else {
                self.cluster.apply(document).unwrap();
            }
        }
    }

    fn wait_for_driver(&self) {
        eventually("the driver is available with its stand-ins", || {
            let path = "jsonpath={.status.conditions[?(@.type=='Available')].status}/\
                        {.status.conditions[?(@.type=='Progressing')].status}/\
                        {.status.observedGeneration}/{.metadata.generation}";
            let said = self.driver(&["get", "csidriverdeployment", "csi-wekafs", "-o", path]);
            let (conditions, generations) = said.split_at("True/False/".len().min(said.len()));
            let (observed, current) = generations.split_once('/')?;
            (conditions == "True/False/" && observed == current).then_some(())
        });
    }

    /// `kubectl` for the whole cluster.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl(arguments).unwrap()
    }

    /// `kubectl` where the driver is.
    pub fn driver(&self, arguments: &[&str]) -> String {
        self.kubectl(&[&[DRIVER_NAMESPACE], arguments].concat())
    }

    fn array(&self, arguments: &[&str]) -> String {
        self.kubectl(&[&[ARRAY_NAMESPACE], arguments].concat())
    }

    /// Asks the array as its administrator would: `$api` is its address, `$authorized` the header to send.
    pub fn ask(&self, name: &str, script: &str) -> String {
        let script = format!(
            "set -e; api=http://$WEKA_SERVICE_HOST:14000/api/v2; json='content-type: application/json'; \
             token=$(wget -qO- --header \"$json\" --post-data '{{\"username\":\"admin\",\"password\":\"admin\",\"org\":\"Root\"}}' \
             $api/login | sed 's/.*\"access_token\":\"\\([^\"]*\\)\".*/\\1/'); \
             authorized=\"Authorization: Bearer $token\"; {script}"
        );
        let manifest = format!(
            "\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: weka-sim}}
spec:
  restartPolicy: Never
  containers: [{{name: main, image: busybox, command: [sh, -c, {script:?}]}}]
"
        );
        self.cluster.apply(&manifest).unwrap();
        eventually(&format!("pod {name} ends"), || {
            let phase = self.array(&["get", "pod", name, "-o", "jsonpath={.status.phase}"]);
            (phase == "Succeeded" || phase == "Failed").then_some(())
        });
        let log = self.array(&["logs", name]);
        self.array(&["delete", "pod", name]);
        log
    }

    /// Where the files of a filesystem are. The array has few, and tests know theirs by name.
    pub fn files(&self, directory_in_it: &str) -> Option<PathBuf> {
        let filesystems = std::fs::read_dir(self.data.join("filesystems")).ok()?;
        let mut found = filesystems
            .flatten()
            .map(|filesystem| filesystem.path().join("root").join(directory_in_it))
            .filter(|path| path.exists());
        found.next()
    }
}
