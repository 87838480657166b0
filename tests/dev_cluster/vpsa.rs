//! The driver for VPSAs in pods, with two simulated arrays: the story of the original documentation in its order,
//! by the manifests and changes that vpsa.md and simulators.md name.

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::{ACCESS_KEY, ARRAYS};
use serde_json::json;
use stowage_tests::copies::{
    self, exec, expand, install_snapshots, look, of_claim, of_snapshot, ready, snapshot,
    start_writer,
};
use stowage_tests::{cluster, eventually, get, pod_in_phase, ready_pods, text};

use super::claims::{Pod, ask};
use super::vpsa_arrays::{NODES, OnArray, Vpsas, ZONE};
use super::{vpsa_away, vpsa_guarded, vpsa_import, vpsa_trouble};

pub const CLASSES: &str = include_str!("../../examples/vpsa/storageclass.yaml");
const APPLICATION: &str = include_str!("../../examples/vpsa/application.yaml");

pub const GIB: i64 = 1 << 30;

/// A class of arrays, as the example has it.
pub fn class() -> String {
    let arrays = include_str!("../../examples/vpsa/arrays.yaml");
    arrays.split("\n---\n").next().unwrap().to_owned()
}

/// Two pods with a disk each.
const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  serviceName: set
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: busybox
        command: [sh, -c, 'echo $HOSTNAME > /data/name; sync; sleep 1000000']
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: vpsa-gold
      resources: {requests: {storage: 1Gi}}
";

#[test]
fn the_story_of_the_documentation_from_an_empty_class_to_empty_arrays() {
    install_snapshots(cluster());
    let vpsas = Vpsas::start();
    let namespace = cluster().namespace("vpsa").unwrap();
    let before = vpsa_import::make(&vpsas);
    arrays_are_added(&vpsas);
    namespace.apply(CLASSES).unwrap();
    before.is_used(&vpsas, &namespace);
    vpsa_trouble::a_claim_waits_for_room_and_names_what_each_array_lacks(&vpsas, &namespace);
    vpsa_trouble::one_array_is_away_and_the_other_goes_on(&vpsas, &namespace);
    vpsa_trouble::pods_wait_at_every_step_and_go_on_by_themselves(&vpsas, &namespace);
    vpsa_trouble::volumes_are_in_the_zones_of_their_pods(&vpsas, &namespace);
    a_share_and_a_raw_disk_move_to_the_other_node(&vpsas, &namespace);
    filesystems_on_disks_grow_and_are_copied(&vpsas, &namespace);
    vpsa_guarded::nobody_shows_what_opens_the_arrays(&vpsas, &namespace);
    vpsa_away::pods_do_not_notice_that_the_driver_is_away(&vpsas, &namespace);
    vpsa_away::what_is_deleted_while_its_array_is_away_waits_for_it(&vpsas);
    nothing_is_left(&vpsas, &namespace);
}

fn arrays_are_added(vpsas: &Vpsas) {
    cluster().apply(&class()).unwrap();
    let class = vpsas.in_state("vscstorageclass", "gold", "Ready");
    assert_eq!(class["status"]["counters"]["VPSA"].as_u64().unwrap_or(0), 0);
    let [first, second] = ARRAYS;
    vpsas.add(first, "NOT-THE-ACCESS-KEY");
    vpsas.in_state("vpsa", first, "Unreachable");
    let said = vpsas.wait_for_event(first, "Unreachable");
    assert!(said.contains("access key"), "{said}");
    vpsas.add(first, ACCESS_KEY);
    vpsas.in_state("vpsa", first, "Ready");

    let run = |release: &str| {
        let release = json!({"release": release});
        vpsas.control_of(second, "replace", "release", &release);
    };
    run("20.12-sp1");
    vpsas.add(second, ACCESS_KEY);
    vpsas.in_state("vpsa", second, "Incompatible");
    let said = vpsas.wait_for_event(second, "Incompatible");
    assert!(said.contains("needs 20.12-sp2 or newer"), "{said}");
    run("23.09-sp1-100");
    for array in ARRAYS {
        let ready = vpsas.in_state("vpsa", array, "Ready");
        assert!(
            text(&ready["spec"]["token"]).starts_with("AES2:"),
            "{ready:#}"
        );
        // Not even in what `kubectl apply` remembers.
        assert!(!ready.to_string().contains(ACCESS_KEY), "{ready:#}");
        for state in ["Configuring", "Importing", "Ready"] {
            vpsas.wait_for_event(array, state);
        }
    }
}

