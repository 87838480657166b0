//! Against a real API server: the definitions are accepted and do what they say, and `stowage status`
//! reads a real cluster; `takeover` on one with an installation of another driver.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod definitions;
mod operator;
mod setup;
mod status;
mod takeover;
mod vpsa;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use devcluster::testing::ApiServer;
use serde_json::{Value, json};
use stowage_testing::{Lent, shared_for};
use tempfile::TempDir;

/// One server for all tests, with the definitions of `deploy/crds` installed.
fn server() -> &'static ApiServer {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    SERVER.get_or_init(|| {
        shared_for("definitions", |server| {
            server.kubectl(&["apply", "-f", &crd_files()]).unwrap();
            server.wait_for_definitions().unwrap();
        })
    })
}

fn crd_files() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = crates.with_file_name("deploy").join("crds");
    path.to_str().unwrap().to_owned()
}

/// Runs kubectl with `-f` and a file that holds `document`; the error is kubectl's text.
fn kubectl_with(args: &[&str], document: &Value) -> Result<String, String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("document.json");
    fs::write(&path, document.to_string()).unwrap();
    let args = [args, &["-f", path.to_str().unwrap()]].concat();
    server().kubectl(&args).map_err(|error| error.to_string())
}

fn apply(object: &Value) -> Result<String, String> {
    kubectl_with(&["apply"], object)
}

/// The administrator's kubeconfig, changed; it lives as long as the directory.
fn changed_kubeconfig(server: &ApiServer, change: impl FnOnce(&mut Value)) -> (TempDir, PathBuf) {
    let admin = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let mut config = serde_json::to_value(admin).unwrap();
    change(&mut config);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    (dir, path)
}

/// The kubeconfig of a ServiceAccount without rights.
fn kubeconfig_of_new_account(server: &ApiServer, name: &str) -> (TempDir, PathBuf) {
    server.kubectl(&["create", "serviceaccount", name]).unwrap();
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
    let arguments = ["create", "--raw", &path, "-f", "-"];
    let answer = server.kubectl_with_input(&arguments, &request.to_string());
    let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
    changed_kubeconfig(server, |config| {
        config["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    })
}

/// The arguments of the kubectl commands in an error.
fn granting_commands(text: &str) -> Vec<Vec<&str>> {
    let commands = text
        .split('`')
        .filter_map(|part| part.strip_prefix("kubectl "));
    commands
        .map(|command| command.split(' ').collect())
        .collect()
}
