//! `stowage status` against servers with canned answers: what a person reads when things are not as
//! they should be. The real server is in `cluster`.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod canned;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use canned::{healthy, refusing, serve, serve_untrusted, version};

fn write_kubeconfig(dir: &TempDir, server: &str) -> String {
    let path = dir.path().join("kubeconfig");
    let config = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
    });
    fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn status(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .arg("status")
        .args(args)
        .env_clear()
        // No ~/.kube/config, wherever the tests run.
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

fn status_of(server: &str, args: &[&str]) -> Output {
    let dir = TempDir::new().unwrap();
    let kubeconfig = write_kubeconfig(&dir, server);
    status(&[&["--kubeconfig", &kubeconfig], args].concat())
}

/// The one line that a failed command prints, without `error: `.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    let line = text
        .strip_prefix("error: ")
        .unwrap()
        .strip_suffix('\n')
        .unwrap();
    assert!(!line.contains('\n'), "more than one line: {text}");
    line.to_owned()
}

#[test]
fn a_healthy_cluster_is_drawn_from_all_pages() {
    let server = serve(healthy);
    let output = status_of(&server, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "\
Kubernetes v1.20.2, 1 CSI driver, 2 nodes (2 not ready)

DRIVER         ATTACH  MODES       STORAGE CLASSES  VOLUMES  NODES
d.example.com  no      Persistent  -                0        0/2

NODE  READY    d.example.com
n1    unknown  -
n2    unknown  -
"
    );
    let output = status_of(&server, &["--output", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["nodes"][1]["name"], "n2");
}

#[test]
fn a_server_older_than_1_20_is_refused_in_one_sentence() {
    let server = serve(|path| {
        assert_eq!(
            path, "/version",
            "nothing else may be asked of an old server"
        );
        (200, version("19"))
    });
    assert_eq!(
        complaint(&status_of(&server, &[])),
        "the cluster runs Kubernetes v1.19.2, older than 1.20, the oldest that stowage supports: upgrade \
         the cluster"
    );
}

#[test]
fn every_missing_right_is_named_at_once() {
    let server = serve(refusing);
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.starts_with(
            "`viewer` may not list csinodes.storage.k8s.io, nodes: grant it with `kubectl "
        ),
        "{line}"
    );
}

#[test]
fn refused_credentials_are_told_apart_from_missing_rights() {
    let server = serve(|_| (401, json!({"code": 401, "message": "Unauthorized"})));
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.contains("does not accept the credentials of the kubeconfig"),
        "{line}"
    );
}

#[test]
fn an_overloaded_server_is_reported_and_not_waited_for() {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    let server = serve(|path| match path {
        "/version" => healthy(path),
        _ => {
            REFUSED.fetch_add(1, Ordering::SeqCst);
            (503, json!({"code": 503, "message": "etcd is away"}))
        }
    });
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.contains("(code 503: etcd is away): try again later"),
        "{line}"
    );
    let refused = REFUSED.load(Ordering::SeqCst);
    assert_eq!(refused, 5, "each of five lists is asked for once");
}

#[test]
fn something_else_at_the_address_is_not_taken_for_a_cluster() {
    let server = serve(|_| (200, json!("hello")));
    let line = complaint(&status_of(&server, &[]));
    assert!(line.contains("is not a Kubernetes API server"), "{line}");
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.starts_with(&format!("cannot reach the API server at {server}/ (")),
        "{line}"
    );
    assert!(line.contains("Connection refused"), "{line}");
}

#[test]
fn a_server_whose_certificate_nobody_vouches_for_is_not_trusted() {
    let server = serve_untrusted();
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.starts_with(&format!(
            "cannot trust the API server at {server}/ (invalid peer certificate"
        )),
        "{line}"
    );
    assert!(
        line.contains("check the certificate authority in the kubeconfig"),
        "{line}"
    );
}

#[test]
fn an_https_address_that_speaks_no_tls_cannot_be_reached() {
    let server = serve(healthy).replace("http:", "https:");
    let line = complaint(&status_of(&server, &[]));
    assert!(
        line.starts_with("cannot reach the API server at https://127.0.0.1:"),
        "{line}"
    );
}

#[test]
fn a_missing_kubeconfig_is_named() {
    let line = complaint(&status(&["--kubeconfig", "/nonexistent/k.conf"]));
    assert_eq!(
        line,
        "cannot read the kubeconfig `/nonexistent/k.conf` (No such file or directory (os error 2)): give a \
         readable file with --kubeconfig or KUBECONFIG"
    );
    let line = complaint(&status(&[]));
    assert!(line.starts_with("no cluster is configured"), "{line}");
}

#[test]
fn a_broken_kubeconfig_is_reported_with_its_line() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("k.conf");
    fs::write(&path, "users:\n- name: u\n  user:\n    token: [s3cret\n").unwrap();
    let line = complaint(&status(&["--kubeconfig", path.to_str().unwrap()]));
    assert!(
        line.contains("is not a valid kubeconfig at line "),
        "{line}"
    );
}

#[test]
fn contexts_that_do_not_exist_are_named() {
    let line = complaint(&status_of("http://127.0.0.1:1", &["--context", "prod"]));
    assert!(
        line.contains("has no context `prod`: `kubectl config get-contexts`"),
        "{line}"
    );

    let dir = TempDir::new().unwrap();
    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let line = complaint(&status(&["--kubeconfig", empty.to_str().unwrap()]));
    assert!(
        line.ends_with("has no current context: choose one with --context NAME"),
        "{line}"
    );
}

#[test]
fn a_failed_login_plugin_is_quoted_without_its_output() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("k.conf");
    for (script, told) in [
        (
            "echo s3cret; echo expired >&2; exit 3",
            "(its login plugin ended with exit status: 3: expired)",
        ),
        (
            "echo '{token: [s3cret'",
            "its login plugin's answer cannot be read",
        ),
    ] {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "interactiveMode": "Never",
        });
        let config = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"exec": exec}}],
        });
        fs::write(&path, config.to_string()).unwrap();
        let line = complaint(&status_with_path(&path));
        assert!(line.contains(told), "{line}");
        assert!(
            line.starts_with("cannot log in with the kubeconfig"),
            "{line}"
        );
    }
}

/// With a PATH, for kubeconfigs that run programs.
fn status_with_path(kubeconfig: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap()
}
