//! The pool itself: starts servers when they are asked for, lends each to one test at a time, and ends with whoever started it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fs, thread};

use devcluster::testing::{ApiServer, ControlPlane};
use parking_lot::{Condvar, Mutex};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::store::Fresh;
use super::{CONTROL_PLANE, MADE, OWN, SHARED, TO_BE_MADE};

/// How many servers are there, and which of them wait for a test.
#[derive(Default)]
struct Own {
    started: usize,
    idle: Vec<Server>,
}

/// A server that is lent to one test at a time.
struct Server {
    api: ApiServer,
    fresh: Fresh,
    /// With definitions, for example: what it is put back to, if it is not new.
    state: Option<(String, Fresh)>,
}

impl Server {
    fn is_in(&self, state: &str) -> bool {
        self.state.as_ref().is_some_and(|(name, _)| name == state)
    }
}

/// The state of a server that was just started.
const NEW: &str = "new";

/// Servers that are never wiped. Which of them a name is, is decided by who asks first.
enum Common {
    Server(ApiServer),
    Plane(ControlPlane),
}

/// Lends servers.
pub struct Lender {
    limit: usize,
    own: Mutex<Own>,
    given_back: Condvar,
    common: Mutex<BTreeMap<String, Arc<OnceLock<Common>>>>,
    runtime: Runtime,
    /// Where logs of servers go that are given up or ended.
    logs: Option<PathBuf>,
}

