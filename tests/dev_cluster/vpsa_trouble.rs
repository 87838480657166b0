//! Every step on the way of a pod to its volume fails in turn: it waits, says which step and why, and goes on by itself.

use std::fs;
use std::path::PathBuf;

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::ARRAYS;
use serde_json::json;
use stowage_tests::copies::exec;
use stowage_tests::{cluster, eventually, get, pod_in_phase, restarts, text};

use super::claims::{Pod, ask};
use super::vpsa::{GIB, volume};
use super::vpsa_arrays::{NODES, Vpsas, ZONE};
use super::weka_volumes::wait_for_event;

/// Sleeps for as long as anybody looks.
const WAIT: &str = "sleep 1000000";

/// No array has room, until one has.
pub fn a_claim_waits_for_room_and_names_what_each_array_lacks(
    vpsas: &Vpsas,
    namespace: &Namespace,
) {
    ask(namespace, "large", "vpsa-gold", 5000 * GIB, false);
    let lacks = ["vpsa-1: it has", "vpsa-2: it has", "and 5000 GB are needed"];
    wait_for_event(namespace, "large", &lacks);
    let pool = |capacity: u64| {
        let pool = json!({"id": "pool-00010001", "display_name": "pool", "capacity": capacity, "mode": "normal",
            "status": "Normal"});
        json!({"kind": "Pool", "object": pool})
    };
    vpsas.control_of(ARRAYS[1], "create", "objects", &pool(6000));
    assert_eq!(vpsas.place(&volume(namespace, "large")), ARRAYS[1]);
    namespace.kubectl(&["delete", "pvc", "large"]).unwrap();
    eventually("the large volume is gone", || {
        vpsas.names("volume").is_empty().then_some(())
    });
    vpsas.control_of(ARRAYS[1], "create", "objects", &pool(500));
}

/// One array does not answer: the other goes on, and nobody is restarted for it.
pub fn one_array_is_away_and_the_other_goes_on(vpsas: &Vpsas, namespace: &Namespace) {
    vpsas.control_of(ARRAYS[0], "create", "endpoints/0/stop", &json!(null));
    let class = vpsas.in_state("vscstorageclass", "gold", "Failed");
    let message = text(&class["status"]["conditions"][0]["message"]);
    assert!(
        message.starts_with("vpsa-1 is Unreachable since 20"),
        "{message}"
    );
    ask(namespace, "meanwhile", "vpsa-gold", GIB, false);
    assert_eq!(vpsas.place(&volume(namespace, "meanwhile")), ARRAYS[1]);
    namespace.kubectl(&["delete", "pvc", "meanwhile"]).unwrap();
    for pod in vpsas.pods() {
        assert_eq!(restarts(&pod), 0, "{pod:#}");
    }
    vpsas.control_of(ARRAYS[0], "create", "endpoints/0/start", &json!(null));
    vpsas.in_state("vpsa", ARRAYS[0], "Ready");
}

/// Both arrays refuse a call, until this is lifted.
fn refuse(vpsas: &Vpsas, path: &str) -> [String; 2] {
    let trouble = json!({"say": {"status": 7, "message": "not today"}});
    let fault = json!({"method": "POST", "path": path, "trouble": trouble});
    ARRAYS.map(|array| vpsas.control_of(array, "create", "faults", &fault))
}

fn lift(vpsas: &Vpsas, faults: [String; 2]) {
    for (array, fault) in ARRAYS.into_iter().zip(faults) {
        let path = format!("faults/{}", fault.trim());
        vpsas.control_of(array, "delete", &path, &json!(null));
    }
}

/// Where the kubelet of the first node shows a volume to a pod.
fn target(namespace: &Namespace, pod: &str, claim: &str) -> PathBuf {
    let uid = eventually("the pod has an identity", || {
        let pod = get(namespace, "pod", pod)?;
        Some(text(&pod["metadata"]["uid"]).to_owned())
    });
    let nodes = cluster().dev().unwrap().directory().join("nodes");
    let pods = nodes.join(NODES[0]).join("lib/kubelet/pods");
    pods.join(uid)
        .join("volumes/kubernetes.io~csi")
        .join(volume(namespace, claim))
        .join("mount")
}

