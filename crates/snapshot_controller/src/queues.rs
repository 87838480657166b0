//! The queues between the watches and the work: which change is work for whom.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use stowage_kubernetes::queue::{Backoff, Queue};
use stowage_kubernetes::store::Change;
use stowage_service::Metrics;

use crate::cluster::{Cluster, Scope};
use crate::content::Content;
use crate::finish;
use crate::others::Claim;
use crate::request::{Kind, Request, by};

/// Where work waits. Requests by uid, contents by name, claims by namespace and name.
#[derive(Clone)]
pub(crate) struct Queues {
    requests: [Queue; 2],
    contents: [Queue; 2],
    pub(crate) claims: Queue,
}

impl Queues {
    pub(crate) fn new(backoff: Backoff, metrics: &Metrics) -> Self {
        let queue = |name| {
            let make = |registry: &mut Registry| Queue::new(name, backoff, registry);
            metrics.with_registry(make)
        };
        Self {
            requests: [
                queue("snapshot-controller-snapshot"),
                queue("snapshot-controller-groupsnapshot"),
            ],
            contents: [
                queue("snapshot-controller-content"),
                queue("snapshot-controller-groupsnapshotcontent"),
            ],
            claims: queue("snapshot-controller-claims"),
        }
    }

    pub(crate) fn requests(&self, kind: Kind) -> &Queue {
        &self.requests[kind as usize]
    }

    pub(crate) fn contents(&self, kind: Kind) -> &Queue {
        &self.contents[kind as usize]
    }

    /// Adds what changes, from now on.
    pub(crate) fn listen(&self, cluster: &Arc<Cluster>, scope: Scope) {
        for kind in scope.kinds() {
            listen_to_requests(cluster, self, *kind);
            listen_to_contents(cluster, self, *kind);
            listen_to_classes(cluster, self, *kind);
        }
        listen_to_claims(cluster, self);
    }
}

fn listen_to_requests(cluster: &Arc<Cluster>, queues: &Queues, kind: Kind) {
    let (all, queues) = (Arc::clone(cluster), queues.clone());
    cluster.requests.of(kind).listen(move |change| {
        let own = queues.requests(kind);
        match change {
            Change::Set { old, new } => {
                if old.as_ref().is_none_or(|old| new.is_news(old)) {
                    own.add(new.uid.as_str());
                }
                if old.is_none() && kind == Kind::Group {
                    wake_members(&all, &queues, new);
                }
                if new.is_ready() && !old.as_ref().is_some_and(|old| old.is_ready()) {
                    new.claim()
                        .inspect(|claim| queues.claims.add(claim.as_str()));
                }
            }
            Change::Gone(last) => {
                own.add(last.uid.as_str());
                last.claim()
                    .inspect(|claim| queues.claims.add(claim.as_str()));
                match kind {
                    // Its members may go now.
                    Kind::Group => wake_members(&all, &queues, last),
                    // A group may have waited for it.
                    Kind::Single => {
                        let groups = all.requests.of(Kind::Group).store().all();
                        for group in groups.iter().filter(|group| group.deleting) {
                            queues.requests(Kind::Group).add(group.uid.as_str());
                        }
                    }
                }
            }
        }
    });
}

fn wake_members(all: &Cluster, queues: &Queues, group: &Request) {
    for member in all.members(group) {
        queues.requests(Kind::Single).add(member.uid.as_str());
    }
}

fn listen_to_contents(cluster: &Arc<Cluster>, queues: &Queues, kind: Kind) {
    let (all, queues) = (Arc::clone(cluster), queues.clone());
    cluster.contents.of(kind).listen(move |change| {
        if let Change::Set {
            old: Some(old),
            new,
        } = change
            && old == new
        {
            return;
        }
        let content = change.object();
        if let Change::Set { new, .. } = change
            && finish::is_unfinished(new)
        {
            queues.contents(kind).add(new.name.as_str());
        }
        let wake_owner = |kind: Kind, content: &Content| {
            let requests = all.requests.of(kind).store();
            for request in requests.in_group(&by::name(&content.owner)) {
                queues.requests(kind).add(request.uid.as_str());
            }
        };
        wake_owner(kind, content);
        // Whose members the snapshots are that name this group is known only now.
        if let (Kind::Group, Some(handle)) = (kind, &content.state.handle) {
            let members = all.contents.of(Kind::Single).store();
            for member in members.in_group(&by::group_handle(handle)) {
                wake_owner(Kind::Single, &member);
            }
        }
    });
}

/// A class that came or changed may help requests that wait.
fn listen_to_classes(cluster: &Arc<Cluster>, queues: &Queues, kind: Kind) {
    let (all, queue) = (Arc::clone(cluster), queues.requests(kind).clone());
    cluster.classes.of(kind).listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        if old.as_ref() == Some(new) {
            return;
        }
        for request in all.requests.of(kind).store().all() {
            let named = request.class.as_ref().is_none_or(|name| *name == new.name);
            if named && request.status.bound.is_none() {
                queue.add(request.uid.as_str());
            }
        }
    });
}

/// A claim that is bound may be what a snapshot waits for; one that is filled no longer needs its snapshot.
fn listen_to_claims(cluster: &Arc<Cluster>, queues: &Queues) {
    let (all, queues) = (Arc::clone(cluster), queues.clone());
    cluster.claims.listen(move |change| {
        let requests = all.requests.of(Kind::Single).store();
        let add = |group: String| {
            for request in requests.in_group(&group) {
                queues.requests(Kind::Single).add(request.uid.as_str());
                // It may be the last member that a group waited for.
                if let Some(group) = &request.group {
                    queues.requests(Kind::Group).add(group.as_str());
                }
            }
        };
        let (old, new) = match change {
            Change::Set { old, new } => (old.as_ref(), Some(new)),
            Change::Gone(last) => (Some(last), None),
        };
        let bound = |claim: Option<&Arc<Claim>>| claim.map(|claim| claim.bound);
        if bound(old) != bound(new) {
            add(by::claim(&change.object().full_name));
        }
        if let Some(new) = new.filter(|new| new.protected) {
            queues.claims.add(new.full_name.as_str());
        }
        let before = old.and_then(|claim| claim.restores.as_ref());
        if before != new.and_then(|claim| claim.restores.as_ref())
            && let Some(snapshot) = before
        {
            add(by::name(snapshot));
        }
    });
}
