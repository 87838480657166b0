//! The watches.

use std::sync::Arc;

use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT_V1};
use stowage_kubernetes::reading::guarded;
use stowage_kubernetes::watch::{Watched, Watcher};
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
pub(crate) struct Cluster {
    pub(crate) requests: Both<Request>,
    pub(crate) contents: Both<Content>,
    pub(crate) classes: Both<Class>,
    pub(crate) claims: Arc<Watched<Claim>>,
    pub(crate) nodes: Arc<Watched<NodeLabels>>,
}

/// Which kinds the server has, or which are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// The version of groups.
    pub(crate) groups: Option<&'static str>,
    pub(crate) nodes: bool,
}

impl Scope {
    /// Group and version of requests, contents and classes.
    pub(crate) fn version(self, kind: Kind) -> &'static str {
        match kind {
            Kind::Single => SNAPSHOT_V1,
            Kind::Group => self.groups.unwrap_or(GROUP_SNAPSHOT.versions[0]),
        }
    }

    pub(crate) fn kinds(self) -> &'static [Kind] {
        if self.groups.is_some() {
            &Kind::BOTH
        } else {
            &Kind::BOTH[..1]
        }
    }
}

impl Cluster {
    /// Starts the watches; they end with `stop`. Returns when everything that exists is known.
    pub(crate) async fn follow(&self, watcher: &Watcher, scope: Scope, stop: &CancellationToken) {
        let (requests, contents, classes) = (&self.requests, &self.contents, &self.classes);
        watcher.follow(&requests.single, guarded(Request::read_single), stop);
        watcher.follow(&contents.single, guarded(Content::read_single), stop);
        watcher.follow(&classes.single, guarded(Class::read_single), stop);
        watcher.follow(&self.claims, Claim::read, stop);
        if scope.groups.is_some() {
            let at = scope.groups;
            watcher.follow_at(at, &requests.group, guarded(Request::read_group), stop);
            watcher.follow_at(at, &contents.group, guarded(Content::read_group), stop);
            watcher.follow_at(at, &classes.group, guarded(Class::read_group), stop);
        }
        if scope.nodes {
            watcher.follow(&self.nodes, NodeLabels::read, stop);
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
