//! What one node writes to its private places another does not see; the API server survives JSON.

use std::process::Command;

use devcluster::process::{Namespaces, capture};
use stowage_tests::cluster;

use super::shape::shared_directory;

fn on_node(node: &str, script: &str) -> devcluster::Result<String> {
    let pid = cluster().dev()?.node_pid(node)?;
    Namespaces::whole(pid).enter(|| capture(Command::new("sh").args(["-c", script])))
}

#[test]
fn a_file_of_one_node_is_not_on_another_nor_on_the_machine() {
    for directory in ["/var/lib/stowage", "/tmp", "/var/lib/kubelet", "/run"] {
        let file = format!("{directory}/written-by-node-b-{}", std::process::id());
        on_node(
            "node-b",
            &format!("mkdir -p {directory} && echo here > {file}"),
        )
        .unwrap();
        assert_eq!(on_node("node-b", &format!("cat {file}")).unwrap(), "here\n");
        assert!(
            on_node("node-a", &format!("cat {file}")).is_err(),
            "{file} is on node-a"
        );
        assert!(
            !std::path::Path::new(&file).exists(),
            "{file} is on the machine"
        );
        on_node("node-b", &format!("rm {file}")).unwrap();
    }
}

/// Wherever the project's clone lies.
#[test]
fn what_the_tests_share_is_on_every_node_and_on_the_machine() {
    let directory = shared_directory(&format!("isolation-{}", std::process::id()));
    let file = directory.join("shared");
    let write = format!(
        "mkdir -p {} && echo here > {}",
        directory.display(),
        file.display()
    );
    on_node("node-b", &write).unwrap();
    let read = on_node("node-a", &format!("cat {}", file.display()));
    let here = std::fs::read_to_string(&file);
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        (read.unwrap().as_str(), here.unwrap().as_str()),
        ("here\n", "here\n")
    );
}

#[test]
fn a_node_and_its_pods_have_no_way_out_of_the_machine() {
    // A documentation address: if there were a route, the answer would be a timeout, not a refusal.
    let route = on_node("node-a", "ip route get 192.0.2.1 2>&1; true").unwrap();
    assert!(
        route.contains("unreachable") || route.contains("No route"),
        "{route}"
    );
}

/// Built with the wrong reflect2 the API server dies in `mapiterinit` after a few of these.
#[test]
fn the_api_server_answers_json_fifty_times_and_is_still_the_same_process() {
    let dev = cluster().dev().unwrap();
    let pid = || {
        let parts = dev.status().unwrap();
        let part = parts
            .into_iter()
            .find(|part| part.name == "kube-apiserver")
            .unwrap();
        part.pid.expect("the API server runs")
    };
    let before = pid();
    for _ in 0..50 {
        let path = "/apis/apps/v1/namespaces/kube-system/deployments?pretty=true";
        let answer = dev.kubectl(&["get", "--raw", path]).unwrap();
        assert!(answer.contains("DeploymentList"), "{answer}");
    }
    assert_eq!(pid(), before);
}

#[test]
fn a_node_may_not_read_secrets_of_others_nor_label_another_node() {
    let dev = cluster().dev().unwrap();
    let as_node_a = dev.directory().join("pki/node-a.kubeconfig");
    let kubernetes = devcluster::kubernetes::Kubernetes::already_there().unwrap();
    let run = |arguments: &[&str]| {
        let mut kubectl = devcluster::cluster::kubectl(&kubernetes, &as_node_a);
        capture(kubectl.args(arguments))
    };
    run(&["get", "node", "node-a"]).unwrap();
    let secrets = run(&["get", "secrets", "-n", "kube-system"])
        .unwrap_err()
        .to_string();
    assert!(secrets.contains("forbidden"), "{secrets}");
    let label = run(&["label", "node", "node-b", "stolen=yes"])
        .unwrap_err()
        .to_string();
    assert!(
        label.contains("forbidden") || label.contains("not allowed"),
        "{label}"
    );
}

#[test]
fn snapshot_resources_are_served_and_alpha_features_are_on() {
    let dev = cluster().dev().unwrap();
    let resources = dev.kubectl(&["api-resources", "-o", "name"]).unwrap();
    for wanted in [
        "volumesnapshots.snapshot.storage.k8s.io",
        "volumesnapshotclasses.snapshot.storage.k8s.io",
        "volumesnapshotcontents.snapshot.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
    ] {
        assert!(
            resources.contains(wanted),
            "{wanted} is missing in {resources}"
        );
    }
}
