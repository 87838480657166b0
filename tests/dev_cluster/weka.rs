//! The Weka driver in pods, on nodes whose Weka clients reach a simulated cluster: the walk of the original
//! documentation with its example files, and what volumes promise.

use std::path::PathBuf;

use devcluster::testing::Namespace;
use stowage_tests::{cluster, eventually, get, ready_pods, text};

use super::claims::{MIB, Pod};
use super::weka_array::{Weka, weka};

const CLASS: &str = include_str!("../../examples/dynamic_api/storageclass-wekafs-dir-api.yaml");
const CLAIM: &str = include_str!("../../examples/dynamic_api/pvc-wekafs-dir-api.yaml");
const WRITERS: &str = include_str!("../../examples/dynamic_api/csi-daemonset.app-on-dir-api.yaml");
const LEGACY_CLASS: &str = include_str!("../../examples/dynamic/storageclass-wekafs-dir.yaml");
const LEGACY_CLAIM: &str = include_str!("../../examples/dynamic/pvc-wekafs-dir.yaml");
const APPLICATION: &str = include_str!("../../examples/dynamic/csi-app-on-dir.yaml");
const STATIC_VOLUME: &str = include_str!("../../examples/static/pv-wekafs-dir-static.yaml");
const STATIC_CLAIM: &str = include_str!("../../examples/static/pvc-wekafs-dir-static.yaml");

/// A class of the examples with other parameters, under a name of the test's own.
fn class(namespace: &Namespace, change: &[(&str, &str)]) -> String {
    let name = format!("class-{}", namespace.name());
    let mut manifest = CLASS.replace(
        "name: storageclass-wekafs-dir-api",
        &format!("name: {name}"),
    );
    for (from, to) in change {
        assert!(manifest.contains(from), "{from}");
        manifest = manifest.replace(from, to);
    }
    namespace.apply(&manifest).unwrap();
    name
}

/// A claim of the examples, of a class of the test's own.
fn claim(namespace: &Namespace, class: &str, mebibytes: i64) {
    let size = format!("storage: {mebibytes}Mi");
    let manifest = CLAIM
        .replace("storageclass-wekafs-dir-api", class)
        .replace("storage: 1Gi", &size)
        .replace("name: pvc-wekafs-dir-api", "name: data");
    namespace.apply(&manifest).unwrap();
}

/// The directory of a claim's volume on the array, by the name that the claim's volume has.
fn directory(weka: &Weka, namespace: &Namespace, claim: &str) -> PathBuf {
    eventually(
        &format!("claim {claim} is bound and has a directory"),
        || {
            let claim = get(namespace, "pvc", claim)?;
            let volume = get(namespace, "pv", text(&claim["spec"]["volumeName"]))?;
            let handle = text(&volume["spec"]["csi"]["volumeHandle"]).to_owned();
            let (_, inner) = handle.strip_prefix("dir/v1/")?.split_once('/')?;
            weka.array.files(inner)
        },
    )
}

fn remove_class(namespace: &Namespace, class: &str) {
    namespace
        .kubectl(&["delete", "storageclass", class])
        .unwrap();
}

#[test]
fn the_original_walk_without_the_api_ends_in_a_growing_file() {
    let weka = weka();
    let namespace = cluster().namespace("weka-legacy").unwrap();
    namespace.apply(LEGACY_CLASS).unwrap();
    namespace.apply(LEGACY_CLAIM).unwrap();
    namespace.apply(APPLICATION).unwrap();
    let directory = directory(weka, &namespace, "pvc-wekafs-dir");
    let name = directory.file_name().unwrap().to_str().unwrap();
    let volume = get(&namespace, "pvc", "pvc-wekafs-dir").unwrap();
    assert!(
        name.starts_with(text(&volume["spec"]["volumeName"])),
        "{name}"
    );
    assert!(directory.parent().unwrap().ends_with("csi-volumes"));
    let dates = || {
        let written = std::fs::read_to_string(directory.join("temp.txt")).ok()?;
        Some(written.lines().filter(|line| line.contains("UTC")).count())
    };
    let first = eventually("the application writes the date", || {
        dates().filter(|&lines| lines > 0)
    });
    eventually("the file grows", || dates().filter(|&lines| lines > first));

    static_volumes_need_an_existing_directory(weka, &namespace);

    namespace
        .kubectl(&["delete", "pod", "my-csi-app", "--grace-period=0", "--force"])
        .unwrap();
    namespace
        .kubectl(&["delete", "pvc", "pvc-wekafs-dir"])
        .unwrap();
    eventually("the directory is gone, from the trash too", || {
        let trash = directory
            .parent()
            .unwrap()
            .with_file_name(".__internal__wekafs-async-delete");
        let waiting = std::fs::read_dir(trash).map_or(0, Iterator::count);
        (!directory.exists() && waiting == 0).then_some(())
    });
    remove_class(&namespace, "storageclass-wekafs-dir");
}

