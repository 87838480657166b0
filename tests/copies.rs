//! Volumes that grow and are copied: snapshots, and what comes of them, with verbs for what a person does.

use devcluster::testing::{Namespace, TestCluster};
use serde_json::Value;
use stowage_testing::{Look, once_in_run};

use crate::claims::Pod;
use crate::deployed::incarnation;
use crate::{eventually, get, pod_in_phase, text};

const SNAPSHOTS: &str = include_str!("../deploy/crds/snapshot.storage.k8s.io.yaml");
const GROUPS: &str = include_str!("../deploy/crds/groupsnapshot.storage.k8s.io.yaml");
const CONTROLLER: &str = include_str!("../deploy/snapshot-controller.yaml");
const CLASSES: &str = include_str!("../deploy/without-operator/hostpath-snapshot-classes.yaml");

/// The name that the samples say to replace.
pub const SAMPLE_NAME: &str = "csi-hostpath";
/// The smallest xfs has 300 MiB.
pub const SMALL: &str = "320Mi";

/// Something to compare, and then one number after the other for as long as the pod lives.
const WRITE: &str = "cd /data; dd if=/dev/urandom of=noise bs=1M count=8 2>/dev/null; \
                     md5sum noise > sums; sync; \
                     i=0; while true; do i=$((i+1)); echo $i >> log; usleep 20000; done";

/// Installs the kinds and the cluster-wide controller, once for all tests. A cluster that has a controller keeps it.
pub fn install_snapshots(cluster: &TestCluster) {
    once_in_run(&format!("snapshots-{}", incarnation(cluster)), || {
        let lease = ["get", "lease", "--all-namespaces", "--output=name"];
        let leases = cluster.kubectl(&lease).unwrap();
        let ours = [
            "get",
            "deployment/snapshot-controller",
            "--namespace=kube-system",
        ];
        if leases.contains("snapshot-controller-leader") && cluster.kubectl(&ours).is_err() {
            return;
        }
        for manifest in [SNAPSHOTS, GROUPS, CONTROLLER] {
            cluster.apply(manifest).unwrap();
        }
        let rollout = ["rollout", "status", "deployment/snapshot-controller"];
        let patience = ["--namespace=kube-system", "--timeout=120s"];
        let arguments = [&rollout[..], &patience[..]].concat();
        cluster.kubectl(&arguments).unwrap();
    });
}

/// Classes for snapshots, called like the driver, and one for volumes that can grow while they are mounted.
pub fn make_classes(cluster: &TestCluster, driver: &str) {
    cluster
        .apply(&CLASSES.replace(SAMPLE_NAME, driver))
        .unwrap();
    let class = format!(
        "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {driver}-xfs}}
provisioner: {driver}
allowVolumeExpansion: true
parameters: {{csi.storage.k8s.io/fstype: xfs}}
"
    );
    cluster.apply(&class).unwrap();
}

/// Deletes them.
pub fn delete_classes(cluster: &TestCluster, driver: &str) {
    for kind in ["volumesnapshotclass", "volumegroupsnapshotclass"] {
        cluster.kubectl(&["delete", kind, driver]).unwrap();
    }
    let class = format!("{driver}-xfs");
    cluster
        .kubectl(&["delete", "storageclass", &class])
        .unwrap();
}

/// A claim, from a source if there is one: `kind: ..., name: ...`.
pub fn claim(namespace: &Namespace, name: &str, class: &str, size: &str, source: Option<&str>) {
    let source = source.map(|source| format!("  dataSource: {{{source}}}\n"));
    let manifest = format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, labels: {{claim: {name}}}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {class}
  resources: {{requests: {{storage: {size}}}}}
{}",
        source.unwrap_or_default()
    );
    namespace.apply(&manifest).unwrap();
}

/// The source of a restored volume.
pub fn of_snapshot(name: &str) -> String {
    format!("apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: {name}")
}

/// The source of a clone.
pub fn of_claim(name: &str) -> String {
    format!("kind: PersistentVolumeClaim, name: {name}")
}

/// A snapshot of a claim.
pub fn snapshot(namespace: &Namespace, name: &str, claim: &str, class: &str) {
    let manifest = format!(
        "
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{name: {name}}}
spec:
  volumeSnapshotClassName: {class}
  source: {{persistentVolumeClaimName: {claim}}}
"
    );
    namespace.apply(&manifest).unwrap();
}

/// A snapshot of these claims at one moment.
pub fn group_snapshot(namespace: &Namespace, name: &str, claims: &[&str], class: &str) {
    let manifest = format!(
        "
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {{name: {name}}}
spec:
  volumeGroupSnapshotClassName: {class}
  source:
    selector:
      matchExpressions:
        - {{key: claim, operator: In, values: [{}]}}
",
        claims.join(", ")
    );
    namespace.apply(&manifest).unwrap();
}

/// Starts a pod that writes, and waits until it does.
pub fn start_writer(namespace: &Namespace, pod: &str, claim: &str, node: &str) {
    Pod::new(pod, claim, WRITE)
        .scheduled_to(node)
        .start(namespace);
    pod_in_phase(namespace, pod, "Running");
    eventually("the pod writes", || {
        let log = namespace.kubectl(&["exec", pod, "--", "cat", "/data/log"]);
        log.ok().filter(|log| !log.is_empty())
    });
}

