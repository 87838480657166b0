//! The pool against real servers: nothing of one test is seen by the next, however the first ended.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use devcluster::testing::{ApiServer, Running};
use stowage_testing::pool::lender::Lender;
use stowage_testing::pool::lent_at;
use tempfile::TempDir;

/// Set in the process that is killed: where its pool is.
const SOCKET: &str = "STOWAGE_TEST_POOL_SOCKET";

/// Of every sort: in a namespace and in none, held by a finalizer, of a kind of its own, and a change of what was there before.
const MANIFEST: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: somebody}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: held, namespace: somebody, finalizers: [example.com/for-ever]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everybody}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nobody}]
";
const THING: &str = r#"{"apiVersion": "example.com/v1", "kind": "Thing",
    "metadata": {"name": "a", "namespace": "somebody", "finalizers": ["example.com/for-ever"]}}"#;

/// A pool of one server, so that the next test has the one that the first had.
fn pool(directory: &TempDir) -> (Arc<Lender>, PathBuf) {
    let socket = directory.path().join("pool.sock");
    let lender = Lender::new(1, None).unwrap();
    lender.serve(&socket).unwrap();
    (lender, socket)
}

fn apply(server: &ApiServer, manifest: &str) {
    let applied = server.kubectl_with_input(&["apply", "-f", "-"], manifest);
    applied.unwrap();
}

/// What a test may do.
fn litter(server: &ApiServer) {
    apply(server, MANIFEST);
    server.wait_for_definitions().unwrap();
    apply(server, THING);
    let delete = ["delete", "namespace", "somebody", "--wait=false"];
    server.kubectl(&delete).unwrap();
    let label = ["label", "namespace", "default", "touched=yes"];
    server.kubectl(&label).unwrap();
}

/// Everything that a test can see.
fn everything(server: &ApiServer) -> String {
    let kinds = server.kubectl(&["api-resources", "--verbs=list", "--output=name"]);
    let kinds = kinds.unwrap();
    let mut kinds: Vec<_> = kinds.split_whitespace().collect();
    kinds.sort_unstable();
    // The server's own, at any time.
    kinds.retain(|kind| !kind.starts_with("events") && !kind.starts_with("componentstatuses"));
    let all = kinds.join(",");
    let columns = "--output=custom-columns=KIND:.kind,NS:.metadata.namespace,NAME:.metadata.name,\
                   UID:.metadata.uid,LABELS:.metadata.labels";
    let objects = server.kubectl(&["get", &all, "--all-namespaces", columns]);
    format!("{all}\n{}", objects.unwrap())
}

fn url(server: &ApiServer) -> String {
    let path = "--output=jsonpath={.clusters[0].cluster.server}";
    server.kubectl(&["config", "view", path]).unwrap()
}

#[test]
fn the_next_test_finds_a_server_as_new() {
    let directory = tempfile::tempdir().unwrap();
    let (_pool, socket) = pool(&directory);
    let first = lent_at(&socket, "new", |_| ());
    let (before, place) = (everything(&first), url(&first));
    litter(&first);
    assert_ne!(everything(&first), before);
    drop(first);
    let second = lent_at(&socket, "new", |_| ());
    assert_eq!(url(&second), place, "it is another server");
    assert_eq!(everything(&second), before);
    // What was taken back can be made again.
    litter(&second);
}

#[test]
fn a_state_is_made_once_and_everything_since_is_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    let (_pool, socket) = pool(&directory);
    let make = |server: &ApiServer| apply(server, MANIFEST);
    let first = lent_at(&socket, "with things", make);
    first.wait_for_definitions().unwrap();
    let before = everything(&first);
    apply(&first, THING);
    drop(first);
    let second = lent_at(&socket, "with things", |_| panic!("it is made already"));
    assert_eq!(everything(&second), before);
    drop(second);
    // There is one server only: it is as new for whoever wants that.
    let third = lent_at(&socket, "new", |_| ());
    let namespaces = third.kubectl(&["get", "namespaces", "-o", "name"]);
    assert!(!namespaces.unwrap().contains("somebody"));
}

#[test]
fn a_test_that_is_killed_leaves_nothing_either() {
    if let Some(socket) = env::var_os(SOCKET) {
        return wait_to_be_killed(Path::new(&socket));
    }
    let directory = tempfile::tempdir().unwrap();
    let (_pool, socket) = pool(&directory);
    let first = lent_at(&socket, "new", |_| ());
    let (before, place) = (everything(&first), url(&first));
    drop(first);
    let mut killed = Running(
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_test_that_is_killed_leaves_nothing_either"])
            .args(["--nocapture", "--test-threads=1"])
            .env(SOCKET, &socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let said = BufReader::new(killed.stdout.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok);
    assert!(said.any(|line| line.ends_with("littered")), "it ended");
    drop(killed);
    let second = lent_at(&socket, "new", |_| ());
    assert_eq!(url(&second), place, "it is another server");
    assert_eq!(everything(&second), before);
}

/// The same test in the process that is killed.
#[allow(clippy::print_stdout, reason = "the other process reads it")]
fn wait_to_be_killed(socket: &Path) {
    let server = lent_at(socket, "new", |_| ());
    litter(&server);
    println!("littered");
    std::thread::sleep(std::time::Duration::from_secs(600));
}