fn static_volumes_need_an_existing_directory(weka: &Weka, namespace: &Namespace) {
    namespace.apply(STATIC_VOLUME).unwrap();
    namespace.apply(STATIC_CLAIM).unwrap();
    let script = "cat /data/before && echo after > /data/after";
    let pod = Pod::new("reader", "pvc-wekafs-dir-static", script);
    pod.start(namespace);
    eventually("the pod's events name the missing path", || {
        let events = ["get", "events", "-o", "jsonpath={.items[*].message}"];
        let said = namespace.kubectl(&events).ok()?;
        (said.contains("my-dir") && said.contains("podsFilesystem")).then_some(())
    });
    let legacy = directory(weka, namespace, "pvc-wekafs-dir");
    let place = legacy.parent().unwrap().with_file_name("my-dir");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("before"), "was there\n").unwrap();
    eventually("the pod gets the directory once it is there", || {
        let phase = get(namespace, "pod", "reader")?["status"]["phase"].clone();
        (phase == "Succeeded").then_some(())
    });
    assert_eq!(
        namespace.kubectl(&["logs", "reader"]).unwrap(),
        "was there\n"
    );
    assert_eq!(
        std::fs::read_to_string(place.join("after")).unwrap(),
        "after\n"
    );
    namespace.kubectl(&["delete", "pod", "reader"]).unwrap();
    namespace
        .kubectl(&["delete", "pvc", "pvc-wekafs-dir-static"])
        .unwrap();
    namespace
        .kubectl(&["delete", "pv", "pv-wekafs-dir-static"])
        .unwrap();
    assert!(
        place.join("before").exists(),
        "a static volume's data stays"
    );
}

#[test]
fn pods_of_two_nodes_write_on_while_the_driver_is_replaced() {
    let weka = weka();
    let namespace = cluster().namespace("weka-shared").unwrap();
    let class = class(&namespace, &[]);
    claim(&namespace, &class, 64);
    let busy = "while true; do date >> /data/$HOSTNAME.txt || echo failed; usleep 50000; done";
    let writers = WRITERS
        .replace(
            "while true; do date >> /data/$HOSTNAME.txt; sleep 10; done",
            busy,
        )
        .replace("claimName: pvc-wekafs-dir-api", "claimName: data")
        .replace(
            "      containers:",
            "      terminationGracePeriodSeconds: 0\n      containers:",
        );
    assert!(writers.contains("usleep"));
    namespace.apply(&writers).unwrap();
    let pods = ready_pods(&namespace, "app=csi-daemonset-app-on-dir-api", 2);
    let directory = directory(weka, &namespace, "data");
    let length = |pod: &serde_json::Value| {
        let file = directory.join(format!("{}.txt", text(&pod["metadata"]["name"])));
        std::fs::metadata(file).map_or(0, |file| file.len())
    };

    weka.driver
        .kubectl(&["delete", "pod", "-lapp=csi-wekafs-node"]);
    weka.driver
        .kubectl(&["delete", "pod", "-lapp=csi-wekafs-controller"]);
    let rolled = [
        "rollout",
        "status",
        "daemonset/csi-wekafs-node",
        "--timeout=90s",
    ];
    weka.driver.kubectl(&rolled);
    for pod in &pods {
        let before = length(pod);
        eventually("the writer goes on", || {
            (length(pod) > before).then_some(())
        });
        let name = text(&pod["metadata"]["name"]);
        assert_eq!(
            namespace.kubectl(&["logs", name]).unwrap(),
            "",
            "no write has failed"
        );
    }
    namespace
        .kubectl(&["delete", "daemonset", "csi-wekafs-test-api", "--wait"])
        .unwrap();
    namespace.kubectl(&["delete", "pvc", "data"]).unwrap();
    eventually("the directory is gone", || {
        (!directory.exists()).then_some(())
    });
    remove_class(&namespace, &class);
}

