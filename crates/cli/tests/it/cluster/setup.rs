//! `stowage setup`, as the hooks of the charts run it, on a real server.

use std::process::{Command, Output};
use std::time::Duration;

use devcluster::testing::ApiServer;
use serde_json::{Value, json};

/// The definition that every release needs.
const DEFINITION: &str = "csidriverdeployments.csidriver.storage.openshift.io";

fn setup(server: &ApiServer, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .arg("setup")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .output()
        .unwrap()
}

fn said(server: &ApiServer, arguments: &[&str]) -> String {
    let output = setup(server, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{error}");
    text
}

fn refused(server: &ApiServer, arguments: &[&str]) -> String {
    let output = setup(server, arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn get(server: &ApiServer, arguments: &[&str]) -> Value {
    let text = server.kubectl(&[&["get", "-o", "json"], arguments].concat());
    serde_json::from_str(&text.unwrap()).unwrap()
}

/// A ConfigMap with an instance, as the chart makes it.
fn offer(server: &ApiServer, key: &str, driver: &str) {
    let template = json!({"spec": {"containers": [{"name": "driver", "image": "driver"}]}});
    let instance = json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1", "kind": "CSIDriverDeployment",
        "metadata": {"name": key, "namespace": "default"},
        "spec": {
            "driverName": driver, "driverSocket": "/csi/csi.sock", "nodeUpdateStrategy": "Rolling",
            "driverPerNodeTemplate": template,
        },
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("mine-instance-{key}"), "labels": {"stowage.dev/instances-of": "mine"}},
        "data": {"instance.yaml": instance.to_string()},
    });
    server
        .kubectl_with_input(&["apply", "-f", "-"], &map.to_string())
        .unwrap();
}

const RELEASE: &str = "--release=default/mine";

#[test]
fn definitions_and_instances_come_change_and_go_with_their_release() {
    // A server of its own: definitions are everybody's.
    let server = stowage_testing::api_server();
    definitions_go_forward(&server);
    instances_follow_the_release(&server);
    keys_are_made_once(&server);
    nothing_is_stranded(&server);
}

fn definitions_go_forward(server: &ApiServer) {
    let groups = ["definitions", "--group=driver-deployments", "--group=vpsa"];
    let first = said(server, &groups);
    assert!(
        first.contains(&format!("{DEFINITION}: written\n")),
        "{first}"
    );
    let version = |server: &ApiServer| {
        get(server, &["crd", DEFINITION])["metadata"]["resourceVersion"].clone()
    };
    let before = version(server);
    let again = said(server, &groups);
    assert!(
        again.lines().all(|line| line.ends_with(": unchanged")),
        "{again}"
    );
    assert_eq!(version(server), before);
    let live = get(server, &["crd", DEFINITION]);
    assert_eq!(
        live["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );

    same_version_with_other_content_is_brought_up_to_date(server, &groups);

    // An older one is brought up to date, a newer one stays.
    let annotate = |value: &str| {
        let value = format!("stowage.dev/version={value}");
        server
            .kubectl(&["annotate", "--overwrite", "crd", DEFINITION, &value])
            .unwrap();
    };
    annotate("0.0.1");
    assert!(said(server, &groups).contains(&format!("{DEFINITION}: written")));
    annotate("99.0.0");
    let newer = said(server, &groups);
    assert!(
        newer.contains("left as it is, because it is of the newer release 99.0.0"),
        "{newer}"
    );
    assert_eq!(
        get(server, &["crd", DEFINITION])["metadata"]["annotations"]["stowage.dev/version"],
        "99.0.0"
    );

    // Snapshots of somebody else: theirs will do, or nothing at all is changed.
    let foreign = |version: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "volumesnapshots.snapshot.storage.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/419"},
            },
            "spec": {
                "group": "snapshot.storage.k8s.io", "scope": "Namespaced",
                "names": {"kind": "VolumeSnapshot", "plural": "volumesnapshots"},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        })
    };
    server
        .kubectl_with_input(&["create", "-f", "-"], &foreign("v1beta1").to_string())
        .unwrap();
    let error = refused(server, &["definitions", "--group=snapshots"]);
    assert!(
        error.contains("`volumesnapshots.snapshot.storage.k8s.io` was installed by somebody else"),
        "{error}"
    );
    assert!(
        error.contains("does not serve version v1: nothing was changed"),
        "{error}"
    );
    assert!(
        server
            .kubectl(&[
                "get",
                "crd",
                "volumesnapshotcontents.snapshot.storage.k8s.io"
            ])
            .is_err()
    );
    server
        .kubectl(&["delete", "crd", "volumesnapshots.snapshot.storage.k8s.io"])
        .unwrap();
    server
        .kubectl_with_input(&["create", "-f", "-"], &foreign("v1").to_string())
        .unwrap();
    let text = said(server, &["definitions", "--group=snapshots"]);
    assert!(text.contains("volumesnapshots.snapshot.storage.k8s.io: left as it is, because somebody else installed it"), "{text}");
    assert!(
        text.contains("volumesnapshotcontents.snapshot.storage.k8s.io: written"),
        "{text}"
    );
    what_an_earlier_release_left_is_handed_over(server, &text);
}

