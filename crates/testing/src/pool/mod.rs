//! API servers that outlive tests.
//!
//! `./x test` runs `stowage-test-pool` beside the tests, with a socket [`SOCKET`] in the directory of the run. A test that asks for a server of
//! its own has it for as long as it keeps the connection, so also a test that is killed gives it back; then everything
//! that the test wrote is taken back, and the next one finds a server as new. Without a pool, as in a plain `cargo test`, each
//! process starts what it needs.
//!
//! A lent server can neither be stopped nor frozen, and has no arguments of a test's own: that is
//! [`ApiServer::start`] for.

mod connections;
pub mod lender;
mod store;

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use devcluster::testing::{Address, ApiServer, ControlPlane};
use serde_json::Value;

use crate::look::{Look, eventually};
use crate::once::{Turn, once, run_directory_of_all};

/// Where a test finds the pool, in the directory of the run.
pub const SOCKET: &str = "pool.sock";

/// What a test asks for, in the words of the socket.
const OWN: &str = "own";
/// Whether a server is in the state that was asked for, and what the test says when it is.
const TO_BE_MADE: &str = "to be made";
const MADE: &str = "made";
const SHARED: &str = "shared";
const CONTROL_PLANE: &str = "control-plane";

/// A connection to the pool: what it lent is the test's until this is closed.
type Lease = BufReader<UnixStream>;

/// A server for as long as this is kept.
pub struct Lent {
    server: ApiServer,
    /// The pool takes the server back when it ends.
    _lease: Option<Lease>,
}

impl Deref for Lent {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}

/// An API server for this test alone, as new.
pub fn api_server() -> Lent {
    match socket() {
        Some(socket) => lent_at(&socket, "new", |_| ()),
        None => started(),
    }
}

/// One with the definitions of these files, or directories of files, of `deploy/crds`: they cost a server more than most tests do, so it
/// keeps them for the next test that wants the same.
pub fn api_server_with(definitions: &[&str]) -> Lent {
    let define = |server: &ApiServer| define(server, definitions);
    match socket() {
        Some(socket) => {
            let state = format!("defined:{}", definitions.join("+"));
            lent_at(&socket, &state, define)
        }
        None => {
            let server = started();
            define(&server);
            server
        }
    }
}

/// Gives a server definitions of `deploy/crds`, by the names of their files; "" is all of them.
pub fn define(server: &ApiServer, definitions: &[&str]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    // What people read is looked at elsewhere: the rules for it are longer than the definitions.
    let mut create = vec!["create".to_owned(), "--validate=false".to_owned()];
    for file in definitions {
        create.extend(["-f".to_owned(), directory.join(file).display().to_string()]);
    }
    let create: Vec<_> = create.iter().map(String::as_str).collect();
    server.kubectl(&create).unwrap();
    wait_for_definitions(server);
}

/// Waits until a server serves every definition that it was given.
fn wait_for_definitions(server: &ApiServer) {
    let look = Look::at(server.kubeconfig());
    eventually("the definitions are served", || {
        let all = look.list("crd", None, "", "")?;
        let is_served = |crd: &Value| {
            let conditions = crd["status"]["conditions"].as_array();
            let established = |it: &Value| it["type"] == "Established" && it["status"] == "True";
            conditions.is_some_and(|all| all.iter().any(established))
        };
        all.iter().all(is_served).then_some(())
    });
}

/// One of a pool that is there, in a state that has this name; whoever is the first to ask for that state makes it.
pub fn lent_at(socket: &Path, state: &str, make: impl FnOnce(&ApiServer)) -> Lent {
    let (answer, mut lease) = ask_at(socket, &format!("{OWN} {state}"));
    let address: Address = serde_json::from_str(&answer)
        .unwrap_or_else(|_| panic!("the pool of API servers lends none: {answer}"));
    let server = ApiServer::at(&address).unwrap();
    if line(&mut lease) == TO_BE_MADE {
        make(&server);
        writeln!(lease.get_mut(), "{MADE}").unwrap();
        let answer = line(&mut lease);
        assert_eq!(answer, MADE, "the pool of API servers");
    }
    Lent {
        server,
        _lease: Some(lease),
    }
}

fn line(lease: &mut Lease) -> String {
    let mut line = String::new();
    lease.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// One for all tests that do not mind company: each takes a namespace of its own, with a name that no other test has.
pub fn shared() -> &'static ApiServer {
    static SHARED: OnceLock<Lent> = OnceLock::new();
    SHARED.get_or_init(|| shared_for("anything", |_| ()))
}

/// The same for tests of one kind; the first of them prepares it.
pub fn shared_for(purpose: &str, prepare: impl FnOnce(&ApiServer)) -> Lent {
    let Some((address, lease)) = ask(&format!("{SHARED} {purpose}{}", again())) else {
        let lent = started();
        prepare(&lent);
        return lent;
    };
    let server = ApiServer::at(&address).unwrap();
    once_at(&server, "prepared", || prepare(&server));
    Lent {
        server,
        _lease: Some(lease),
    }
}

/// A control plane with a scheduler for all tests that do not mind company: each takes a namespace, classes and nodes of its own.
pub fn shared_control_plane() -> &'static ControlPlane {
    static SHARED: OnceLock<(ControlPlane, Option<Lease>)> = OnceLock::new();
    let start = || match ask(CONTROL_PLANE) {
        Some((address, lease)) => (ControlPlane::at(&address).unwrap(), Some(lease)),
        None => (ControlPlane::start_with_scheduler().unwrap(), None),
    };
    &SHARED.get_or_init(start).0
}

/// Does something once for all tests that have this server.
pub fn once_at(server: &ApiServer, name: &str, work: impl FnOnce()) {
    once(place(server), name, work);
}

impl Turn {
    /// Of those that have this server.
    pub fn of(server: &ApiServer, name: &str) -> Self {
        Self::wait(place(server), name)
    }
}

/// What all that have a server see of each other.
fn place(server: &ApiServer) -> &Path {
    server.kubeconfig().parent().unwrap()
}

fn started() -> Lent {
    Lent {
        server: ApiServer::start().unwrap_or_else(|error| panic!("{error}")),
        _lease: None,
    }
}

fn socket() -> Option<PathBuf> {
    Some(run_directory_of_all()?.join(SOCKET)).filter(|socket| socket.exists())
}

/// A test that is tried again may find what it left where it made names that are always the same: it gets another server.
fn again() -> &'static str {
    let attempt = env::var("NEXTEST_ATTEMPT").unwrap_or_default();
    if matches!(attempt.as_str(), "" | "1") {
        ""
    } else {
        "-again"
    }
}

/// What the pool lends, and the connection that has to last; nothing where there is no pool.
fn ask(what: &str) -> Option<(Address, Lease)> {
    let (answer, lease) = ask_at(&socket()?, what);
    let address = serde_json::from_str(&answer);
    let address =
        address.unwrap_or_else(|_| panic!("the pool of API servers lends none: {answer}"));
    Some((address, lease))
}

/// The first line of the answer, and the connection.
fn ask_at(socket: &Path, what: &str) -> (String, Lease) {
    let connect = || -> std::io::Result<(String, Lease)> {
        let mut stream = UnixStream::connect(socket)?;
        writeln!(stream, "{what}")?;
        let mut lease = BufReader::new(stream);
        let mut answer = String::new();
        lease.read_line(&mut answer)?;
        Ok((answer, lease))
    };
    connect().unwrap_or_else(|error| {
        panic!(
            "the pool of API servers does not answer at `{}`: {error}",
            socket.display()
        )
    })
}