impl Lender {
    /// One that starts so many servers at most, beside those that are shared.
    pub fn new(limit: usize, logs: Option<PathBuf>) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            limit,
            own: Mutex::default(),
            given_back: Condvar::new(),
            common: Mutex::default(),
            runtime: Runtime::new()?,
            logs,
        }))
    }

    /// Answers at this socket, in the background.
    pub fn serve(self: &Arc<Self>, socket: &Path) -> std::io::Result<()> {
        let listener = UnixListener::bind(socket)?;
        let this = Arc::clone(self);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let this = Arc::clone(&this);
                thread::spawn(move || this.lend(&connection));
            }
        });
        Ok(())
    }

    /// Ends all servers that are not lent: the process is about to end, and the others end with it.
    pub fn end(&self) {
        let idle = std::mem::take(&mut self.own.lock().idle);
        for server in idle {
            self.keep_log(&server.api);
        }
        for common in self.common.lock().values() {
            match common.get() {
                Some(Common::Server(api)) => self.keep_log(api),
                Some(Common::Plane(plane)) => self.keep_log(plane),
                None => (),
            }
        }
    }

    /// For as long as the connection lasts.
    fn lend(&self, connection: &UnixStream) {
        let mut asked = String::new();
        let mut reader = BufReader::new(connection);
        if reader.read_line(&mut asked).is_err() {
            return;
        }
        let answer = |text: String| writeln!(&*connection, "{text}").is_ok();
        match asked.trim_end().split_once(' ') {
            Some((OWN, state)) => match self.take(state) {
                Ok(mut server) => {
                    let lent = self.lend_own(&mut server, state, connection, &mut reader);
                    self.take_back(server, lent);
                }
                Err(why) => drop(answer(json!({"error": why}).to_string())),
            },
            None if asked.trim_end() == CONTROL_PLANE => {
                let start = || ControlPlane::start_with_scheduler().map(Common::Plane);
                self.share(CONTROL_PLANE, start, answer, connection);
            }
            Some((SHARED, purpose)) => {
                let start = || ApiServer::start().map(Common::Server);
                self.share(purpose, start, answer, connection);
            }
            _ => drop(answer(
                json!({"error": format!("nobody lends `{asked}`")}).to_string(),
            )),
        }
    }

    fn share(
        &self,
        name: &str,
        start: impl FnOnce() -> devcluster::error::Result<Common>,
        answer: impl Fn(String) -> bool,
        connection: &UnixStream,
    ) {
        let known = Arc::clone(self.common.lock().entry(name.to_owned()).or_default());
        // Others that ask for it wait here until it runs; where it fails, each of them tries for itself.
        let common = known.get_or_init(|| start().unwrap_or_else(|error| panic!("{error}")));
        let api = match common {
            Common::Server(api) => api,
            Common::Plane(plane) => plane,
        };
        let _ = with_directory(api, answer, connection);
    }

    /// Until the connection ends. A state that is to be made is remembered when the test has made it.
    fn lend_own(
        &self,
        server: &mut Server,
        state: &str,
        mut connection: &UnixStream,
        reader: &mut impl BufRead,
    ) -> Result<(), String> {
        let (_directory, address) = place_for(&server.api)?;
        let is_made = state == NEW || server.is_in(state);
        let first = if is_made { MADE } else { TO_BE_MADE };
        if writeln!(connection, "{address}\n{first}").is_err() {
            // Whoever asked is gone: nothing was done to it.
            return Ok(());
        }
        let mut word = String::new();
        while reader.read_line(&mut word).is_ok_and(|count| count > 0) {
            if word.trim_end() == MADE {
                let made = self.runtime.block_on(Fresh::of(&server.api))?;
                server.state = Some((state.to_owned(), made));
                writeln!(connection, "{MADE}").map_err(said)?;
            }
            word.clear();
        }
        Ok(())
    }

    /// A server in this state, or else one that is as new; waits where all are lent.
    fn take(&self, state: &str) -> Result<Server, String> {
        let mut own = self.own.lock();
        loop {
            if let Some(fits) = own.idle.iter().position(|server| server.is_in(state)) {
                return Ok(own.idle.swap_remove(fits));
            }
            if let Some(new) = own.idle.iter().position(|server| server.state.is_none()) {
                return Ok(own.idle.swap_remove(new));
            }
            if own.started < self.limit {
                break;
            }
            if let Some(server) = own.idle.pop() {
                drop(own);
                return self.renewed(server);
            }
            self.given_back.wait(&mut own);
        }
        own.started += 1;
        drop(own);
        let started = self.start();
        if started.is_err() {
            self.give_up();
        }
        started
    }

    /// A server whose state nobody wants at the moment.
    fn renewed(&self, mut server: Server) -> Result<Server, String> {
        server.state = None;
        let restore = server.fresh.restore(&server.api);
        let Err(why) = self.runtime.block_on(restore) else {
            return Ok(server);
        };
        tell(&format!("a server is given up: {why}"));
        drop(server);
        let started = self.start();
        if started.is_err() {
            self.give_up();
        }
        started
    }

    fn start(&self) -> Result<Server, String> {
        let api = ApiServer::start().map_err(said)?;
        let fresh = self.runtime.block_on(Fresh::of(&api))?;
        Ok(Server {
            api,
            fresh,
            state: None,
        })
    }

    /// A server that cannot be put back as it was is ended: another one is started when it is needed.
    fn take_back(&self, server: Server, lent: Result<(), String>) {
        // What kubectl remembers of the server's kinds.
        let cache = server.api.kubeconfig().with_file_name("cache");
        let _ = fs::remove_dir_all(cache);
        let restored = lent.and_then(|()| {
            let before = server.state.as_ref().map(|(_, state)| state);
            let restore = before.unwrap_or(&server.fresh).restore(&server.api);
            self.runtime.block_on(restore)
        });
        match restored {
            Ok(()) => {
                self.own.lock().idle.push(server);
                self.given_back.notify_one();
            }
            Err(why) => {
                tell(&format!("a server is given up: {why}"));
                self.keep_log(&server.api);
                drop(server);
                self.give_up();
            }
        }
    }

    fn give_up(&self) {
        self.own.lock().started -= 1;
        self.given_back.notify_one();
    }

    fn keep_log(&self, api: &ApiServer) {
        let Some(logs) = &self.logs else { return };
        let address = api.address(PathBuf::new());
        let name = format!("kube-apiserver-{}.log", address.port);
        let _ = fs::create_dir_all(logs);
        let _ = fs::copy(address.place.join("kube-apiserver.log"), logs.join(name));
    }
}

/// A directory for the files of a test, and where the server is, as the test reads it.
fn place_for(api: &ApiServer) -> Result<(TempDir, String), String> {
    let directory = TempDir::new().map_err(said)?;
    let address = api.address(directory.path().to_owned());
    let address = serde_json::to_string(&address).map_err(said)?;
    Ok((directory, address))
}

/// Answers where a server is, and waits for the end of the connection. The directory is the test's until then.
fn with_directory(
    api: &ApiServer,
    answer: impl Fn(String) -> bool,
    mut connection: &UnixStream,
) -> Result<(), String> {
    let (_directory, address) = place_for(api)?;
    if answer(address) {
        // It says nothing more: this returns when it is closed.
        let _ = connection.read(&mut [0]);
    }
    Ok(())
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Who started the pool keeps it in a log.
#[allow(clippy::print_stderr, reason = "a program's only output")]
fn tell(what: &str) {
    eprintln!("{what}");
}