/// The PersistentVolume of a claim, once it is bound.
pub fn volume(namespace: &Namespace, claim: &str) -> String {
    eventually(&format!("claim {claim} is bound"), || {
        let claim = get(namespace, "pvc", claim)?;
        (claim["status"]["phase"] == "Bound").then(|| text(&claim["spec"]["volumeName"]).to_owned())
    })
}

/// What a person would apply of the example: `claim` is one of its names.
fn example(namespace: &Namespace, claim: &str) {
    let of_it = |document: &&str| document.contains(&format!("  name: {claim}\n"));
    let document = APPLICATION.split("\n---\n").find(of_it).unwrap();
    namespace.apply(document).unwrap();
}

/// Waits until both arrays are empty, and known to be.
fn arrays_are_empty(vpsas: &Vpsas) {
    for array in ARRAYS {
        eventually(&format!("{array} is known to be empty"), || {
            let array = vpsas.in_state("vpsa", array, "Ready");
            let (capacity, counters) = (&array["status"]["capacity"], &array["status"]["counters"]);
            let is_empty = capacity["available"] == capacity["total"] && counters["volumes"] == 0;
            is_empty.then_some(())
        });
    }
}

fn a_share_and_a_raw_disk_move_to_the_other_node(vpsas: &Vpsas, namespace: &Namespace) {
    // The rule is the smallest sum of volumes by the thousand, of allocated and of promised capacity, each as a part of the
    // whole. Of two empty arrays it is the first: from then on 0.001 + 2 / 1000. The other has 0, then 0.001 + 2 / 500.
    arrays_are_empty(vpsas);
    for (claim, array) in [("vpsa-share", ARRAYS[0]), ("vpsa-disk", ARRAYS[1])] {
        example(namespace, claim);
        assert_eq!(vpsas.place(&volume(namespace, claim)), array, "{claim}");
    }
    ask(namespace, "third", "vpsa-gold", GIB, false);
    assert_eq!(vpsas.place(&volume(namespace, "third")), ARRAYS[0]);
    namespace.kubectl(&["delete", "pvc", "third"]).unwrap();
    example(namespace, "vpsa-application");
    let pod = pod_in_phase(namespace, "vpsa-application", "Running");
    let dates = eventually("the application writes", || {
        let dates = exec(namespace, "vpsa-application", "cat /data/dates; sync");
        (!dates.is_empty()).then_some(dates)
    });
    namespace
        .kubectl(&["delete", "pod", "vpsa-application"])
        .unwrap();
    let other = NODES.iter().find(|node| **node != pod["spec"]["nodeName"]);
    let look = Pod::new("share-again", "vpsa-share", "cat /data/dates");
    let found = look.scheduled_to(other.unwrap()).run(namespace);
    assert!(found.starts_with(&dates), "{found}: {dates}");
    let look = Pod::with_device("disk-again", "vpsa-disk", "head -c 20 /dev/data");
    let found = look.scheduled_to(other.unwrap()).run(namespace);
    assert!(dates.starts_with(&found[..10]), "{found}: {dates}");
    a_share_grows(vpsas, namespace);
}

