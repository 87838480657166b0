//! Makes volumes for claims and deletes them again: what upstream's external-provisioner does.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | from a claim to an [`Intent`](crate::intent::Intent): all that can be wrong is found here |
//! | [`parameters`], [`templates`], [`topology`], [`source`] | the parts of the plan |
//! | [`object`] | from an intent to the call and the object; checks the driver's answer |
//! | [`create`] | carries an intent out, whatever happens in between |
//! | [`limits`] | how many claims are worked on at a time, and why |
//! | [`delete`] | deletes released volumes, guards the objects of the others |
//! | [`protection`] | keeps claims and snapshots while they are copied |
//! | [`own_node`] | whether this node takes a claim that any node may take |
//! | [`scope`] | whether this process works for the whole cluster, or for one node |
//! | [`gone_nodes`] | the journals of nodes that are gone |
//! | [`selected_node`] | the node that a volume is made for, written on the claim |
//! | [`metrics`] | what is counted |

mod create;
mod delete;
mod gone_nodes;
mod limits;
mod metrics;
mod object;
mod own_node;
mod parameters;
mod plan;
mod protection;
mod scope;
mod selected_node;
mod source;
mod templates;
mod topology;

use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt as _;
use stowage_kubernetes::queue::{Key, Queue};
use stowage_kubernetes::store::{Cached, Change};
use stowage_kubernetes::watch::Watched;
use tokio_util::sync::CancellationToken;

use self::create::Provisioner;
use self::delete::Deleter;
use self::limits::Limits;
use self::metrics::ProvisionMetrics;
use self::selected_node::jitter;
use crate::args::Settings;
use crate::attributes_class::wake_waiting;
use crate::cluster::Kinds;
use crate::cluster::claim::{Claim, Original};
use crate::driver::Capabilities;
use crate::role::{Context, Role, sanitised};
pub(crate) use scope::Scope;
pub(crate) use topology::Accessibility;

/// The provisioner's part.
pub(crate) const ROLE: Role = Role {
    name: "provisioning",
    lease: |driver| sanitised(driver),
    needs,
    run: |context, stop| run(context, stop).boxed(),
};

fn needs(driver: Capabilities, settings: &Settings) -> Option<Kinds> {
    let topology = driver.volume_accessibility_constraints() && settings.own_node.is_none();
    (driver.controller_service() && driver.create_delete_volume()).then_some(Kinds {
        attachments: driver.publish_unpublish(),
        csi_nodes: topology,
        nodes: topology,
        attributes_classes: driver.modify_volume(),
        csi_drivers: true,
        ..Kinds::default()
    })
}

/// Provisions and deletes until `stop`.
async fn run(context: Context, stop: CancellationToken) {
    let Some(scope) = Scope::find(&context, &stop).await else {
        return;
    };
    let metrics = ProvisionMetrics::register(&context.metrics);
    let queue = |name| {
        let make = |registry: &mut _| Queue::new(name, context.settings.provision.retry, registry);
        context.metrics.with_registry(make)
    };
    let (claims, volumes, originals) = (queue("claims"), queue("volumes"), queue("originals"));
    let workers = context.settings.provision.workers;
    let limits = Limits::new(workers, &claims);
    let provisioner = provisioner(&context, &scope, metrics.clone(), limits, &stop);
    let deleter = Arc::new(Deleter::new(context.clone(), metrics, scope));

    listen_to_claims(&context, &provisioner, &claims, &originals);
    listen_to_classes(&context, &claims);
    listen_to_the_end(&context, &claims);
    wake_waiting(&context.cluster, &claims, waits_for_volume, &stop);
    listen_to_volumes(&context, &provisioner, &claims, &volumes);
    listen_to_nodes(&context.cluster.nodes, &provisioner, &claims);
    listen_to_nodes(&context.cluster.csi_nodes, &provisioner, &claims);
    let freed = volumes.clone();
    context.cluster.attachments.listen(move |change| {
        if let Change::Gone(attachment) = change
            && let Some(volume) = &attachment.volume
        {
            freed.add(volume.as_str());
        }
    });

    let making = async {
        if !is_journal_open(&context, &stop).await {
            return;
        }
        // What a predecessor left half done: some of it has no claim any more.
        for intent in context.journal.all() {
            claims.add(intent.claim.uid);
        }
        let work = |uid: Key| {
            let provisioner = Arc::clone(&provisioner);
            async move { provisioner.work(&uid).await }
        };
        claims.run(limits::width(workers), stop.clone(), work).await;
    };
    let deleting = volumes.run(workers, stop.clone(), |name| {
        let deleter = Arc::clone(&deleter);
        async move { deleter.work(&name).await }
    });
    let releasing = async {
        protection::find_kept_snapshots(&context, &originals).await;
        let release = |key: Key| {
            let context = context.clone();
            async move { protection::release(context, &key).await }
        };
        originals.run(1, stop.clone(), release).await;
    };
    let sweeping = gone_nodes::watch(context.clone(), stop.clone());
    tokio::join!(making, deleting, releasing, sweeping);
}

/// Waits for the journal. False: asked to stop. Volumes are deleted meanwhile.
async fn is_journal_open(context: &Context, stop: &CancellationToken) -> bool {
    let opened = stop.run_until_cancelled(context.journal.opened()).await;
    opened.is_some()
}

