//! The driver itself: what it is told, what can be read from it, and what every call goes through.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use stowage_csi::check::{Check, Rules};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::locks::VolumeLocks;
use stowage_csi::proto::METHODS;
use stowage_csi::proto::csi::controller_server::ControllerServer;
use stowage_csi::proto::csi::group_controller_server::GroupControllerServer;
use stowage_csi::proto::csi::identity_server::IdentityServer;
use stowage_csi::proto::csi::node_server::NodeServer;
use stowage_csi::server::{Socket, SocketError};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::calls::Calls;
use super::fault::Faults;
use super::mishap::Mishaps;
use super::profile::needed;
use super::room::Rooms;
use super::serving::Wire;
use super::state::State;
use super::{
    Access, Fault, KeptSnapshot, KeptVolume, Mishap, Profile, Publication, Room, Services, Serving,
};

/// A driver in memory. Clones are the same driver.
#[derive(Clone)]
pub struct MemoryDriver {
    inner: Arc<Inner>,
}

struct Inner {
    profile: Profile,
    rules: Rules<'static>,
    state: Mutex<State>,
    rooms: Mutex<Rooms>,
    faults: Mutex<Faults>,
    mishaps: Mishaps,
    calls: Calls,
    locks: VolumeLocks,
    life: CancellationToken,
}

impl Default for MemoryDriver {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

impl MemoryDriver {
    /// A driver that has nothing yet.
    pub fn new(profile: Profile) -> Self {
        Self::with_state(profile, State::default())
    }

    /// A driver that has what it had when the same directory was last used. Without being served it only reads.
    pub fn open(profile: Profile, directory: &Path) -> io::Result<Self> {
        Ok(Self::with_state(profile, State::read(directory)?))
    }

    fn with_state(profile: Profile, state: State) -> Self {
        let inner = Inner {
            rules: profile.rules(),
            profile,
            state: Mutex::new(state),
            rooms: Mutex::default(),
            faults: Mutex::default(),
            mishaps: Mishaps::default(),
            calls: Calls::default(),
            locks: VolumeLocks::default(),
            life: CancellationToken::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Serves all of it at `endpoint`.
    pub fn serve(&self, endpoint: &Endpoint) -> Result<Serving, SocketError> {
        self.serve_only(endpoint, Services::All)
    }

    /// Serves some of it. A driver may have several sockets.
    pub fn serve_only(
        &self,
        endpoint: &Endpoint,
        services: Services,
    ) -> Result<Serving, SocketError> {
        let mut routes = Routes::new(IdentityServer::new(self.clone()));
        if services != Services::Node {
            routes = routes
                .add_service(ControllerServer::new(self.clone()))
                .add_service(GroupControllerServer::new(self.clone()));
        }
        if services != Services::Controller {
            routes = routes.add_service(NodeServer::new(self.clone()));
        }
        let end = self.inner.life.child_token();
        Ok(Serving::start(Socket::bind(endpoint)?, routes, end))
    }
}

/// What a test reads.
impl MemoryDriver {
    /// All volumes, by id.
    pub fn volumes(&self) -> Vec<KeptVolume> {
        self.state().volumes.values().cloned().collect()
    }

    /// The volume that was made under this name.
    pub fn volume(&self, name: &str) -> Option<KeptVolume> {
        self.state().named(name).cloned()
    }

    /// All snapshots, by id.
    pub fn snapshots(&self) -> Vec<KeptSnapshot> {
        self.state().snapshots.values().cloned().collect()
    }

    /// What is published where, by volume.
    pub fn publications(&self) -> Vec<Publication> {
        self.state().publications.values().cloned().collect()
    }

    /// Ids of volumes that were deleted, oldest first.
    pub fn deleted_volumes(&self) -> Vec<String> {
        self.state().deleted_volumes.clone()
    }

    /// Snapshots that were deleted, oldest first; those of groups are not remembered.
    pub fn deleted_snapshots(&self) -> Vec<KeptSnapshot> {
        self.state().deleted_snapshots.clone()
    }

    /// In which ways volumes were published on the node.
    pub fn accesses(&self) -> Vec<Access> {
        self.state().seen.iter().copied().collect()
    }

    /// Everything that a caller has not taken down again, one line each.
    pub fn left(&self) -> Vec<String> {
        self.state().left()
    }

    /// How often an RPC was called, named as in the specification.
    pub fn calls(&self, rpc: &str) -> u64 {
        self.all_calls().get(rpc_named(rpc)).copied().unwrap_or(0)
    }

    /// How often each RPC was called.
    pub fn all_calls(&self) -> BTreeMap<&'static str, u64> {
        self.inner.calls.counts()
    }

    /// The most calls of an RPC that were under way together.
    pub fn most_at_once(&self, rpc: &str) -> u64 {
        self.inner.calls.most_at_once(rpc_named(rpc))
    }

    /// The last requests of this type, oldest first; refused ones too.
    pub fn requests<Q: Clone + 'static>(&self) -> Vec<Q> {
        self.inner.calls.requests()
    }

    /// The last request of this type.
    pub fn last_request<Q: Clone + 'static>(&self) -> Option<Q> {
        self.requests().pop()
    }
}

