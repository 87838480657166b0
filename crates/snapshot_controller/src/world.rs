//! The watches.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::core::DeserializeGuard;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use stowage_api::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotClass, VolumeSnapshotContent,
};
use stowage_kubernetes::store::Cached;
use stowage_kubernetes::watch::Watched;
use stowage_service::{Health, Tasks};
use tokio_util::sync::CancellationToken;

use crate::content::Content;
use crate::others::{Claim, Class, NodeLabels, restoring};
use crate::request::{Kind, Request};

/// One watch for each of the two kinds.
pub(crate) struct Both<T> {
    single: Arc<Watched<T>>,
    group: Arc<Watched<T>>,
}

impl<T> Default for Both<T> {
    fn default() -> Self {
        Self {
            single: Arc::default(),
            group: Arc::default(),
        }
    }
}

impl<T> Both<T> {
    pub(crate) fn of(&self, kind: Kind) -> &Arc<Watched<T>> {
        match kind {
            Kind::Single => &self.single,
            Kind::Group => &self.group,
        }
    }
}

/// Everything that is watched.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) requests: Both<Request>,
    pub(crate) contents: Both<Content>,
    pub(crate) classes: Both<Class>,
    pub(crate) claims: Arc<Watched<Claim>>,
    pub(crate) nodes: Arc<Watched<NodeLabels>>,
}

/// Which kinds the server has, or which are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) groups: bool,
    pub(crate) nodes: bool,
}

impl Scope {
    pub(crate) fn kinds(self) -> &'static [Kind] {
        if self.groups {
            &Kind::BOTH
        } else {
            &Kind::BOTH[..1]
        }
    }
}

impl World {
    /// Starts the watches; they end with `stop`. Returns when everything that exists is known.
    pub(crate) async fn follow(
        &self,
        client: &Client,
        scope: Scope,
        (tasks, health): (&Tasks, &Health),
        stop: &CancellationToken,
    ) {
        let watcher = Watcher {
            client,
            tasks,
            health,
            stop,
        };
        watcher.guarded::<VolumeSnapshot, _>(&self.requests.single, Request::read_single);
        watcher.guarded::<VolumeSnapshotContent, _>(&self.contents.single, Content::read_single);
        watcher.guarded::<VolumeSnapshotClass, _>(&self.classes.single, Class::read_single);
        watcher.plain::<PersistentVolumeClaim, _>(&self.claims, Claim::read);
        if scope.groups {
            watcher.guarded::<VolumeGroupSnapshot, _>(&self.requests.group, Request::read_group);
            let contents = &self.contents.group;
            watcher.guarded::<VolumeGroupSnapshotContent, _>(contents, Content::read_group);
            watcher.guarded::<VolumeGroupSnapshotClass, _>(&self.classes.group, Class::read_group);
        }
        if scope.nodes {
            watcher.plain::<Node, _>(&self.nodes, NodeLabels::read);
            self.nodes.synced().await;
        }
        for kind in scope.kinds() {
            self.requests.of(*kind).synced().await;
            self.contents.of(*kind).synced().await;
            self.classes.of(*kind).synced().await;
        }
        self.claims.synced().await;
    }

    /// Whether a volume is being filled from the snapshot of this name.
    pub(crate) fn is_restoring(&self, snapshot: &str) -> bool {
        let waiting = self.claims.store();
        waiting.count_in_group(&restoring(snapshot)) > 0
    }

    /// The name of the group that a single snapshot is a member of.
    pub(crate) fn group_of(&self, request: &Request, content: &Content) -> Option<String> {
        let owner = request.group.as_deref();
        let owner = owner.and_then(|uid| self.requests.group.store().get(uid));
        if let Some(owner) = owner {
            return Some(owner.name.clone());
        }
        let handle = content.state.group.as_ref()?;
        let all = self.contents.group.store().all();
        let group = all
            .iter()
            .find(|group| group.state.handle.as_ref() == Some(handle))?;
        let (_, name) = group.owner.split_once('/')?;
        Some(name.to_owned())
    }
}

struct Watcher<'a> {
    client: &'a Client,
    tasks: &'a Tasks,
    health: &'a Health,
    stop: &'a CancellationToken,
}

impl Watcher<'_> {
    /// Of custom resources one malformed object must not stop the whole watch.
    fn guarded<K, T: Cached>(&self, watched: &Arc<Watched<T>>, read: fn(K) -> Option<T>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let read = move |guard: DeserializeGuard<K>| guard.0.ok().and_then(read);
        self.plain::<DeserializeGuard<K>, _>(watched, read);
    }

    fn plain<W, T: Cached>(
        &self,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> Option<T> + Send + 'static,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let following = Arc::clone(watched);
        let name = format!("watch {}", W::plural(&()));
        let check = self.health.check(name.as_str());
        let task = following.follow(self.client.clone(), read, check, self.stop.clone());
        self.tasks.spawn(name, task);
    }
}