/// Carries out what the journal holds and nothing else; returns when it is empty, or when a person has to decide about
/// all that is left: how many those are.
pub(crate) async fn resolve(context: Context, stop: CancellationToken) -> usize {
    let Some(scope) = Scope::find(&context, &stop).await else {
        return 0;
    };
    let metrics = ProvisionMetrics::register(&context.metrics);
    let make = |registry: &mut _| Queue::new("claims", context.settings.provision.retry, registry);
    let claims = context.metrics.with_registry(make);
    let workers = context.settings.provision.workers;
    let limits = Limits::without_new(workers);
    let provisioner = provisioner(&context, &scope, metrics, limits, &stop);
    for intent in context.journal.all() {
        claims.add(intent.claim.uid);
    }
    let done = stop.child_token();
    let working = claims.run(workers, done.clone(), |uid| {
        let provisioner = Arc::clone(&provisioner);
        let (journal, done) = (context.journal.clone(), done.clone());
        async move {
            let verdict = Arc::clone(&provisioner).work(&uid).await;
            if provisioner.held() == journal.all().len() {
                done.cancel();
            }
            verdict
        }
    });
    if !context.journal.is_empty() {
        working.await;
    }
    provisioner.held()
}

fn provisioner(
    context: &Context,
    scope: &Scope,
    metrics: ProvisionMetrics,
    limits: Limits,
    stop: &CancellationToken,
) -> Arc<Provisioner> {
    let identity = identity(context.driver.name().as_str());
    Arc::new(Provisioner::new(
        context.clone(),
        scope,
        identity,
        metrics,
        limits,
        stop.clone(),
    ))
}

fn listen_to_claims(
    context: &Context,
    provisioner: &Arc<Provisioner>,
    claims: &Queue,
    originals: &Queue,
) {
    let delays = context
        .settings
        .own_node
        .as_ref()
        .and_then(|own| own.immediate);
    let (provisioner, claims, originals) =
        (Arc::clone(provisioner), claims.clone(), originals.clone());
    context.cluster.claims.listen(move |change| match change {
        // Our own events and the binder's writes are no reason to try again earlier.
        Change::Set {
            old: Some(old),
            new,
        } if old == new => {}
        Change::Set { old, new } => {
            release_sources(old.as_deref(), Some(new), &originals);
            if !provisioner.wants(new) {
                return;
            }
            match (delays, &new.selected_node) {
                // For a copy it depends on where its original is.
                (Some(delays), None) if new.source.is_none() => {
                    claims.add_after(new.uid.as_str(), jitter(delays));
                }
                _ => claims.add(new.uid.as_str()),
            }
        }
        Change::Gone(last) => {
            provisioner.forget(&last.uid);
            release_sources(Some(last), None, &originals);
            if last.ours {
                // There may be an intent whose volume nobody wants any more.
                claims.add(last.uid.as_str());
            }
        }
    });
}

/// A claim that waits for deletion because it is copied, or the last copy of one: somebody may go.
fn release_sources(old: Option<&Claim>, new: Option<&Claim>, originals: &Queue) {
    if let Some(new) = new
        && new.deleting
        && new.cloning_protected
    {
        let own = Original::Claim {
            namespace: &new.namespace,
            name: &new.name,
        };
        originals.add(own.to_string());
    }
    let (before, after) = (old.and_then(Claim::group), new.and_then(Claim::group));
    if before != after
        && let Some(source) = before
    {
        originals.add(source);
    }
}

/// A class that came or changed may help claims that wait.
fn listen_to_classes(context: &Context, claims: &Queue) {
    let (all, claims) = (Arc::clone(&context.cluster.claims), claims.clone());
    context.cluster.classes.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        if old.as_ref() == Some(new) {
            return;
        }
        for claim in all.store().all() {
            if waits_for_volume(&claim) && claim.class.as_deref() == Some(&new.name) {
                claims.add(claim.uid.as_str());
            }
        }
    });
}

/// A driver that is no longer being uninstalled has been deployed again.
fn listen_to_the_end(context: &Context, claims: &Queue) {
    let (all, claims) = (Arc::clone(&context.cluster.claims), claims.clone());
    context.cluster.uninstalling.listen(move |change| {
        if let Change::Gone(_) = change {
            for claim in all.store().all().iter().filter(|it| waits_for_volume(it)) {
                claims.add(claim.uid.as_str());
            }
        }
    });
}

fn waits_for_volume(claim: &Claim) -> bool {
    claim.ours && claim.volume.is_none() && !claim.deleting
}

/// A node that came or changed may help claims that have no place yet.
fn listen_to_nodes<T: Cached + PartialEq>(
    nodes: &Watched<T>,
    provisioner: &Arc<Provisioner>,
    claims: &Queue,
) {
    let (provisioner, claims) = (Arc::clone(provisioner), claims.clone());
    nodes.listen(move |change| match change {
        Change::Set {
            old: Some(old),
            new,
        } if old == new => {}
        Change::Set { .. } => {
            for uid in provisioner.take_waiting_for_nodes() {
                claims.add(uid);
            }
        }
        Change::Gone(_) => {}
    });
}

fn listen_to_volumes(
    context: &Context,
    provisioner: &Arc<Provisioner>,
    claims: &Queue,
    volumes: &Queue,
) {
    let (provisioner, claims, volumes) = (Arc::clone(provisioner), claims.clone(), volumes.clone());
    context.cluster.volumes.listen(move |change| match change {
        Change::Set {
            old: Some(old),
            new,
        } if old == new => {}
        Change::Set { new, .. } => {
            if let Some(claim) = &new.claim {
                provisioner.seen(&claim.uid);
            }
            volumes.add(new.name.as_str());
        }
        // Its claim, if it still waits, needs another one.
        Change::Gone(last) => {
            volumes.add(last.name.as_str());
            if let Some(claim) = &last.claim {
                provisioner.seen(&claim.uid);
                claims.add(claim.uid.as_str());
            }
        }
    });
}

/// Time, a random number and the driver, as upstream's provisioner calls itself.
fn identity(driver: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let milliseconds = now.unwrap_or_default().as_millis();
    let random = fastrand::u32(..10_000);
    format!("{milliseconds}-{random}-{driver}")
}
