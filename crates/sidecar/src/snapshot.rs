//! Takes snapshots and deletes them, single ones and groups: what upstream's csi-snapshotter does.
//!
//! | file | holds |
//! |---|---|
//! | [`step`] | the decision: what to do for a content, from the content alone |
//! | [`parameters`] | the parameters of a class, read once |
//! | [`calls`] | the calls to the driver, for both kinds of content, and what its answers become |
//! | [`worker`] | one attempt: calls the driver, writes the content |
//! | [`write`], [`failure`] | patches and answers of the API server; errors as they are shown |
//!
//! VolumeSnapshots themselves are the business of the cluster-wide controller; contents are where the two meet.
//! Annotations, finalizers and the order of writes are upstream's: either may take over from the other at any point.
//! A content says that a call may be under way before the call is made. Whoever finds that mark makes the same call
//! again to learn what became of it, and until there is an answer the content is not deleted.

mod calls;
mod failure;
mod parameters;
mod step;
mod worker;
mod write;

use std::sync::Arc;

use futures::FutureExt as _;
use stowage_api::snapshot::names::SNAPSHOT_V1;
use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::Change;
use stowage_kubernetes::watch::Watched;
use tokio_util::sync::CancellationToken;

use self::step::{Step, is_news, next_step};
use self::worker::Worker;
use crate::args::Settings;
use crate::arrival;
use crate::cluster::Kinds;
use crate::cluster::content::{Content, Kind, SnapshotClass};
use crate::driver::Capabilities;
use crate::role::{Context, Role, sanitised};

/// The snapshotter's part.
pub(crate) const ROLE: Role = Role {
    name: "snapshots",
    lease: |driver| sanitised(&format!("external-snapshotter-leader-{driver}")),
    needs,
    run: |context, stop| run(context, stop).boxed(),
};

fn needs(driver: Capabilities, _: &Settings) -> Option<Kinds> {
    (driver.controller_service() && driver.create_delete_snapshot()).then_some(Kinds {
        snapshots: true,
        group_snapshots: driver.group_controller_service() && driver.group_snapshot(),
        ..Kinds::default()
    })
}

async fn run(context: Context, stop: CancellationToken) {
    let needs = needs(context.driver.capabilities(), &context.settings);
    let groups = async {
        if !needs.is_some_and(|kinds| kinds.group_snapshots) {
            return;
        }
        let mut version = context.server.group_snapshots;
        if version.is_none() {
            version = arrival::wait(&context, arrival::GROUPS, &stop).await;
        }
        if let Some(version) = version {
            run_kind(&context, Kind::Group, version, &stop).await;
        }
    };
    let single = run_kind(&context, Kind::Single, SNAPSHOT_V1, &stop);
    tokio::join!(single, groups);
}

async fn run_kind(context: &Context, kind: Kind, version: &'static str, stop: &CancellationToken) {
    let cluster = &context.cluster;
    let (name, contents, classes) = match kind {
        Kind::Single => (
            "csi-snapshotter-content",
            &cluster.contents,
            &cluster.snapshot_classes,
        ),
        Kind::Group => (
            "csi-snapshotter-groupsnapshotcontent",
            &cluster.group_contents,
            &cluster.group_classes,
        ),
    };
    let make = |registry: &mut _| Queue::new(name, context.settings.snapshots.retry, registry);
    let queue = context.metrics.with_registry(make);
    let own_node = context.settings.own_node.as_ref();
    let own = OwnContents(own_node.map(|node| node.name.clone()));
    listen_to_contents(contents, &queue, own.clone());
    listen_to_classes(classes, contents, &queue, own);
    let worker = Arc::new(Worker::new(context, kind, version));
    let workers = context.settings.snapshots.workers;
    let work = |key| Arc::clone(&worker).work(key);
    queue.run(workers, stop.clone(), work).await;
}

/// Whose contents are ours: with a sidecar on every node, those of this node.
#[derive(Clone)]
struct OwnContents(Option<String>);

impl OwnContents {
    fn include(&self, content: &Content) -> bool {
        self.0.is_none() || self.0 == content.node
    }
}

fn listen_to_contents(contents: &Watched<Content>, queue: &Queue, own: OwnContents) {
    let queue = queue.clone();
    contents.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        // Most contents are ready for years: a look at each costs nothing, a place in the queue does.
        let news = old.as_ref().is_none_or(|old| is_news(old, new));
        if news && own.include(new) && next_step(new) != Step::Rest {
            queue.add(new.name.as_str());
        }
    });
}

/// A class that came or changed may help contents that wait.
fn listen_to_classes(
    classes: &Watched<SnapshotClass>,
    contents: &Arc<Watched<Content>>,
    queue: &Queue,
    own: OwnContents,
) {
    let (all, queue) = (Arc::clone(contents), queue.clone());
    classes.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        if old.as_ref() == Some(new) {
            return;
        }
        for content in all.store().all() {
            let waits = content.class.as_deref() == Some(&new.name) && own.include(&content);
            if waits && content.state.error.is_some() && next_step(&content) != Step::Rest {
                queue.add(content.name.as_str());
            }
        }
    });
}
