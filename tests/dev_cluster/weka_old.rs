//! A Weka cluster from before quotas, with an instance of the driver of its own: it is upgraded, volumes from before quotas are
//! migrated, and those from before the driver knew its API get a secret.

use std::thread;
use std::time::Duration;

use devcluster::testing::Namespace;
use stowage_tests::{cluster, eventually, get, pod_in_phase, text};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_migration::migrate;
use super::weka_volumes::{class, directory, remove, wait_for_event};

/// A release before quotas.
const OLD: &str = "3.12.0";

/// The driver on the only node that is a client of the cluster, and quick to notice an upgrade.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/nodeSelector", "value": {"kubernetes.io/hostname": "node-b"}},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/nodeSelector", "value": {"kubernetes.io/hostname": "node-b"}},
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/containers/0/args/-", "value": "--release-refresh-seconds=1"},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/containers/0/args/-", "value": "--release-refresh-seconds=1"}
"#;

/// The legacy secret, as the guide has it: one setting of the instance.
const LEGACY_SECRET: &str = r#"[
  {"op": "add", "path": "/spec/driverSecrets", "value":
    [{"secretName": "weka-legacy", "mountPath": "/legacy-volume-access", "optional": true}]}
]"#;

/// Writes more than a claim of 16 MiB has.
const FILL: &str =
    "dd if=/dev/zero of=/data/file bs=1M count=24 2>&1 | grep -c 'quota exceeded'; true";

/// Whether the array stops a writer at the end of a claim. The scheduler finds the node.
fn is_limited(namespace: &Namespace, pod: &str, claim: &str) -> bool {
    let mut writer = Pod::new(pod, claim, FILL);
    writer.place.clear();
    writer.start(namespace);
    let ended = pod_in_phase(namespace, pod, "Succeeded");
    assert_eq!(
        ended["spec"]["nodeName"], "node-b",
        "only there is the driver"
    );
    let said = namespace.kubectl(&["logs", pod]).unwrap();
    namespace.kubectl(&["delete", "pod", pod]).unwrap();
    said.trim() == "1"
}

#[test]
fn an_upgrade_is_noticed_and_a_legacy_secret_brings_quotas() {
    let mut array = Array::named("weka-old", "client", "stowage-sim-old");
    array.weka.release = Some(OLD.to_owned());
    array.weka.node = Some("node-b".to_owned());
    array.apply();
    let driver = Driver::named("csi-weka-old", "old.weka.io");
    driver.deploy(&array, CHANGES);
    array.apply_secret("secret", &driver.name);
    // A cluster that has run this test before is as it was at its beginning.
    array.ask(
        "begin",
        &format!("put /release '{{\"release\": \"{OLD}\"}}'"),
    );
    let secret = ["delete", "secret", "weka-legacy", "--ignore-not-found"];
    driver.kubectl(&secret);
    let instance = ["patch", "csidriverdeployment", &driver.name, "--type=merge"];
    let unnamed = r#"{"spec": {"driverSecrets": null}}"#;
    driver.kubectl(&[&instance[..], &["-p", unnamed]].concat());
    driver.wait();
    let namespace = cluster().namespace("weka-old-pods").unwrap();
    let with_api = class(&namespace, &driver, "api", "default", Some(["secret"; 3]));
    let without = class(&namespace, &driver, "legacy", "default", None);

    upgrade(&namespace, &array, &driver, &with_api);
    migrate(&namespace, &array, &driver, &without);
    bring_the_legacy_secret(&namespace, &array, &driver, &without);
    let claims = ["before", "unused", "in-use", "idle", "legacy"];
    remove(&namespace, &claims, &[&with_api, &without]);
}

fn upgrade(namespace: &Namespace, array: &Array, driver: &Driver, class: &str) {
    ask(namespace, "before", class, 16 * MIB, false);
    ask(namespace, "unused", class, 8 * MIB, false);
    directory(namespace, "before");
    directory(namespace, "unused");
    assert!(
        !is_limited(namespace, "old-writer", "before"),
        "no quotas before 3.13"
    );
    let pods = driver.starts();
    array.ask("upgrade", "put /release '{\"release\": \"5.1.0\"}'");
    // It is asked every second, and may be busy.
    let noticed = (0..10).any(|attempt| {
        thread::sleep(Duration::from_secs(3));
        let (claim, writer) = (format!("after-{attempt}"), format!("new-writer-{attempt}"));
        ask(namespace, &claim, class, 16 * MIB, false);
        directory(namespace, &claim);
        let limited = is_limited(namespace, &writer, &claim);
        let delete = ["delete", "pvc", &claim, "--wait=false"];
        namespace.kubectl(&delete).unwrap();
        limited
    });
    assert!(noticed, "quotas since the upgrade");
    // What was made on the old release grows on the new one; Weka gives a quota only to what is empty.
    for (claim, size) in [("before", "32Mi"), ("unused", "16Mi")] {
        grow(namespace, claim, size);
    }
    assert!(
        is_limited(namespace, "late-writer", "unused"),
        "growth brought a quota"
    );
    assert_eq!(driver.starts(), pods, "the same pods, never started again");
}

fn grow(namespace: &Namespace, claim: &str, size: &str) {
    let wanted = format!(r#"{{"spec": {{"resources": {{"requests": {{"storage": "{size}"}}}}}}}}"#);
    namespace
        .kubectl(&["patch", "pvc", claim, "-p", &wanted])
        .unwrap();
    eventually(&format!("claim {claim} has grown"), || {
        let claim = get(namespace, "pvc", claim)?;
        (text(&claim["status"]["capacity"]["storage"]) == size).then_some(())
    });
}

fn bring_the_legacy_secret(namespace: &Namespace, array: &Array, driver: &Driver, class: &str) {
    ask(namespace, "legacy", class, 8 * MIB, false);
    directory(namespace, "legacy");
    let instance = ["patch", "csidriverdeployment", &driver.name, "--type=json"];
    driver.kubectl(&[&instance[..], &["-p", LEGACY_SECRET]].concat());
    driver.wait();
    let pods = driver.starts();

    let size = r#"{"spec": {"resources": {"requests": {"storage": "16Mi"}}}}"#;
    namespace
        .kubectl(&["patch", "pvc", "legacy", "-p", size])
        .unwrap();
    wait_for_event(
        namespace,
        "legacy",
        &["the legacy secret cannot be used: `/legacy-volume-access` has no files"],
    );
    array.apply_secret("weka-legacy", &driver.name);
    // What the kubelet does every minute: it looks at the pods and their volumes again.
    driver.kubectl(&["annotate", "pods", "--all", "stowage.dev/looked-at=now"]);
    eventually("the claim has grown", || {
        let claim = get(namespace, "pvc", "legacy")?;
        (text(&claim["status"]["capacity"]["storage"]) == "16Mi").then_some(())
    });
    assert!(
        is_limited(namespace, "legacy-writer", "legacy"),
        "growth brought a quota"
    );
    assert_eq!(driver.starts(), pods, "the same pods, never started again");
}
