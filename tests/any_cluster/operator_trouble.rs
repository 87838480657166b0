//! Pods that do not run: the instance shows their own reason, and other instances do not notice.

use stowage_tests::deployed::{Deployed, install_operator, uids};
use stowage_tests::{cluster, text};

const QUOTA: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata: {name: none}
spec: {hard: {pods: "0"}}
"#;

#[test]
fn images_that_are_not_there_and_pods_that_are_refused_show_in_the_condition() {
    let cluster = cluster();
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
