//! The processes of a driver are killed while claims come and go: real volumes, a kubelet that mounts them, pods that write to them.

use std::path::PathBuf;

use devcluster::testing::Namespace;
use stowage_csi::proto::csi::ListVolumesRequest;
use stowage_tests::{cluster, eventually, get, text};

use super::claims::{MIB, NODE, Pod, ask};
use super::driver_on_node::{DriverOnNode, kill_container};
use super::shape::Shape;

const CLAIMS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// Taken back while they are being made.
const TAKEN_BACK: [&str; 2] = ["b", "g"];

/// `kill -9` of a container of the driver's pod on [`NODE`]; the kubelet starts it again after a pause.
fn kill_on_node(namespace: &Namespace, name: &str) {
    let on_node = format!("--field-selector=spec.nodeName={NODE}");
    let label = Shape::EveryNode.node_label();
    let pods = ["get", "pods", "-l", label, &on_node, "-o", "json"];
    kill_container(name, || namespace.kubectl(&pods));
}

fn volumes(driver: &DriverOnNode) -> usize {
    let list = ListVolumesRequest::default();
    let listed = driver.controller(async |mut controller| controller.list_volumes(list).await);
    listed.unwrap().into_inner().entries.len()
}

fn phase(namespace: &Namespace, claim: &str) -> Option<String> {
    let claim = get(namespace, "pvc", claim)?;
    Some(text(&claim["status"]["phase"]).to_owned())
}

#[test]
fn no_volume_is_lost_and_none_is_left_when_sidecar_and_driver_are_killed() {
    let cluster = cluster();
    let namespace = cluster.namespace("killed").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE, Shape::EveryNode);
    for claim in CLAIMS {
        ask(&namespace, claim, &driver.name, 16 * MIB, false);
        let script = format!("echo {claim} > /data/file; sync; sleep 1000000");
        let pod = Pod::new(claim, claim, &script);
        pod.scheduled_to(NODE).start(&namespace);
        if claim == "d" {
            kill_on_node(&namespace, "sidecar");
        }
    }
    for claim in TAKEN_BACK {
        let gone = ["--wait=false", "--grace-period=0", "--force"];
        namespace
            .kubectl(&[&["delete", "pod", claim], &gone[..]].concat())
            .unwrap();
        namespace
            .kubectl(&["delete", "pvc", claim, "--wait=false"])
            .unwrap();
    }
    kill_on_node(&namespace, "driver");
    eventually("the first claim is bound", || {
        (phase(&namespace, "a")? == "Bound").then_some(())
    });
    kill_on_node(&namespace, "sidecar");

    let kept: Vec<_> = CLAIMS
        .iter()
        .filter(|claim| !TAKEN_BACK.contains(claim))
        .collect();
    for claim in &kept {
        eventually(&format!("pod {claim} has written"), || {
            let read = ["exec", claim, "--", "cat", "/data/file"];
            (namespace.kubectl(&read).ok()?.trim() == **claim).then_some(())
        });
    }
    eventually("what was taken back is gone, and nothing else", || {
        (volumes(&driver) == kept.len()).then_some(())
    });

    // The driver's own pod stays: it has to delete the volumes.
    let pods = [
        "delete",
        "pods",
        "-l",
        "!app",
        "--grace-period=0",
        "--force",
    ];
    namespace.kubectl(&pods).unwrap();
    namespace
        .kubectl(&["delete", "pvc", "--all", "--wait=false"])
        .unwrap();
    eventually("no volume is left", || {
        (volumes(&driver) == 0).then_some(())
    });
    eventually("no file is left", || {
        (driver.files() == Vec::<PathBuf>::new()).then_some(())
    });
}
