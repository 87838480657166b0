//! The steps of the guide, typed in order, with the manifests as they are.

use devcluster::testing::TestCluster;
use serde_json::Value;
use stowage_testing::Look;
use stowage_tests::claims::{MIB, Pod, ask};
use stowage_tests::deployed::{KINDS, install_operator};
use stowage_tests::{cluster, eventually, nodes, text, until_available, until_no_volume_of};

/// A file of `deploy/samples`, which is applied as it is.
struct Sample<'a> {
    cluster: &'a TestCluster,
    file: String,
    instance: &'static str,
    driver: &'static str,
}

impl<'a> Sample<'a> {
    fn apply(
        cluster: &'a TestCluster,
        file: &str,
        instance: &'static str,
        driver: &'static str,
    ) -> Self {
        install_operator(cluster);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/samples/");
        let sample = Self {
            cluster,
            file: format!("{folder}{file}"),
            instance,
            driver,
        };
        sample.kubectl(&["apply", "-f", &sample.file]);
        sample
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let namespace = ["--namespace=default"];
        let arguments = [&namespace[..], arguments].concat();
        self.cluster.kubectl(&arguments).unwrap()
    }

    fn wait_until_available(&self) {
        until_available(self.cluster, "default", self.instance);
    }

    /// Name, ready containers and state of the pods whose name begins like this, as `kubectl get pods` shows them.
    fn pods(&self, prefix: &str) -> Vec<(String, String)> {
        let table = self.kubectl(&["get", "pods", "--no-headers"]);
        let rows = table.lines().filter(|line| line.starts_with(prefix));
        rows.map(|line| {
            let mut cells = line.split_whitespace().skip(1);
            let mut cell = || cells.next().unwrap_or_default().to_owned();
            (cell(), cell())
        })
        .collect()
    }

    /// How many nodes its DaemonSet runs on.
    fn nodes(&self) -> usize {
        let path = "jsonpath={.status.desiredNumberScheduled}";
        let set = format!("{}-node", self.instance);
        let count = self.kubectl(&["get", "daemonset", &set, "-o", path]);
        count.parse().unwrap()
    }

    /// What belongs to the instance, by kind and name.
    fn objects(&self) -> Vec<String> {
        let label = format!(
            "csidriver.storage.openshift.io/owner-name={}",
            self.instance
        );
        let list = ["get", KINDS, "--all-namespaces", "-l", &label, "-o", "name"];
        self.kubectl(&list).lines().map(str::to_owned).collect()
    }

    fn wait_until_unused(&self) {
        until_no_volume_of(self.cluster, self.driver);
    }

    /// Deletes the instance, and everything must go with it.
    fn remove(&self, how: &[&str]) {
        let delete = ["delete", "csidriverdeployment", self.instance];
        self.kubectl(&[&delete[..], how].concat());
        assert_eq!(self.objects(), Vec::<String>::new());
        eventually("its pods are gone", || {
            let prefix = format!("{}-", self.instance);
            self.pods(&prefix).is_empty().then_some(())
        });
        eventually("the kubelets have forgotten it", || {
            let nodes = Look::at(self.cluster.kubeconfig()).list("csinodes", None, "", "")?;
            let drivers = |node: &Value| node["spec"]["drivers"].as_array().cloned();
            let mut known = nodes.iter().filter_map(drivers).flatten();
            (!known.any(|driver| driver["name"] == self.driver)).then_some(())
        });
    }
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        let delete = [
            "delete",
            "--ignore-not-found",
            "--wait=false",
            "-f",
            &self.file,
        ];
        let _ = self.cluster.kubectl(&delete);
    }
}

fn running(ready: &str, count: usize) -> Vec<(String, String)> {
    vec![(ready.to_owned(), "Running".to_owned()); count]
}

#[test]
fn the_steps_of_the_guide_give_a_driver_with_the_names_of_the_original() {
    let cluster = cluster();
    let sample = Sample::apply(cluster, "hostpath.yaml", "hostpath", "csi-hostpath");
    sample.wait_until_available();
    assert_eq!(sample.pods("hostpath-controller-"), running("2/2", 1));
    assert_eq!(
        sample.pods("hostpath-node-"),
        running("2/2", sample.nodes())
    );
    let classes = sample.kubectl(&["get", "storageclass", "my-default-class", "-o", "json"]);
    let class: Value = serde_json::from_str(&classes).unwrap();
    let mark = &class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"];
    assert_eq!(text(mark), "true");

    let namespace = cluster.namespace("guide").unwrap();
    ask(&namespace, "disk", "my-default-class", 32 * MIB, false);
    eventually("the claim is bound, before any pod", || {
        let path = "jsonpath={.status.phase}";
        let phase = namespace
            .kubectl(&["get", "pvc", "disk", "-o", path])
            .ok()?;
        (phase == "Bound").then_some(())
    });
    let writer = Pod {
        // The volume is where the controller is, and the scheduler knows.
        place: "nodeSelector: {}".to_owned(),
        ..Pod::new("writer", "disk", "date > /data/file && wc -l < /data/file")
    };
    assert_eq!(writer.run(&namespace).trim(), "1");
    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    sample.wait_until_unused();
    sample.remove(&[]);
}

#[test]
fn the_sample_for_every_node_works_and_goes_in_the_foreground_too() {
    let cluster = cluster();
    let file = "hostpath-every-node.yaml";
    let sample = Sample::apply(
        cluster,
        file,
        "hostpath-local",
        "local.hostpath.stowage.dev",
    );
    sample.wait_until_available();
    assert_eq!(
        sample.pods("hostpath-local-node-"),
        running("2/2", sample.nodes())
    );
    assert!(sample.objects().len() >= 8, "{:?}", sample.objects());

    let namespace = cluster.namespace("every-node").unwrap();
    ask(&namespace, "disk", "hostpath-local", 32 * MIB, false);
    let writer = Pod::new("writer", "disk", "echo kept > /data/file && cat /data/file");
    assert_eq!(writer.scheduled_to(&nodes()[0]).run(&namespace), "kept\n");
    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    sample.wait_until_unused();
    sample.remove(&["--cascade=foreground"]);
}