#[test]
fn a_hard_quota_stops_a_writer_until_the_claim_grows() {
    weka();
    let namespace = cluster().namespace("weka-hard").unwrap();
    let class = class(&namespace, &[]);
    claim(&namespace, &class, 16);
    let fill = "dd if=/dev/zero of=/data/file bs=1M count=32 2>&1; sync; stat -c %s /data/file";
    let before = Pod::new("before", "data", fill).run(&namespace);
    assert!(before.contains("quota exceeded"), "{before}");
    let size = format!(
        r#"{{"spec":{{"resources":{{"requests":{{"storage":"{}"}}}}}}}}"#,
        64 * MIB
    );
    namespace
        .kubectl(&["patch", "pvc", "data", "-p", &size])
        .unwrap();
    eventually("the claim has grown", || {
        let claim = get(&namespace, "pvc", "data")?;
        (claim["status"]["capacity"]["storage"] == "64Mi").then_some(())
    });
    let after = Pod::new("after", "data", fill).run(&namespace);
    assert!(after.ends_with(&format!("{}\n", 32 * MIB)), "{after}");
    namespace.kubectl(&["delete", "pvc", "data"]).unwrap();
    remove_class(&namespace, &class);
}

#[test]
fn a_soft_quota_lets_a_writer_go_on_and_raises_an_alert() {
    let weka = weka();
    let namespace = cluster().namespace("weka-soft").unwrap();
    let class = class(
        &namespace,
        &[("capacityEnforcement: HARD", "capacityEnforcement: SOFT")],
    );
    claim(&namespace, &class, 16);
    let fill = "dd if=/dev/zero of=/data/file bs=1M count=32 2>/dev/null; sync; stat -c %s /data/file; stat -c %i /data";
    let written = Pod::new("writer", "data", fill).run(&namespace);
    let (size, inode) = written.trim().split_once('\n').unwrap();
    assert_eq!(size, (32 * MIB).to_string());
    let alerts = weka
        .array
        .ask("alerts", "wget -qO- --header \"$authorized\" $api/alerts");
    assert!(alerts.contains(inode), "inode {inode}: {alerts}");
    namespace.kubectl(&["delete", "pvc", "data"]).unwrap();
    remove_class(&namespace, &class);
}

#[test]
fn pods_that_are_not_root_can_write() {
    weka();
    let namespace = cluster().namespace("weka-users").unwrap();
    let class = class(
        &namespace,
        &[
            ("#ownerUid: \"1000\"", "ownerUid: \"1000\""),
            ("#ownerGid: \"1000\"", "ownerGid: \"1000\""),
        ],
    );
    claim(&namespace, &class, 16);
    let script =
        "id -u; echo mine > /data/file && stat -c '%u:%g' /data/file; stat -c '%a %u:%g' /data";
    let mut owner = Pod::new("owner", "data", script);
    owner.security = "{runAsUser: 1000, runAsGroup: 1000}";
    assert_eq!(owner.run(&namespace), "1000\n1000:1000\n750 1000:1000\n");
    let mut member = Pod::new(
        "member",
        "data",
        "echo more > /data/more && stat -c %g /data/more",
    );
    member.security = "{runAsUser: 2000, runAsGroup: 2000, fsGroup: 3000}";
    assert_eq!(member.run(&namespace), "3000\n");
    let mut stranger = Pod::new("stranger", "data", "cat /data/file || echo refused");
    stranger.security = "{runAsUser: 4000, runAsGroup: 4000}";
    assert!(stranger.run(&namespace).contains("refused"));
    namespace.kubectl(&["delete", "pvc", "data"]).unwrap();
    remove_class(&namespace, &class);
}
