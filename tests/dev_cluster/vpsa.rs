//! The driver for VPSAs in pods, with two simulated arrays: the story of the original documentation in its order.

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::{ACCESS_KEY, ARRAYS};
use stowage_tests::copies::{
    self, exec, expand, install_snapshots, look, of_claim, of_snapshot, ready, snapshot,
    start_writer,
};
use stowage_tests::{cluster, eventually, get, pod_in_phase, ready_pods, text};

use super::claims::{Pod, ask};
use super::vpsa_arrays::Vpsas;

const CLASSES: &str = include_str!("../../examples/vpsa/storageclass.yaml");
const APPLICATION: &str = include_str!("../../examples/vpsa/application.yaml");

const GIB: i64 = 1 << 30;

const NODES: [&str; 2] = ["node-a", "node-b"];

/// A class of arrays, as the example has it.
fn class() -> String {
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
    arrays_are_added(&vpsas);
    namespace.apply(CLASSES).unwrap();
    a_share_and_a_raw_disk_move_to_the_other_node(&vpsas, &namespace);
    filesystems_on_disks_grow_and_are_copied(&vpsas, &namespace);
    pods_do_not_notice_that_the_driver_is_away(&vpsas, &namespace);
    nothing_is_left(&vpsas, &namespace);
}

fn arrays_are_added(vpsas: &Vpsas) {
    cluster().apply(&class()).unwrap();
    let class = vpsas.in_state("vscstorageclass", "gold", "Ready");
    assert_eq!(class["status"]["counters"]["VPSA"].as_u64().unwrap_or(0), 0);
    let [first, second] = ARRAYS;
    vpsas.add(first, "NOT-THE-ACCESS-KEY");
    vpsas.in_state("vpsa", first, "Unreachable");
    eventually("an Event tells of the array", || {
        let about = format!("involvedObject.name={first},type=Warning");
        let message = "jsonpath={.items[*].message}";
        let events = ["get", "events", "--field-selector", &about, "-o", message];
        let said = cluster().kubectl(&[&["--namespace=default"], &events[..]].concat());
        said.ok().filter(|said| said.contains("access key"))
    });
    vpsas.add(first, ACCESS_KEY);
    vpsas.add(second, ACCESS_KEY);
    for array in ARRAYS {
        let ready = vpsas.in_state("vpsa", array, "Ready");
        assert!(
            text(&ready["spec"]["token"]).starts_with("AES2:"),
            "{ready:#}"
        );
    }
}

/// The PersistentVolume of a claim, once it is bound.
fn volume(namespace: &Namespace, claim: &str) -> String {
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

fn a_share_and_a_raw_disk_move_to_the_other_node(vpsas: &Vpsas, namespace: &Namespace) {
    example(namespace, "vpsa-share");
    let share = vpsas.place(&volume(namespace, "vpsa-share"));
    example(namespace, "vpsa-disk");
    let disk = vpsas.place(&volume(namespace, "vpsa-disk"));
    // The rule is the smallest sum of volumes and of what is promised: after the first it is the other array's.
    assert_ne!(share, disk);
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
}

fn filesystems_on_disks_grow_and_are_copied(vpsas: &Vpsas, namespace: &Namespace) {
    let on_disks = r#"{"spec":{"volumeType":"Block"}}"#;
    let patch = [
        "patch",
        "vscstorageclass",
        "gold",
        "--type=merge",
        "-p",
        on_disks,
    ];
    vpsas.kubectl(&patch);
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
    let pods = ready_pods(namespace, "app=set", 2);
    for pod in &pods {
        let name = text(&pod["metadata"]["name"]);
        assert_eq!(exec(namespace, name, "cat /data/name"), name);
    }
}

fn pods_do_not_notice_that_the_driver_is_away(vpsas: &Vpsas, namespace: &Namespace) {
    // Disks of pods that are done are detached by and by: the writer's and those of the set stay.
    eventually("only what is used is attached", || {
        (vpsas.names("volumeattachment").len() == 3).then_some(())
    });
    let arrays = vpsas.on_arrays();
    let kinds = [
        "vpsa",
        "vscstorageclass",
        "vscnode",
        "volume",
        "volumeattachment",
        "snapshot",
    ];
    let objects = kinds.map(|kind| vpsas.names(kind));
    vpsas.uninstall();
    let count = || -> u64 {
        exec(namespace, "writer", "wc -l < /data/log")
            .parse()
            .unwrap()
    };
    let written = count();
    eventually("the pod writes without the driver", || {
        (count() > written + 10).then_some(())
    });
    vpsas.kubectl(&["get", "secret", "csi-vpsa-keys"]);
    assert_eq!(kinds.map(|kind| vpsas.names(kind)), objects);
    vpsas.install();
    for array in ARRAYS {
        vpsas.in_state("vpsa", array, "Ready");
    }
    assert_eq!(kinds.map(|kind| vpsas.names(kind)), objects);
    assert_eq!(vpsas.on_arrays(), arrays);
    let written = count();
    eventually("the pod writes on", || {
        (count() > written + 10).then_some(())
    });
}

fn nothing_is_left(vpsas: &Vpsas, namespace: &Namespace) {
    namespace
        .kubectl(&["delete", "statefulset", "set"])
        .unwrap();
    let all = ["delete", "pod,pvc,volumesnapshot", "--all"];
    namespace.kubectl(&all).unwrap();
    eventually("both arrays are empty", || {
        (vpsas.on_arrays() == [(0, 0, 0); 2]).then_some(())
    });
    eventually("nothing in the cluster tells of volumes", || {
        let kinds = ["volume", "volumeattachment", "snapshot"];
        kinds
            .iter()
            .all(|kind| vpsas.names(kind).is_empty())
            .then_some(())
    });
    for kind in ["vpsa", "vscstorageclass"] {
        let all = format!("{kind}.storage.zadara.com");
        let undo = r#"{"spec":{"isDefault":false}}"#;
        if kind == "vscstorageclass" {
            vpsas.kubectl(&["patch", &all, "gold", "--type=merge", "-p", undo]);
        }
        vpsas.kubectl(&["delete", &all, "--all"]);
    }
    let left = copies::everything_left(cluster(), "csi.zadara.com");
    assert!(left.is_empty(), "{left:?}");
    vpsas.uninstall();
}