/// Server record, attachment, login, mount and bind.
pub fn pods_wait_at_every_step_and_go_on_by_themselves(vpsas: &Vpsas, namespace: &Namespace) {
    // All at once: a pod would be through before the next one is there.
    let servers = refuse(vpsas, "servers");
    let attachments = refuse(vpsas, "servers/*/volumes");
    ask(namespace, "on-share", "vpsa-gold", GIB, false);
    ask(namespace, "on-disk", "vpsa-gold", GIB, true);
    Pod::new("on-share", "on-share", WAIT)
        .scheduled_to(NODES[0])
        .start(namespace);
    Pod::with_device("on-disk", "on-disk", WAIT)
        .scheduled_to(NODES[0])
        .start(namespace);
    for pod in ["on-share", "on-disk"] {
        wait_for_event(namespace, pod, &["create a server (status 7): not today"]);
    }
    lift(vpsas, servers);
    for pod in ["on-share", "on-disk"] {
        wait_for_event(namespace, pod, &["attach a volume (status 7): not today"]);
    }
    // Something is in the way where the share is to be shown.
    let target = target(namespace, "on-share", "on-share");
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::write(&target, "in the way").unwrap();
    vpsas.control("replace", "data", &json!({"up": false}));
    lift(vpsas, attachments);
    wait_for_event(namespace, "on-disk", &["cannot log in at"]);
    wait_for_event(namespace, "on-share", &["cannot mount"]);
    for pod in ["on-share", "on-disk"] {
        let phase = get(namespace, "pod", pod).unwrap()["status"]["phase"].clone();
        assert_eq!(phase, "Pending", "{pod}");
    }
    vpsas.control("replace", "data", &json!({"up": true}));
    wait_for_event(namespace, "on-share", &["is not a directory"]);
    // The kubelet may have, by now.
    drop(fs::remove_file(&target));
    pod_in_phase(namespace, "on-disk", "Running");
    pod_in_phase(namespace, "on-share", "Running");
    exec(namespace, "on-share", "echo there > /data/file");
    let all = ["delete", "pod,pvc", "on-share", "on-disk"];
    namespace.kubectl(&all).unwrap();
}

/// A volume that waits for its pod is on an array that the pod's node reaches.
pub fn volumes_are_in_the_zones_of_their_pods(vpsas: &Vpsas, namespace: &Namespace) {
    for (array, zone) in ARRAYS.into_iter().zip(["b", "a"]) {
        vpsas.patch(
            "vpsa",
            array,
            &json!({"spec": {"topology": [{ZONE: zone}]}}),
        );
    }
    let class = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: vpsa-near}
provisioner: csi.zadara.com
volumeBindingMode: WaitForFirstConsumer
";
    namespace.apply(class).unwrap();
    for (node, array) in NODES.into_iter().zip([ARRAYS[1], ARRAYS[0]]) {
        let name = format!("near-{node}");
        ask(namespace, &name, "vpsa-near", GIB, false);
        let pod = Pod::new(&name, &name, "echo near > /data/file; cat /data/file");
        assert_eq!(pod.scheduled_to(node).run(namespace), "near\n");
        let volume = volume(namespace, &name);
        assert_eq!(vpsas.place(&volume), array, "{node}");
        let affinity =
            "jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]}";
        let said = cluster()
            .kubectl(&["get", "pv", &volume, "-o", affinity])
            .unwrap();
        assert!(said.contains(ZONE), "{said}");
    }
    namespace
        .kubectl(&["delete", "pvc", "near-node-a", "near-node-b"])
        .unwrap();
    namespace
        .kubectl(&["delete", "storageclass", "vpsa-near"])
        .unwrap();
    for array in ARRAYS {
        vpsas.patch("vpsa", array, &json!({"spec": {"topology": null}}));
    }
}