/// Builds between two releases have the version of the last one.
fn same_version_with_other_content_is_brought_up_to_date(server: &ApiServer, groups: &[&str]) {
    let columns = |server: &ApiServer| {
        get(server, &["crd", DEFINITION])["spec"]["versions"][0]["additionalPrinterColumns"].clone()
    };
    let ours = columns(server);
    let patch = r#"[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]"#;
    server
        .kubectl(&["patch", "crd", DEFINITION, "--type=json", "-p", patch])
        .unwrap();
    assert_ne!(columns(server), ours);
    let text = said(server, groups);
    assert!(text.contains(&format!("{DEFINITION}: written\n")), "{text}");
    assert_eq!(columns(server), ours);
}

/// Definitions of earlier releases look like everybody's; the line about one tells how it becomes ours.
fn what_an_earlier_release_left_is_handed_over(server: &ApiServer, text: &str) {
    const NAME: &str = "volumesnapshots.snapshot.storage.k8s.io";
    let schema = |server: &ApiServer| {
        get(server, &["crd", NAME])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    };
    assert_eq!(schema(server), Value::Null);
    let command = text.split('`').find(|it| it.starts_with("kubectl "));
    let words: Vec<_> = command.unwrap().split(' ').skip(1).collect();
    server.kubectl(&words).unwrap();
    let text = said(server, &["definitions", "--group=snapshots"]);
    assert!(text.contains(&format!("{NAME}: written\n")), "{text}");
    assert_ne!(schema(server), Value::Null);
}

fn instances_follow_the_release(server: &ApiServer) {
    offer(server, "one", "one.example.com");
    offer(server, "two", "two.example.com");
    let text = said(server, &["instances", RELEASE]);
    for name in ["one", "two"] {
        assert!(
            text.contains(&format!("CSIDriverDeployment default/{name}: applied")),
            "{text}"
        );
    }
    let version = |name: &str| {
        get(server, &["csidriverdeployment", name])["metadata"]["resourceVersion"].clone()
    };
    let before = version("one");
    offer(server, "two", "other.example.com");
    said(server, &["instances", RELEASE]);
    assert_eq!(version("one"), before);
    assert_eq!(
        get(server, &["csidriverdeployment", "two"])["spec"]["driverName"],
        "other.example.com"
    );

    server
        .kubectl(&["delete", "configmap", "mine-instance-two"])
        .unwrap();
    let text = said(server, &["instances", RELEASE]);
    assert!(
        text.contains("default/two: deleted, because the release no longer has it"),
        "{text}"
    );
    assert!(
        server
            .kubectl(&["get", "csidriverdeployment", "two"])
            .is_err()
    );

    // One that somebody made by hand, and how it is handed over.
    server
        .kubectl(&[
            "label",
            "csidriverdeployment",
            "one",
            "stowage.dev/release-",
        ])
        .unwrap();
    offer(server, "three", "three.example.com");
    let error = refused(server, &["instances", RELEASE]);
    assert!(
        error.contains("default/one exists and is not of this release"),
        "{error}"
    );
    assert!(
        server
            .kubectl(&["get", "csidriverdeployment", "three"])
            .is_err(),
        "nothing was changed"
    );
    let command = error
        .split('`')
        .find(|it| it.starts_with("kubectl "))
        .unwrap();
    let words: Vec<_> = command.split(' ').skip(1).chain(["--overwrite"]).collect();
    server.kubectl(&words).unwrap();
    said(server, &["instances", RELEASE]);

    // What is not an instance.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "wrong", "labels": {"stowage.dev/instances-of": "mine"}},
        "data": {"a.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: x}}"},
    });
    server
        .kubectl_with_input(&["create", "-f", "-"], &map.to_string())
        .unwrap();
    let error = refused(server, &["instances", RELEASE]);
    assert!(
        error.contains("`a.yaml` of ConfigMap wrong is not a CSIDriverDeployment"),
        "{error}"
    );
    server.kubectl(&["delete", "configmap", "wrong"]).unwrap();
}

