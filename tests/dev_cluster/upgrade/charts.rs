//! The same with Helm: the chart of the release before this one, this one's, and back, while a pod writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use devcluster::process::capture;
use devcluster::testing::TestCluster;
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::render::Identity;
use stowage_tests::{eventually, until_available, until_no_volume_is_left};

use super::super::charts::{assert_writes, helm_on, start_writer, stop_writer};
use super::{COMMIT, Release, root};

const NAMESPACE: &str = "storage";

impl Release {
    fn chart(self, scratch: &Path) -> Chart {
        let charts = match self {
            Self::Current => root().join("charts"),
            Self::Previous => {
                let archive = scratch.join("charts.tar");
                let mut git = Command::new("git");
                git.args(["archive", "--output"]).arg(&archive);
                capture(git.args([COMMIT.trim(), "charts"]).current_dir(root())).unwrap();
                let mut tar = Command::new("tar");
                capture(tar.arg("-xf").arg(&archive).arg("-C").arg(scratch)).unwrap();
                fs::remove_file(&archive).unwrap();
                scratch.join("charts")
            }
        };
        Chart::load(&charts.join("stowage")).unwrap()
    }

    fn values(self) -> Value {
        let (repository, tag) = self.image().rsplit_once(':').unwrap();
        json!({
            "image": {"repository": repository, "tag": tag},
            "drivers": {"hostpath": {"enabled": true}},
        })
    }
}

/// Every container of the release and of its driver has the image of `release`.
fn until_all_run(cluster: &TestCluster, release: Release) {
    until_available(cluster, NAMESPACE, "hostpath");
    eventually(&format!("all pods are of {release:?}"), || {
        let images = "jsonpath={.items[*].spec.containers[*].image}";
        let pods = ["get", "pods", "--namespace", NAMESPACE, "-o", images];
        let images = cluster.kubectl(&pods).ok()?;
        let mut images = images.split(' ').peekable();
        images.peek()?;
        images.all(|it| it == release.image()).then_some(())
    });
    until_available(cluster, NAMESPACE, "hostpath");
}

/// On a cluster without operator.
pub fn upgrade_and_go_back(cluster: &TestCluster, scratch: &Path) {
    let helm = helm_on(cluster);
    let [previous, current] =
        [Release::Previous, Release::Current].map(|it| (it.chart(scratch), it.values()));
    let release = Identity::new(NAMESPACE, "mine");
    let first = helm.install(&previous.0, &previous.1, &release).unwrap();
    until_all_run(cluster, Release::Previous);
    let namespace = start_writer(cluster, "hostpath");
    let second = helm.upgrade(&first, &current.0, &current.1).unwrap();
    until_all_run(cluster, Release::Current);
    assert_writes(&namespace);
    let third = helm.roll_back(&second, &first).unwrap();
    until_all_run(cluster, Release::Previous);
    assert_writes(&namespace);
    stop_writer(&namespace);
    until_no_volume_is_left(cluster);
    helm.uninstall(&third).unwrap();
}
