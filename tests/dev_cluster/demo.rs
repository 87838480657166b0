//! The demos, as a newcomer runs them: on a cluster of their own, from nothing.

use stowage_tests::OwnCluster;

#[test]
fn both_demos_show_what_they_promise() {
    let cluster = OwnCluster::named("test-demo");
    let embedded = cluster.run(&["demo"]);
    for part in ["2Gi", "writer", "VolumeSnapshot", "./x demo weka"] {
        assert!(embedded.contains(part), "{part}: {embedded}");
    }
    let weka = cluster.run(&["demo", "weka"]);
    for part in ["my-csi-app-api", "csi-volumes", "UTC", "quota exceeded"] {
        assert!(weka.contains(part), "{part}: {weka}");
    }
}