/// What a test changes.
impl MemoryDriver {
    /// Breaks a promise until [`mend`](Self::mend).
    pub fn set(&self, fault: Fault) {
        self.inner.faults.lock().set(fault);
    }

    /// Keeps all promises from now on, and lets nothing happen to calls that start now.
    pub fn mend(&self) {
        *self.inner.faults.lock() = Faults::default();
        self.inner.mishaps.clear();
    }

    /// Lets something happen to calls of one RPC, named as in the specification. Several add up.
    pub fn upset(&self, rpc: &str, mishap: Mishap) {
        self.inner.mishaps.add(Some(rpc_named(rpc)), mishap);
    }

    /// Lets something happen to calls of every RPC.
    pub fn upset_all(&self, mishap: Mishap) {
        self.inner.mishaps.add(None, mishap);
    }

    /// Sets how much space there is where all of `segments` apply; none means everywhere.
    pub fn set_room<'a>(&self, segments: impl IntoIterator<Item = (&'a str, &'a str)>, room: Room) {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let segments = segments.into_iter().map(owned).collect();
        self.inner.rooms.lock().set(segments, room);
    }

    /// Takes a volume away behind everybody's back.
    pub fn lose_volume(&self, id: &str) {
        let forgotten = self.state().forget_volume(id);
        forgotten.expect("a journal that can be written");
    }
}

/// What the services use.
impl MemoryDriver {
    pub(super) fn profile(&self) -> &Profile {
        &self.inner.profile
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    pub(super) fn rooms(&self) -> Rooms {
        self.inner.rooms.lock().clone()
    }

    pub(super) fn faults(&self) -> Faults {
        self.inner.faults.lock().clone()
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.inner.faults.lock().has(fault)
    }

    /// Ends all sockets for good.
    pub(super) fn die(&self) {
        self.inner.life.cancel();
    }

    /// What every call goes through: it is counted, and what was set happens before and after `act`.
    pub(super) async fn call<Q, A>(
        &self,
        rpc: &'static str,
        request: Request<Q>,
        act: impl FnOnce(Q) -> Result<A, Status> + Send,
    ) -> Result<Response<A>, Status>
    where
        Q: Clone + Send + 'static,
        A: Send,
    {
        let wire = request.extensions().get::<Wire>().cloned();
        let disconnect = || {
            if let Some(wire) = &wire {
                wire.cut();
            }
        };
        let request = request.into_inner();
        let _under_way = self.inner.calls.begin(rpc, &request);
        let lot = self.inner.mishaps.draw(rpc);
        for trouble in lot.before {
            trouble.strike(disconnect).await?;
        }
        if self.has(Fault::Fails(rpc)) {
            return Err(Status::internal("broken on purpose"));
        }
        let answer = act(request);
        for trouble in lot.after {
            trouble.strike(disconnect).await?;
        }
        answer.map(Response::new)
    }

    /// The same for a call with arguments, which are checked.
    pub(super) async fn answer<Q, A>(
        &self,
        rpc: &'static str,
        request: Request<Q>,
        act: impl FnOnce(&mut State, Q) -> Result<A, Status> + Send,
    ) -> Result<Response<A>, Status>
    where
        Q: Check + Clone + Send + 'static,
        A: Default + Send,
    {
        let act = |request: Q| {
            let answer = self
                .check(rpc, &request)
                .and_then(|()| act(&mut self.state(), request));
            match answer {
                Err(_) if self.has(Fault::Accepts(rpc)) => Ok(A::default()),
                Err(_) if self.has(Fault::Miscodes(rpc)) => Err(Status::internal("no reason")),
                answer => answer,
            }
        };
        self.call(rpc, request, act).await
    }

    /// The same for a call that nothing else may interfere with: `key` is locked while it lasts.
    pub(super) async fn answer_alone<Q, A>(
        &self,
        rpc: &'static str,
        key: String,
        request: Request<Q>,
        act: impl FnOnce(&mut State, Q) -> Result<A, Status> + Send,
    ) -> Result<Response<A>, Status>
    where
        Q: Check + Clone + Send + 'static,
        A: Default + Send,
    {
        let lock = self.inner.locks.lock(&key);
        let act = |state: &mut State, request| {
            if let Err(busy) = &lock {
                return Err(Status::aborted(busy.to_string()));
            }
            act(state, request)
        };
        self.answer(rpc, request, act).await
    }

    fn check<Q: Check>(&self, rpc: &str, request: &Q) -> Result<(), Status> {
        if needed(rpc).is_some_and(|needed| !self.profile().can(needed)) {
            return Err(Status::unimplemented("this driver does not do that"));
        }
        let mut rules = self.inner.rules;
        // Ids that were given must be taken back, however long a fault made them.
        rules.id_bytes = rules.id_bytes.max(self.state().longest_id);
        Ok(request.check(&rules)?)
    }
}

/// The name itself, if the specification has such an RPC: a test with a misspelt name must not pass.
pub(super) fn rpc_named(rpc: &str) -> &'static str {
    find_rpc(rpc).unwrap_or_else(|| panic!("there is no RPC `{rpc}`"))
}

pub(super) fn find_rpc(rpc: &str) -> Option<&'static str> {
    let mut names = METHODS.iter().filter_map(|path| path.rsplit('/').next());
    names.find(|name| *name == rpc)
}