fn a_share_grows(vpsas: &Vpsas, namespace: &Namespace) {
    let patch = r#"{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}"#;
    let grow = ["patch", "pvc", "vpsa-share", "-p", patch];
    namespace.kubectl(&grow).unwrap();
    eventually("the share has grown", || {
        let claim = get(namespace, "pvc", "vpsa-share")?;
        (claim["status"]["capacity"]["storage"] == "2Gi").then_some(())
    });
    let share = volume(namespace, "vpsa-share");
    let share = vpsas.in_state("volume", &share, "Ready");
    assert_eq!(share["status"]["capacity"], "2Gi");
    let on_array = vpsas.volume_on(ARRAYS[0], text(&share["status"]["ID"]));
    assert_eq!(on_array["capacity"], 2, "{on_array}");
}

fn filesystems_on_disks_grow_and_are_copied(vpsas: &Vpsas, namespace: &Namespace) {
    vpsas.patch(
        "vscstorageclass",
        "gold",
        &json!({"spec": {"volumeType": "Block"}}),
    );
    let xfs = CLASSES.split("\n---\n").next().unwrap();
    let xfs = xfs.replace("vpsa-gold", "vpsa-xfs");
    let xfs = xfs.replace(
        "parameters:\n",
        "parameters:\n  csi.storage.k8s.io/fstype: xfs\n",
    );
    namespace.apply(&xfs).unwrap();
    ask(namespace, "files", "vpsa-xfs", GIB, false);
    start_writer(namespace, "writer", "files", NODES[0]);
    let (before, after) = expand(namespace, "files", "writer", "2Gi");
    assert!(after > before + 500_000, "{before} KiB, then {after} KiB");
    // A snapshot has what is on the disk, as after a power cut.
    exec(namespace, "writer", "sync");
    snapshot(namespace, "snapshot", "files", "vpsa");
    ready(namespace, "volumesnapshot", "snapshot");
    copies::claim(
        namespace,
        "restored",
        "vpsa-xfs",
        "3Gi",
        Some(&of_snapshot("snapshot")),
    );
    copies::claim(
        namespace,
        "cloned",
        "vpsa-xfs",
        "2Gi",
        Some(&of_claim("files")),
    );
    namespace.apply(STATEFUL_SET).unwrap();
    // Beside their source, and on the other node.
    for (claim, node) in [("restored", NODES[0]), ("cloned", NODES[1])] {
        let found = look(namespace, claim, node);
        assert_eq!(found.sums, "noise: OK", "{claim}");
        assert!(found.last > 0 && found.last == found.lines, "{claim}");
    }
    let moved = Pod::new("moved", "restored", "cd /data; md5sum -c sums");
    let found = moved.scheduled_to(NODES[1]).run(namespace);
    assert_eq!(found, "noise: OK\n");
    let pods = ready_pods(namespace, "app=set", 2);
    for pod in &pods {
        let name = text(&pod["metadata"]["name"]);
        assert_eq!(exec(namespace, name, "cat /data/name"), name);
    }
}

fn nothing_is_left(vpsas: &Vpsas, namespace: &Namespace) {
    namespace
        .kubectl(&["delete", "statefulset", "set"])
        .unwrap();
    let all = ["delete", "pod,pvc,volumesnapshot", "--all"];
    namespace.kubectl(&all).unwrap();
    eventually("both arrays are empty", || {
        (vpsas.on_arrays() == [OnArray::default(); 2]).then_some(())
    });
    eventually("nothing in the cluster tells of volumes", || {
        let kinds = ["volume", "volumeattachment", "snapshot"];
        kinds
            .iter()
            .all(|kind| vpsas.names(kind).is_empty())
            .then_some(())
    });
    vpsas.kubectl(&["delete", "vpsa.storage.zadara.com", "--all"]);
    vpsas.patch(
        "vscstorageclass",
        "gold",
        &json!({"spec": {"isDefault": false}}),
    );
    vpsas.kubectl(&["delete", "vscstorageclass.storage.zadara.com", "--all"]);
    let left = copies::everything_left(cluster(), "csi.zadara.com");
    assert_eq!(left, Some(Vec::new()));
    vpsas.uninstall();
    for node in NODES {
        let away = format!("{ZONE}-");
        cluster().kubectl(&["label", "node", node, &away]).unwrap();
    }
}
