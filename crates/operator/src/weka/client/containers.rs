//! Which containers a client should have. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use stowage_api::weka::{
    ContainerState, DesiredState, UpgradeType, WekaClient, WekaContainer, WekaContainerStatus,
};

use crate::driver::Object;
use crate::weka::cluster::Kept;
use crate::weka::nodes::{Fit, Node, fit};
use crate::weka::render::{self, Placement};
use crate::weka::{join, names};

type Live = Arc<Kept<WekaContainer>>;

/// What a client wants of its containers.
pub(super) struct Wish<'a> {
    pub(super) client: &'a WekaClient,
    pub(super) nodes: &'a [&'a Node],
    /// The driver that they stand beside; empty: none.
    pub(super) driver: &'a str,
    /// Addresses of the target cluster.
    pub(super) join: &'a [String],
}

/// What to do.
pub(super) enum Step {
    /// Make it, or bring it to what is wanted.
    Write(Box<Object>, Option<Live>),
    /// Let it go.
    Delete(Live),
}

/// From what is wanted and what is there to what is to be done.
pub(super) fn steps(wish: &Wish<'_>, there: &[Live]) -> Vec<Step> {
    let mut by_node: BTreeMap<String, &Live> = BTreeMap::new();
    let mut steps = Vec::new();
    for live in there {
        let node = live.object.as_ref().ok().and_then(|it| it.node());
        match node {
            Some(node) if !by_node.contains_key(node) => {
                by_node.insert(node.to_owned(), live);
            }
            // Unreadable, without a node, or a second one on its node.
            _ => steps.extend(deletion(live)),
        }
    }
    let images = images(wish.client, &by_node);
    for node in wish.nodes {
        let live = by_node.remove(&node.name);
        match (fit(&wish.client.spec, node), live) {
            (Fit::Goes, Some(live)) => steps.extend(deletion(live)),
            (Fit::Goes | Fit::Stays, None) => {}
            (Fit::Starts | Fit::Stays, live) => {
                // One that goes is made again when it is gone.
                if !live.is_some_and(is_leaving) {
                    steps.push(write(wish, node, live, &images));
                }
            }
        }
    }
    // Of nodes that are gone.
    steps.extend(by_node.into_values().filter_map(deletion));
    steps
}

/// All of them go, with their client.
pub(super) fn farewell(there: &[Live]) -> Vec<Step> {
    there.iter().filter_map(deletion).collect()
}

fn deletion(live: &Live) -> Option<Step> {
    (!is_leaving(live)).then(|| Step::Delete(Arc::clone(live)))
}

fn is_leaving(live: &Live) -> bool {
    live.raw.metadata.deletion_timestamp.is_some()
}

fn write(
    wish: &Wish<'_>,
    node: &Node,
    live: Option<&Live>,
    images: &BTreeMap<String, String>,
) -> Step {
    let client = wish.client.metadata.name.as_deref().unwrap_or_default();
    let name = match live {
        Some(live) => live.raw.metadata.name.clone().unwrap_or_default(),
        None => names::container(client, &node.name, &node.uid),
    };
    let spec = live.and_then(|live| Some(&live.object.as_ref().ok()?.spec));
    let had = spec.and_then(|spec| spec.join_ip_ports.clone());
    let target = wish.client.spec.target_cluster.as_ref();
    let join = target.map(|_| join::kept(&had.unwrap_or_default(), wish.join));
    let placement = Placement {
        join: &join.unwrap_or_default(),
        name: &name,
        node: &node.name,
        image: images.get(&node.name).unwrap_or(&wish.client.spec.image),
        driver: wish.driver,
        // A person may pause one.
        state: match spec.and_then(|spec| spec.state.clone()) {
            Some(DesiredState::Paused) => DesiredState::Paused,
            _ => DesiredState::Active,
        },
    };
    let object = render::container(wish.client, &placement);
    Step::Write(Box::new(object), live.cloned())
}

/// The image of each container that is there, by node. Only a rolling upgrade tells them apart: the next one gets the new
/// image when all that have it run it.
fn images(client: &WekaClient, by_node: &BTreeMap<String, &Live>) -> BTreeMap<String, String> {
    let new = &client.spec.image;
    let readable = by_node.iter().filter_map(|(node, live)| {
        let container = live.object.as_ref().ok()?;
        Some((node, container))
    });
    if client.spec.upgrade_type() != UpgradeType::Rolling {
        return readable
            .map(|(node, _)| (node.clone(), new.clone()))
            .collect();
    }
    let is_under_way = readable
        .clone()
        .any(|(_, container)| container.spec.image == *new && !runs(container, new));
    let mut may_start = !is_under_way;
    readable
        .map(|(node, container)| {
            let has_it = container.spec.image == *new;
            let starts = !has_it && std::mem::take(&mut may_start);
            let image = if has_it || starts {
                new
            } else {
                &container.spec.image
            };
            (node.clone(), image.clone())
        })
        .collect()
}

/// Whether a container runs this image.
pub(super) fn runs(container: &WekaContainer, image: &str) -> bool {
    let runs = |status: &WekaContainerStatus| {
        status.last_applied_image == image && status.status == ContainerState::Running
    };
    container.status.as_ref().is_some_and(runs)
}
