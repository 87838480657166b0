//! A filesystem that asks for a token: pods get it, nobody sees the token, and who may not have one is told so.

use serde_json::Value;
use stowage_tests::{cluster, eventually, pod_in_phase};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Weka, weka};
use super::weka_volumes::{class, remove, wait_for_event};

const SECRET: &str = "csi-wekafs-api-secret";

/// What a pod of the node's own sees of it.
const NODE_VIEW: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: node-view}
spec:
  nodeName: node-a
  hostPID: true
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'cat /proc/1/mounts /proc/1/mountinfo /proc/*/cmdline /proc/*/environ || echo some have ended']
    securityContext: {privileged: true}
";

#[test]
fn a_mount_token_is_used_and_seen_by_nobody() {
    let weka = weka();
    let namespace = cluster().namespace("weka-guarded").unwrap();
    weka.array.ask(
        "make-reader",
        "wget -qO- --header \"$json\" --post-data '{\"kind\":\"User\",\"object\":{\"uid\":\"rita\",\"username\":\"rita\",\
         \"password\":\"pw\",\"org_id\":0,\"role\":\"ReadOnly\"}}' $control/objects",
    );
    let open = class(
        &namespace,
        &weka.driver,
        "open",
        "guarded",
        Some([SECRET; 3]),
    );
    ask(&namespace, "data", &open, 16 * MIB, false);
    let script = "echo > /data/file && ls /data && cat /proc/self/mountinfo && env && sleep 600";
    Pod::new("writer", "data", script).start(&namespace);
    pod_in_phase(&namespace, "writer", "Running");
    let seen = eventually("the pod has written", || {
        let log = namespace.kubectl(&["logs", "writer"]).ok()?;
        log.starts_with("file\n").then_some(log)
    });
    assert!(seen.contains("wekafs"), "{seen}");
    namespace.apply(NODE_VIEW).unwrap();
    pod_in_phase(&namespace, "node-view", "Succeeded");
    let on_node = namespace.kubectl(&["logs", "node-view"]).unwrap();
    assert!(on_node.contains("fuse.wekafs"), "{on_node}");

    refused_without_the_right(weka, &namespace);

    let tokens = mount_tokens(&weka.array);
    assert!(tokens.len() > 1, "the controller and the node got one each");
    let mut places = vec![("the pod", seen), ("the node", on_node)];
    places.push((
        "events",
        namespace.kubectl(&["get", "events", "-o", "json"]).unwrap(),
    ));
    for component in ["csi-wekafs-node", "csi-wekafs-controller"] {
        let of = format!("-lapp={component}");
        let logs = ["logs", &of, "--all-containers", "--tail=-1"];
        // Other tests replace its pods: one that is on its way out has no logs to show.
        let said = eventually("the driver's pods show their logs", || {
            weka.driver.try_kubectl(&logs).ok()
        });
        places.push((component, said));
    }
    for (place, text) in &places {
        assert!(!text.is_empty(), "{place}");
        let shown = tokens.iter().find(|token| text.contains(token.as_str()));
        assert_eq!(shown, None, "{place} shows a token");
    }
    namespace.kubectl(&["delete", "pod", "--all"]).unwrap();
    remove(&namespace, &["data"], &[&open]);
}

/// A user who only reads gets no token. The pod goes on when the secret names another.
fn refused_without_the_right(weka: &Weka, namespace: &devcluster::testing::Namespace) {
    weka.array.apply_secret("reader", "csi-wekafs");
    let rita = r#"{"stringData": {"username": "rita", "password": "pw"}}"#;
    weka.driver
        .kubectl(&["patch", "secret", "reader", "-p", rita]);
    let closed = class(
        namespace,
        &weka.driver,
        "closed",
        "guarded",
        Some([SECRET, SECRET, "reader"]),
    );
    ask(namespace, "closed", &closed, 16 * MIB, false);
    // On a node where the filesystem is not mounted yet: who finds a mount needs no token.
    let reader = Pod::new("reader", "closed", "ls /data").scheduled_to("node-b");
    reader.start(namespace);
    wait_for_event(
        namespace,
        "reader",
        &[
            "role ReadOnly",
            "may not get the mount token of the filesystem",
            "give it the role",
        ],
    );
    weka.array.apply_secret("reader", "csi-wekafs");
    pod_in_phase(namespace, "reader", "Succeeded");
    namespace.kubectl(&["delete", "pod", "reader"]).unwrap();
    remove(namespace, &["closed"], &[&closed]);
}

/// All tokens for mounts that the array has given out, from its journal.
fn mount_tokens(array: &Array) -> Vec<String> {
    let journal = std::fs::read_to_string(array.weka.data.join("state.journal")).unwrap();
    let mut tokens = Vec::new();
    for line in journal.lines() {
        if let Ok(line) = serde_json::from_str(line) {
            collect(&line, &mut tokens);
        }
    }
    tokens
}

fn collect(value: &Value, tokens: &mut Vec<String>) {
    if let (Some(token), Some(purpose)) = (value["text"].as_str(), value["purpose"].as_object())
        && purpose.contains_key("Mount")
    {
        tokens.push(token.to_owned());
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, tokens)),
        Value::Object(items) => items.values().for_each(|item| collect(item, tokens)),
        _ => {}
    }
}
