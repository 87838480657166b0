//! A driver whose process hangs: its node's kubelet restarts it, and nothing else.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use stowage_tests::deployed::{Deployed, install_operator, uids};
use stowage_tests::{cluster, eventually};

use super::driver_on_node::process_of;

fn restarts(pod: &Value, container: &str) -> i64 {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let status = statuses.iter().find(|it| it["name"] == container).unwrap();
    status["restartCount"].as_i64().unwrap()
}

fn container_id(pod: &Value) -> &str {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let status = statuses.iter().find(|it| it["name"] == "csi-driver");
    status.unwrap()["containerID"].as_str().unwrap()
}

#[test]
fn a_driver_that_answers_no_more_is_restarted_and_its_sidecar_is_not() {
    let cluster = cluster();
    cluster.dev().unwrap();
    install_operator(cluster);
    let namespace = cluster.namespace("probed").unwrap();
    let driver = Deployed::every_node(&namespace, |manifest| {
        let short = "probePeriodSeconds: 4\n  probeTimeoutSeconds: 4";
        let pod = "      terminationGracePeriodSeconds: 1\n      tolerations:";
        manifest
            .replace("probePeriodSeconds: 60", short)
            .replace("      tolerations:", pod)
    });
    driver.wait_until_rolled_out();
    let before = driver.node_pods();
    let (driver_before, sidecar_before) = (
        restarts(&before[0], "csi-driver"),
        restarts(&before[0], "csi-sidecar"),
    );

    // It lives, and does nothing.
    let process = process_of(container_id(&before[0])).unwrap();
    kill(process, Signal::SIGSTOP).unwrap();
    let after = eventually("the driver is restarted", || {
        let pods = driver.node_pods();
        (restarts(&pods[0], "csi-driver") > driver_before).then_some(pods)
    });
    assert_eq!(uids(&after), uids(&before), "the pods stay");
    assert_eq!(restarts(&after[0], "csi-sidecar"), sidecar_before);
    driver.wait_until_available();
    driver.remove();
}
