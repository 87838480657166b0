//! Up, up again, killed in the middle, larger and smaller, down without a trace. The clusters run side by side with
//! the one that all tests share. `up`, `status`, `kubectl` and `down` of docs/guides/dev-cluster.md.

use std::thread;
use std::time::Duration;

use devcluster::cluster::Cluster;
use devcluster::process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stowage_tests::{OwnCluster, eventually, x};

use super::traces::Traces;

/// The machine's link of a cluster, by the address range it chose.
fn link(cluster: &str) -> String {
    let directory = Cluster::named(cluster).unwrap().directory().to_owned();
    let record = std::fs::read(directory.join("cluster.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    format!("stow{}", record["network"])
}

/// The process of a part of a cluster, if it runs.
pub fn pid_of(cluster: &Cluster, part: &str) -> Option<Pid> {
    let parts = cluster.status().unwrap();
    parts
        .into_iter()
        .find(|found| found.name == part)
        .unwrap()
        .pid
}

#[test]
fn down_leaves_nothing_behind() {
    let name = "test-traces";
    let cluster = OwnCluster::named(name);
    let before_up = Traces::of(name, "no-such-link");
    cluster.run(&["up", "--nodes", "1"]);
    let link = link(name);
    let pod = [
        "kubectl",
        "run",
        "web",
        "--image=busybox",
        "--port=80",
        "--expose",
    ];
    cluster.run(&[&pod[..], &["--", "sleep", "1000000"]].concat());
    eventually("a pod runs", || {
        let phase = cluster.run(&[
            "kubectl",
            "get",
            "pod",
            "web",
            "-o",
            "jsonpath={.status.phase}",
        ]);
        (phase == "Running").then_some(())
    });
    let while_up = Traces::of(name, &link);
    assert!(while_up.show_a_running_cluster(), "{while_up:?}");

    cluster.run(&["down"]);
    assert_eq!(Traces::of(name, &link), before_up);
    assert!(cluster.run(&["down"]).contains("nothing was changed"));
}

#[test]
fn up_twice_changes_nothing_and_up_repairs_what_was_killed() {
    let name = "test-repair";
    let own = OwnCluster::named(name);
    let cluster = Cluster::named(name).unwrap();
    // Killed in the middle, at growing distances from the start.
    for moment in [300, 900, 2500] {
        let mut up = x(name).args(["up", "--nodes", "1"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(moment));
        up.kill().unwrap();
        up.wait().unwrap();
    }
    assert!(own.run(&["up"]).contains("is up"));

    let daemons = || -> Vec<Option<Pid>> {
        cluster
            .status()
            .unwrap()
            .into_iter()
            .map(|part| part.pid)
            .collect()
    };
    let before = daemons();
    assert!(own.run(&["up"]).contains("nothing was changed"));
    assert_eq!(daemons(), before);

    // A reboot leaves the files and nothing else.
    for pid in process::processes_below(cluster.directory()) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    eventually("everything is dead", || {
        process::processes_below(cluster.directory())
            .is_empty()
            .then_some(())
    });
    assert!(!own.try_run(&["status"]).status.success());
    own.run(&["up"]);
    own.run(&["status"]);

    // One dead daemon is enough to notice, and only it is started.
    let (hub, scheduler) = (pid_of(&cluster, "hub"), pid_of(&cluster, "kube-scheduler"));
    kill(scheduler.unwrap(), Signal::SIGKILL).unwrap();
    eventually("the scheduler is dead", || {
        pid_of(&cluster, "kube-scheduler").is_none().then_some(())
    });
    own.run(&["up"]);
    assert!(pid_of(&cluster, "kube-scheduler").is_some());
    assert_eq!(pid_of(&cluster, "hub"), hub);
}

#[test]
fn a_cluster_grows_and_shrinks() {
    let cluster = OwnCluster::named("test-size");
    let nodes = || {
        cluster.run(&[
            "kubectl",
            "get",
            "nodes",
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ])
    };
    cluster.run(&["up", "--nodes", "1"]);
    assert_eq!(nodes(), "node-a");
    cluster.run(&["up", "--nodes", "2"]);
    assert_eq!(nodes(), "node-a node-b");
    cluster.run(&["up", "--nodes", "1"]);
    assert_eq!(nodes(), "node-a");
}