/// Waits until a snapshot or group can be restored from.
pub fn ready(namespace: &Namespace, kind: &str, name: &str) -> Value {
    eventually(&format!("{kind} {name} is ready"), || {
        get(namespace, kind, name).filter(|found| found["status"]["readyToUse"] == true)
    })
}

/// Asks for more room, and waits until the running pod sees it.
pub fn expand(namespace: &Namespace, claim: &str, pod: &str, size: &str) -> (u64, u64) {
    let before = blocks(namespace, pod);
    let patch = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
    namespace
        .kubectl(&["patch", "pvc", claim, "-p", &patch])
        .unwrap();
    // A kubelet that happens to look at the pod right then takes the condition away before anybody has seen it.
    eventually("the driver has grown the volume", || {
        let claim = get(namespace, "pvc", claim)?;
        let conditions = claim["status"]["conditions"].as_array();
        let pending = |condition: &Value| condition["type"] == "FileSystemResizePending";
        let waits_for_node = conditions.is_some_and(|all| all.iter().any(pending));
        let finished = claim["status"]["capacity"]["storage"] == size;
        (waits_for_node || finished).then_some(())
    });
    // The kubelet looks at the volumes of a pod about once a minute, and at once when the pod changes.
    let now = ["annotate", "pod", pod, "look=now", "--overwrite"];
    namespace.kubectl(&now).unwrap();
    let after = eventually("the pod sees the new size", || {
        Some(blocks(namespace, pod)).filter(|now| *now > before)
    });
    eventually("the claim says so", || {
        let claim = get(namespace, "pvc", claim)?;
        (claim["status"]["capacity"]["storage"] == size).then_some(())
    });
    (before, after)
}

/// The size of a running pod's volume in KiB.
fn blocks(namespace: &Namespace, pod: &str) -> u64 {
    let df = "df -k /data | tail -1 | awk '{print $2}'";
    let text = namespace.kubectl(&["exec", pod, "--", "sh", "-c", df]);
    text.unwrap().trim().parse().unwrap()
}

/// Runs a shell command in a pod that is running.
pub fn exec(namespace: &Namespace, pod: &str, script: &str) -> String {
    let said = namespace.kubectl(&["exec", pod, "--", "sh", "-c", script]);
    said.unwrap().trim().to_owned()
}

/// How many numbers the pod of [`start_writer`] has written until now; no write has failed.
pub fn written(namespace: &Namespace, pod: &str) -> u64 {
    let count = "awk '$1 != NR {print \"line\", NR, \"is\", $0} END {print NR}' /data/log";
    let said = exec(namespace, pod, count);
    let count = said.parse();
    count.unwrap_or_else(|_| panic!("{pod} could not write every number: {said}"))
}

/// What a pod finds on a volume that began as a copy: whether the data is whole, how far the log goes and whether it
/// has all lines up to there, and the size in KiB.
pub struct Found {
    /// What `md5sum -c` says.
    pub sums: String,
    /// The last number of the log.
    pub last: u64,
    /// Its lines.
    pub lines: u64,
    /// Size in KiB.
    pub blocks: u64,
}

const LOOK: &str = "cd /data; md5sum -c sums | tr '\\n' ' '; echo; tail -n 1 log; wc -l < log; \
                    df -k /data | tail -1 | awk '{print $2}'";

/// Looks at a volume from a pod on this node.
pub fn look(namespace: &Namespace, claim: &str, node: &str) -> Found {
    let pod = format!("look-{claim}");
    let said = Pod::new(&pod, claim, LOOK)
        .scheduled_to(node)
        .run(namespace);
    let mut lines = said.lines();
    let mut next = || {
        lines
            .next()
            .unwrap_or_else(|| panic!("{said}"))
            .trim()
            .to_owned()
    };
    let sums = next();
    let mut number = || next().parse().unwrap_or_else(|_| panic!("{said}"));
    Found {
        sums,
        last: number(),
        lines: number(),
        blocks: number(),
    }
}

/// Everything in the cluster that names the driver, but for what was installed; if it can be read now.
pub fn everything_left(cluster: &TestCluster, driver: &str) -> Option<Vec<String>> {
    let left = [
        ("pv", "/spec/csi/driver"),
        ("volumesnapshotcontent", "/spec/driver"),
        ("volumegroupsnapshotcontent", "/spec/driver"),
        ("volumeattachment", "/spec/attacher"),
    ]
    .map(|(kind, place)| left(cluster, kind, place, driver));
    let left: Option<Vec<_>> = left.into_iter().collect();
    Some(left?.concat())
}

/// What of a kind in the whole cluster belongs to a driver; `place` is where the kind names it.
fn left(cluster: &TestCluster, kind: &str, place: &str, driver: &str) -> Option<Vec<String>> {
    let all = Look::at(cluster.kubeconfig()).list(kind, None, "", "")?;
    let is_its = |object: &&Value| object.pointer(place).is_some_and(|name| name == driver);
    let name = |object: &Value| format!("{kind} {}", text(&object["metadata"]["name"]));
    Some(all.iter().filter(is_its).map(name).collect())
}