fn keys_are_made_once(server: &ApiServer) {
    let arguments = ["instances", RELEASE, "--key-secret=default/keys"];
    let text = said(server, &arguments);
    assert!(
        text.contains("Secret default/keys: created with new keys"),
        "{text}"
    );
    let secret = get(server, &["secret", "keys"]);
    assert_eq!(
        secret["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );
    let text = said(server, &arguments);
    assert!(text.contains("Secret default/keys: unchanged"), "{text}");
    assert_eq!(get(server, &["secret", "keys"])["data"], secret["data"]);
    for key in ["GLOBAL_ENCRYPTION_KEY", "CHAP_ENCRYPTION_KEY"] {
        // 32 bytes are 44 characters of base64.
        assert_eq!(secret["data"][key].as_str().unwrap().len(), 44, "{key}");
        assert!(!text.contains(secret["data"][key].as_str().unwrap()));
    }
}

fn nothing_is_stranded(server: &ApiServer) {
    // Somebody else's, which this release's operator looks after. It was stored with a definition that admits everything.
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let anything = json!([{
        "op": "replace", "path": "/spec/versions/0/schema", "value": {"openAPIV3Schema": anything},
    }]);
    let patch = ["patch", "crd", DEFINITION, "--type=json", "-p"];
    server
        .kubectl(&[&patch[..], &[&anything.to_string()]].concat())
        .unwrap();
    let instance = get(server, &["csidriverdeployment", "one"]);
    let other = json!({
        "apiVersion": instance["apiVersion"], "kind": instance["kind"], "metadata": {"name": "other"},
        "spec": {"driverName": 7},
    });
    let create = ["create", "--validate=false", "-f", "-"];
    let stored = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        let created = server.kubectl_with_input(&create, &other.to_string());
        created.is_ok()
    });
    assert!(stored, "the server goes on to refuse it");
    said(server, &["instances", RELEASE]);
    let error = refused(server, &["remove", RELEASE, "--operator", "--timeout=1s"]);
    assert!(
        error.contains(
            "1 resources need the operator of this release: CSIDriverDeployment default/other"
        ),
        "{error}"
    );
    server
        .kubectl(&["get", "csidriverdeployment", "one"])
        .unwrap();
    server
        .kubectl(&["delete", "csidriverdeployment", "other"])
        .unwrap();

    // An operator that has not finished, or is not there.
    let finalizer = r#"{"metadata": {"finalizers": ["stowage.dev/test"]}}"#;
    server
        .kubectl(&[
            "patch",
            "csidriverdeployment",
            "one",
            "--type=merge",
            "-p",
            finalizer,
        ])
        .unwrap();
    let error = refused(server, &["remove", RELEASE, "--operator", "--timeout=1s"]);
    assert!(
        error.contains("default/one: no operator has looked at it"),
        "{error}"
    );
    server
        .kubectl(&[
            "patch",
            "csidriverdeployment",
            "one",
            "--type=merge",
            "-p",
            r#"{"metadata": {"finalizers": null}}"#,
        ])
        .unwrap();
    let text = said(server, &["remove", RELEASE, "--operator"]);
    assert!(
        text.contains("No CSIDriverDeployment of this release is left."),
        "{text}"
    );
    let left = server
        .kubectl(&["get", "csidriverdeployments", "-o", "name"])
        .unwrap();
    assert_eq!(left, "");
    // Where nothing was ever installed.
    server.kubectl(&["delete", "crd", DEFINITION]).unwrap();
    said(server, &["remove", RELEASE, "--operator"]);
}
