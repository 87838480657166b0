//! Against a real API server: the definitions are accepted and do what they say, and `stowage status`
//! reads a real cluster.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod definitions;
mod operator;
mod status;
mod vpsa;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use devcluster::testing::ApiServer;
use serde_json::Value;
use tempfile::TempDir;

/// One server for all tests, with the definitions of `deploy/crds` installed.
fn server() -> &'static ApiServer {
    static SERVER: OnceLock<ApiServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = ApiServer::start().unwrap();
        server.kubectl(&["apply", "-f", &crd_files()]).unwrap();
        server.wait_for_definitions().unwrap();
        server
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
