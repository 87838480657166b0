//! A driver whose mounts die with its pod is updated on three nodes while databases write to its volumes: `Draining` loses
//! nothing, through a node that dies in the middle and an operator that is killed at every moment too, and `Rolling` does. A node that joins gets no pod before the driver.
//! On a cluster of its own, because nodes die. `up --taint` of docs/guides/dev-cluster.md.

use std::fs;
use std::path::{Path, PathBuf};

use devcluster::testing::{Namespace, TestCluster};
use serde_json::Value;
use stowage_tests::deployed::{Deployed, install_operator};
use stowage_tests::{OwnCluster, eventually, get, pod_in_phase, text};

use super::configured::controllers_follow_the_configuration;
use super::driver_on_node::kill_container;

const CLUSTER: &str = "test-drain";
const STARTUP_TAINT: &str = "startup.stowage.dev/fuse";

/// Appends numbers to a file of its volume, each with an fsync, and notes down outside of it which were acknowledged and which
/// failed. A new pod goes on with the next number.
const WRITER: &str = r#"
trap 'exit 0' TERM
n=0
[ ! -e /data/log ] || n=$(tail -n 1 /data/log) || echo "cannot read the log" >> /notes/$HOSTNAME.failed
while :; do
  n=$((n+1))
  if echo $n | dd of=/data/log oflag=append conv=notrunc,fsync 2> /dev/null
  then echo $n >> /notes/$HOSTNAME
  else echo $n >> /notes/$HOSTNAME.failed; sleep 1
  fi
  sleep 0.05
done
"#;

/// Databases on volumes of a driver, and what they note down.
struct Databases<'a> {
    namespace: &'a Namespace<'a>,
    /// Where the driver's volumes are.
    data: &'a Path,
    notes: PathBuf,
    count: usize,
}

impl<'a> Databases<'a> {
    fn start(driver: &Deployed<'a>, data: &'a Path, count: usize) -> Self {
        let notes = data.join("notes").join(driver.name());
        fs::create_dir_all(&notes).unwrap();
        let (class, script) = (driver.name(), serde_json::to_string(WRITER).unwrap());
        let manifest = format!(
            "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  serviceName: db
  replicas: {count}
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      terminationGracePeriodSeconds: 20
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: db}}}}}}
      containers:
      - name: main
        image: busybox
        command: [sh, -c, {script}]
        volumeMounts: [{{name: data, mountPath: /data}}, {{name: notes, mountPath: /notes}}]
      volumes:
      - {{name: notes, hostPath: {{path: {notes}}}}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: {class}
      resources: {{requests: {{storage: 64Mi}}}}
",
            notes = notes.display()
        );
        driver.namespace.apply(&manifest).unwrap();
        Self {
            namespace: driver.namespace,
            data,
            notes,
            count,
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|index| format!("db-{index}"))
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.notes.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until every database has acknowledged more than it has until now.
    fn until_all_write(&self) {
        for name in self.names() {
            let before = self.lines(&name).len();
            eventually(&format!("{name} writes"), || {
                (self.lines(&name).len() > before).then_some(())
            });
        }
    }

    fn failures(&self) -> Vec<String> {
        let files = self.names().map(|name| format!("{name}.failed"));
        files.flat_map(|file| self.lines(&file)).collect()
    }

    /// Every number that was acknowledged is in its file, each once and in order, and no write failed.
    fn assert_nothing_is_lost(&self) {
        assert_eq!(self.failures(), [""; 0]);
        for name in self.names() {
            let claim = get(self.namespace, "pvc", &format!("data-{name}")).unwrap();
            let volume = text(&claim["spec"]["volumeName"]);
            let acknowledged = self.lines(&name);
            let log = fs::read_to_string(self.data.join(volume).join("files/log")).unwrap();
            let written: Vec<_> = log.lines().collect();
            assert!(!acknowledged.is_empty());
            for (index, line) in written.iter().enumerate() {
                assert_eq!(*line, (index + 1).to_string(), "{name}");
            }
            let last = acknowledged.last().unwrap();
            assert!(
                written.iter().any(|it| it == last),
                "{name}: {last} is lost"
            );
        }
    }
}

