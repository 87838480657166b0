//! `stowage takeover weka --check` on a server with two installations of WEKA's plugin: one as its chart makes it
//! (`csi.weka.io`), one as its `deploy.sh` made it (`wekafs.csi.k8s.io`). The commands that it prints are those of weka.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use devcluster::testing::ApiServer;
use serde_json::{Value, json};
use stowage_testing::{Lent, api_server_with, define, shared_for};

use crate::cluster::{changed_kubeconfig, granting_commands, kubeconfig_of_new_account};

/// In the fixtures only as a value of a secret.
const SECRET_VALUES: [&str; 3] = ["not-for-print", "csi-user", "10.99.0.1"];

const OLD: [&str; 2] = ["--driver-name", "wekafs.csi.k8s.io"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cluster/takeover")
}

/// A server of its own: what is in it is seen as a whole.
fn installed() -> &'static ApiServer {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    SERVER.get_or_init(|| shared_for("takeover", install))
}

fn install(server: &ApiServer) {
    define(server, &[""]);
    for file in ["chart.yaml", "deploy_sh.yaml"] {
        let path = fixtures().join(file);
        server
            .kubectl(&["apply", "-f", path.to_str().unwrap()])
            .unwrap();
    }
}

fn check(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["takeover", "weka", "--check", "--kubeconfig"])
        .arg(kubeconfig)
        .args(args)
        .env_clear()
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn an_account_that_may_only_read_sees_what_becomes_of_every_volume() {
    let server = installed();
    let (_dir, kubeconfig) = kubeconfig_of_new_account(server, "reader");
    // Lists, then secrets: each error names what is missing, and its commands grant that and nothing else.
    for (verb, resource) in [("list", "persistentvolumes"), ("get", "secrets")] {
        let output = check(&kubeconfig, &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = stderr(&output);
        let account = "error: `system:serviceaccount:default:reader` may not";
        assert!(
            text.starts_with(&format!("{account} {verb} {resource}")),
            "{text}"
        );
        for command in granting_commands(text) {
            assert!(
                command.join(" ").contains(&format!("--verb={verb} "))
                    || command[1] == "clusterrolebinding"
            );
            server.kubectl(&command).unwrap();
        }
    }
    let output = check(&kubeconfig, &[]);
    let text = stdout(&output);
    let golden = fixtures().join("chart.txt");
    if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
        fs::write(&golden, text).unwrap();
    }
    assert_eq!(
        text,
        fs::read_to_string(&golden).unwrap(),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(3));
    for value in SECRET_VALUES {
        assert!(!text.contains(value), "{value}");
    }
}

#[test]
fn programs_get_the_same() {
    let output = check(installed().kubeconfig(), &["--output", "json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(report["clear"], false);
    assert_eq!(report["instance"], "csi-wekafs/csi-wekafs");
    let volumes = report["volumes"].as_array().unwrap();
    let needy: Vec<_> = volumes
        .iter()
        .filter(|volume| volume["needs"] != json!([]))
        .map(|volume| volume["name"].as_str().unwrap())
        .collect();
    assert_eq!(needy, ["bad-handle", "block", "no-secret"]);
    let hybrid = volumes.iter().find(|it| it["name"] == "clone").unwrap();
    assert_eq!(hybrid["kind"], "directory in a writable snapshot");
    assert_eq!(hybrid["usedBy"], "default/clone");
    assert_eq!(report["manifest"][1]["spec"]["driverName"], "csi.weka.io");
    for value in SECRET_VALUES {
        assert!(!stdout(&output).contains(value), "{value}");
    }
}

/// What a deletion must never touch.
fn kept(server: &ApiServer) -> String {
    let kinds = "persistentvolumes,storageclasses,secrets,namespaces,csidrivers,configmaps";
    let columns = "--output=custom-columns=KIND:.kind,NS:.metadata.namespace,NAME:.metadata.name";
    let arguments = ["get", kinds, "--all-namespaces", columns];
    server.kubectl(&arguments).unwrap()
}

#[test]
fn the_commands_remove_an_installation_of_deploy_sh_and_nothing_else() {
    let server = api_server_with(&[""]);
    let file = fixtures().join("deploy_sh.yaml");
    server
        .kubectl(&["apply", "-f", file.to_str().unwrap()])
        .unwrap();
    let before = kept(&server);
    let json = [&OLD[..], &["--output", "json"]].concat();
    let output = check(server.kubeconfig(), &json);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    let steps = report["steps"].as_array().unwrap();
    let commands: Vec<_> = steps
        .iter()
        .flat_map(|step| step["commands"].as_array().unwrap())
        .map(|command| command.as_str().unwrap())
        .collect();
    assert_eq!(
        commands,
        [
            "kubectl annotate csidriver wekafs.csi.k8s.io --overwrite stowage.dev/adopt-by=csi-wekafsplugin/csi-wekafs",
            "kubectl delete statefulset csi-wekafsplugin-controller --namespace=csi-wekafsplugin --cascade=foreground",
            "kubectl delete daemonset csi-wekafsplugin --namespace=csi-wekafsplugin --cascade=foreground",
            "kubectl delete clusterrolebinding csi-wekafsplugin-cluster-role-binding",
            "kubectl delete rolebinding csi-wekafsplugin-role-binding --namespace=csi-wekafsplugin",
            "kubectl delete clusterrole csi-wekafsplugin-cluster-role",
            "kubectl delete role csi-wekafsplugin-role --namespace=csi-wekafsplugin",
            "kubectl delete serviceaccount csi-wekafsplugin --namespace=csi-wekafsplugin",
            "kubectl apply -f weka.yaml",
        ]
    );

    let manifest = check(
        server.kubeconfig(),
        &[&OLD[..], &["-o", "manifest"]].concat(),
    );
    for command in &commands[..commands.len() - 1] {
        // Nobody here collects the pods of a workload, so nobody waits for them.
        let command = command.replace(" --cascade=foreground", "");
        let words: Vec<_> = command.split(' ').skip(1).collect();
        server.kubectl(&words).unwrap();
    }
    assert_eq!(kept(&server), before);
    let left = "statefulsets,daemonsets,serviceaccounts,roles,rolebindings";
    let left = server.kubectl(&["get", left, "--namespace=csi-wekafsplugin", "--output=name"]);
    let left = left.unwrap();
    assert!(!left.contains("csi-wekafsplugin"), "{left}");

    server
        .kubectl_with_input(&["apply", "-f", "-"], stdout(&manifest))
        .unwrap();
    let again = check(server.kubeconfig(), &OLD);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert!(
        stdout(&again).contains("nothing is to be stopped"),
        "{again:?}"
    );
}

#[test]
fn what_cannot_be_checked_is_said_in_one_sentence() {
    let output = check(installed().kubeconfig(), &["--driver-name", "csi.wekka.io"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        stderr(&output),
        "error: the cluster has no object of the driver `csi.wekka.io`: give the name of the driver with --driver-name \
         (CSIDriver objects: csi.weka.io, wekafs.csi.k8s.io)\n"
    );
    let (_dir, away) = changed_kubeconfig(installed(), |config| {
        config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    let output = check(&away, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = stderr(&output);
    assert!(
        text.starts_with("error: cannot reach the API server at https://127.0.0.1:1"),
        "{text}"
    );
}
