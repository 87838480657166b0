//! `stowage migrate weka-legacy` on a node of a cluster, while a pod writes into one of the volumes.

use devcluster::testing::Namespace;
use serde_json::json;
use stowage_tests::{STOWAGE_IMAGE, cluster, ended, eventually, pod_in_phase};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_volumes::directory;

/// Writes a line again and again, and says that each is on the array before it writes the next.
const WRITE: &str =
    "n=0; while true; do n=$((n+1)); echo $n >> /data/lines; sync; echo $n; sleep 0.1; done";

/// A process that can count what is in directories: without one, Weka gives a quota only to what is empty.
const DATA_SERVICES: &str = r#"wget -qO- --header "$json" --post-data '{"kind": "Process", "object": {"uid": "data-services", "hostname": "data-services", "mode": "backend", "roles": ["DATASERV"], "ips": [], "mgmt_port": 0, "status": "UP"}}' $control/objects"#;

/// Volumes of the model without API get their quotas while they are in use.
pub fn migrate(namespace: &Namespace, array: &Array, driver: &Driver, class: &str) {
    let directories = ["in-use", "idle"].map(|claim| {
        ask(namespace, claim, class, 16 * MIB, false);
        directory(namespace, claim)
    });
    let mut writer = Pod::new("writer", "in-use", WRITE);
    writer.place.clear();
    writer.start(namespace);
    pod_in_phase(namespace, "writer", "Running");
    array.ask("data-services", DATA_SERVICES);

    let said = run(driver, "migration");
    for directory in &directories {
        let name = directory.rsplit('/').next().unwrap_or_default();
        assert!(said.contains(name), "{name}: {said}");
    }
    // Volumes from before the cluster was upgraded are among them, too.
    assert!(migrated(&said) >= directories.len(), "{said}");
    let again = run(driver, "migration-again");
    assert_eq!(migrated(&again), 0, "{again}");
    // The writer has written all the time, and what it was told is there. From now on the array stops it at the end of its claim.
    let written = last_line(namespace);
    eventually("the writer goes on", || {
        (last_line(namespace) > written).then_some(())
    });
    let fill = "dd if=/dev/zero of=/data/file bs=1M count=24 2>&1 | grep -c 'quota exceeded'";
    let words = ["exec", "writer", "--", "sh", "-c", fill];
    assert_eq!(namespace.kubectl(&words).unwrap().trim(), "1");
    let said = last_line(namespace);
    let count = ["exec", "writer", "--", "sh", "-c", "wc -l < /data/lines"];
    let there: u64 = namespace.kubectl(&count).unwrap().trim().parse().unwrap();
    assert!(there >= said, "{there} of {said} lines are there");
    let delete = ["delete", "pod", "writer", "--grace-period=1"];
    namespace.kubectl(&delete).unwrap();
}

/// How many volumes a migration has changed.
fn migrated(said: &str) -> usize {
    let line = |line: &str| {
        Some(
            line.strip_suffix(" directories migrated successfully")?
                .to_owned(),
        )
    };
    let count = said.lines().find_map(line).unwrap();
    count.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The last line that the writer knows to be on the array.
fn last_line(namespace: &Namespace) -> u64 {
    let said = namespace.kubectl(&["logs", "writer", "--tail=1"]).unwrap();
    said.trim().parse().unwrap_or(0)
}

/// Runs the migration as a person would on a client of the Weka cluster; what it said.
fn run(driver: &Driver, name: &str) -> String {
    let variable = |variable: &str, key: &str| json!({"name": variable, "valueFrom": {"secretKeyRef": {"name": "secret", "key": key}}});
    let host = |name: &str, kind: &str, path: &str| json!({"name": name, "hostPath": {"path": path, "type": kind}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": driver.name},
        "spec": {
            "nodeName": "node-b", "restartPolicy": "Never", "automountServiceAccountToken": false,
            "containers": [{
                "name": "migration", "image": STOWAGE_IMAGE, "securityContext": {"privileged": true},
                "command": ["stowage", "migrate", "weka-legacy", "default",
                    "--proc-modules=/run/stowage-sim/modules", "--proc-wekafs-interface=/run/stowage-sim/interface"],
                "env": [
                    variable("WEKA_USERNAME", "username"), variable("WEKA_PASSWORD", "password"),
                    variable("WEKA_ORG", "organization"), variable("WEKA_ENDPOINTS", "endpoints"),
                    variable("WEKA_SCHEME", "scheme"),
                ],
                "volumeMounts": [
                    {"name": "sim", "mountPath": "/run/stowage-sim"},
                    {"name": "sim-helper", "mountPath": "/sbin/mount.wekafs"},
                ],
            }],
            "volumes": [
                host("sim", "Directory", "/run/stowage-sim-old"),
                host("sim-helper", "File", "/run/stowage-sim-old/mount.wekafs"),
            ],
        },
    });
    driver.apply(&pod.to_string());
    let phase = ended(cluster(), &driver.name, name);
    let said = driver.kubectl(&["logs", name]);
    assert_eq!(phase, "Succeeded", "{said}");
    driver.kubectl(&["delete", "pod", name, "--wait=false"]);
    said
}