fn change_nodes(driver: &Deployed<'_>, number: u32) {
    driver.patch(&format!(
        r#"{{"spec": {{"driverPerNodeTemplate": {{"metadata": {{"annotations": {{"change": "{number}"}}}}}}}}}}"#
    ));
}

fn assert_changed(driver: &Deployed<'_>, number: u32) {
    let is_changed =
        |pod: &Value| pod["metadata"]["annotations"]["change"] == number.to_string().as_str();
    assert!(driver.node_pods().iter().all(is_changed));
}

/// The node that is being emptied, once somebody there is asked to leave.
fn emptied_node(driver: &Deployed<'_>) -> String {
    eventually("a node is being emptied", || {
        let instance = get(driver.namespace, "csidriverdeployment", driver.name())?;
        let node = &instance["status"]["drain"]["nodes"][0];
        let is_waiting = text(&node["waitingFor"]).contains("/db-");
        is_waiting.then(|| text(&node["name"]).to_owned())
    })
}

fn taints(cluster: &TestCluster) -> String {
    let path = "jsonpath={.items[*].spec.taints[*].key}";
    cluster.kubectl(&["get", "nodes", "-o", path]).unwrap()
}

/// How far an update is, as it is seen from outside.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// A node is tainted.
    Tainted,
    /// A pod is asked to leave.
    Emptied,
    /// The old driver pod is gone, and the new one is not ready.
    Replaced,
}

impl Moment {
    const ALL: [Self; 3] = [Self::Tainted, Self::Emptied, Self::Replaced];

    fn is_now(self, cluster: &TestCluster, driver: &Deployed<'_>) -> bool {
        let instance = get(driver.namespace, "csidriverdeployment", driver.name());
        let nodes = instance.map(|it| it["status"]["drain"]["nodes"].clone());
        let nodes = nodes.iter().filter_map(Value::as_array).flatten();
        let mut waits = nodes.map(|it| text(&it["waitingFor"]).to_owned());
        match self {
            Self::Tainted => taints(cluster).contains(&driver.driver),
            Self::Emptied => waits.any(|it| it.contains("/db-")),
            Self::Replaced => waits.any(|it| it.contains("its new driver pod")),
        }
    }
}

/// The operator dies at each moment of an update, without a word to anybody, its lease included; the next one goes on.
fn kill_the_operator_at_every_moment(cluster: &TestCluster, driver: &Deployed<'_>) {
    for moment in Moment::ALL {
        eventually(&format!("{moment:?}"), || {
            moment.is_now(cluster, driver).then_some(())
        });
        let operator = ["--namespace=csi-operator", "-l", "name=csi-operator"];
        let pods = [&["get", "pods", "-o", "json"], &operator[..]].concat();
        kill_container("csi-operator", || cluster.kubectl(&pods));
        // The next one in a new pod: before a kubelet starts a container again, it makes a pause that gets longer each time.
        let gone = ["delete", "pod", "--force", "--grace-period=0"];
        cluster.kubectl(&[&gone[..], &operator].concat()).unwrap();
    }
}

/// Two drivers at once: each moves only its own pods, and nobody notices but by moving. The operator is killed meanwhile.
fn update_two(cluster: &TestCluster, drivers: [(&Deployed<'_>, &Databases<'_>); 2]) {
    for (driver, _) in drivers {
        change_nodes(driver, 1);
    }
    kill_the_operator_at_every_moment(cluster, drivers[0].0);
    for (driver, databases) in drivers {
        driver.wait_until_rolled_out();
        assert_changed(driver, 1);
        databases.until_all_write();
        databases.assert_nothing_is_lost();
    }
    assert!(!taints(cluster).contains("draining"), "{}", taints(cluster));
}

/// The nodes that an update is at.
fn nodes_under_way(driver: &Deployed<'_>) -> Vec<String> {
    let instance = get(driver.namespace, "csidriverdeployment", driver.name()).unwrap();
    let nodes = instance["status"]["drain"]["nodes"].as_array();
    let names = nodes.into_iter().flatten().map(|it| text(&it["name"]));
    names.map(str::to_owned).collect()
}

