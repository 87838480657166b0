//! Pods that do not run: the instance shows their own reason, and other instances do not notice.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use stowage_tests::{cluster, eventually, text};

use super::deployed::{Deployed, install_operator, uids};
use super::driver_on_node::process_of;

const QUOTA: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata: {name: none}
spec: {hard: {pods: "0"}}
"#;

#[test]
fn images_that_are_not_there_and_pods_that_are_refused_show_in_the_condition() {
    let cluster = cluster();
    cluster.dev().unwrap();
    install_operator(cluster);
    let namespaces = ["well", "no-image", "refused"].map(|name| cluster.namespace(name).unwrap());
    let [well, no_image, refused] = &namespaces;
    let well = Deployed::every_node(well, |manifest| manifest);
    well.wait_until_available();
    let before = uids(&well.node_pods());

    let no_image = Deployed::every_node(no_image, |manifest| {
        let image = stowage_tests::STOWAGE_IMAGE;
        assert!(manifest.contains(image));
        manifest.replace(image, "stowage.dev/not-there:1")
    });
    let condition = no_image.wait_for("Available", "False", "container csi-driver: ");
    assert_eq!(condition["reason"], "NodesNotReady", "{condition}");
    no_image.wait_for("Available", "False", "stowage.dev/not-there:1");

    refused.apply(QUOTA).unwrap();
    let refused = Deployed::every_node(refused, |manifest| manifest);
    let condition = refused.wait_for("Available", "False", "exceeded quota: none");
    assert_eq!(condition["reason"], "NodesNotReady", "{condition}");
    assert_eq!(
        refused.condition("SyncSuccessful").unwrap()["status"],
        "True"
    );

    well.wait_until_available();
    assert_eq!(uids(&well.node_pods()), before);
    refused
        .namespace
        .kubectl(&["delete", "resourcequota", "none"])
        .unwrap();
    // The DaemonSet tries again by itself, after a pause of its own.
    refused.wait_until_available();
    for driver in [&no_image, &refused, &well] {
        driver.remove();
    }
}

/// The sidecar in its pod finds the other name and leaves it for the operator in its own.
#[test]
fn a_driver_that_reports_another_name_is_not_available_until_the_instance_has_it() {
    let cluster = cluster();
    cluster.dev().unwrap();
    install_operator(cluster);
    let namespace = cluster.namespace("misnamed").unwrap();
    let reported = format!("{}.stowage.dev", namespace.name());
    let expected = format!("mistyped.{reported}");
    let driver = Deployed::every_node(&namespace, |manifest| {
        let field = format!("driverName: {reported}\n");
        assert!(manifest.contains(&field));
        manifest.replace(&field, &format!("driverName: {expected}\n"))
    });
    let condition = driver.wait_for("Available", "False", "DriverNameMismatch");
    assert_eq!(condition["reason"], "DriverNameMismatch", "{condition}");
    let message = text(&condition["message"]);
    for name in [&reported, &expected] {
        assert!(message.contains(&format!("`{name}`")), "{message}");
    }

    driver.patch(&format!(r#"{{"spec": {{"driverName": "{reported}"}}}}"#));
    driver.wait_until_rolled_out();
    driver.remove();
}

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