/// A node dies while it is being emptied: the update waits for it, begins with no other, and goes on when it is back.
fn survive_a_death(
    own: &OwnCluster,
    cluster: &TestCluster,
    driver: &Deployed<'_>,
    databases: &Databases<'_>,
) {
    change_nodes(driver, 2);
    let node = emptied_node(driver);
    own.run(&["node", "stop", &node]);
    eventually("the node is lost", || {
        let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        let ready = cluster.kubectl(&["get", "node", &node, "-o", path]).ok()?;
        (ready != "True").then_some(())
    });
    assert_eq!(nodes_under_way(driver), [node.as_str()]);
    own.run(&["node", "start", &node]);
    driver.wait_until_rolled_out();
    assert_changed(driver, 2);
    databases.until_all_write();
    databases.assert_nothing_is_lost();
    assert!(!taints(cluster).contains("draining"), "{}", taints(cluster));
}

/// What all of this is for.
fn break_by_rolling(driver: &Deployed<'_>, databases: &Databases<'_>) {
    driver.patch(r#"{"spec": {"nodeUpdateStrategy": "Rolling"}}"#);
    change_nodes(driver, 3);
    eventually("writes fail", || {
        (!databases.failures().is_empty()).then_some(())
    });
}

/// A pod that waits for a node is scheduled there only when the driver is, so its volume is mounted at the first attempt.
fn join_a_node(own: &OwnCluster, driver: &Deployed<'_>) {
    let namespace = driver.namespace;
    let class = driver.name();
    let manifest = format!(
        "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: early}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {class}
  resources: {{requests: {{storage: 16Mi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: early}}
spec:
  terminationGracePeriodSeconds: 0
  # A token is mounted, too, and may be refused at first on a node that is new.
  automountServiceAccountToken: false
  nodeSelector: {{kubernetes.io/hostname: node-d}}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo here > /data/file && exec sleep 3600']
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: early}}}}]
"
    );
    namespace.apply(&manifest).unwrap();
    let taint = format!("{STARTUP_TAINT}=:NoSchedule");
    own.run(&["up", "--nodes", "4", "--taint", &taint]);
    pod_in_phase(namespace, "early", "Running");
    let events = [
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=early",
    ];
    let events = namespace.kubectl(&events).unwrap();
    assert!(!events.contains("FailedMount"), "{events}");
    // Whether the scheduler has tried before depends on when it looked; that it waited does not.
    let early = get(namespace, "pod", "early").unwrap();
    let conditions = early["status"]["conditions"].as_array().unwrap();
    let scheduled = conditions.iter().find(|it| it["type"] == "PodScheduled");
    let scheduled = text(&scheduled.unwrap()["lastTransitionTime"]);
    let pods = driver.node_pods();
    let there = pods.iter().find(|it| it["spec"]["nodeName"] == "node-d");
    let containers = there.unwrap()["status"]["containerStatuses"].as_array();
    for container in containers.unwrap() {
        let started = text(&container["state"]["running"]["startedAt"]);
        assert!(!started.is_empty() && *scheduled >= *started, "{container}");
    }
}

#[test]
fn a_driver_whose_mounts_die_with_its_pod_is_updated_without_losing_a_write() {
    let own = OwnCluster::named(CLUSTER);
    own.run(&["up", "--nodes", "3"]);
    let cluster = TestCluster::named(CLUSTER).unwrap();
    install_operator(&cluster);
    let data = cluster.dev().unwrap().directory().join("fuse");
    let namespaces = ["one", "other"].map(|name| cluster.namespace(name).unwrap());
    let [one, other] = [&namespaces[0], &namespaces[1]].map(|it| Deployed::fuse(it, &data));
    one.patch(&format!(
        r#"{{"spec": {{"startupTaint": "{STARTUP_TAINT}"}}}}"#
    ));
    one.wait_until_rolled_out();
    other.wait_until_rolled_out();
    let databases = Databases::start(&one, &data, 2);
    let others = Databases::start(&other, &data, 1);
    databases.until_all_write();
    others.until_all_write();

    controllers_follow_the_configuration(&cluster, &[&one, &other]);
    update_two(&cluster, [(&one, &databases), (&other, &others)]);
    survive_a_death(&own, &cluster, &one, &databases);
    others.assert_nothing_is_lost();
    break_by_rolling(&other, &others);
    join_a_node(&own, &one);
}
