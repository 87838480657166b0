//! Begins with further nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Error;
use stowage_api::driver_deployment::{DrainStatus, DrainingNode};

use super::choice::{Choice, Placed, by_node, not_serving};
use super::update::{ASK_AGAIN, ASK_SELDOM, AT_ONCE, Update};
use super::{Drained, look, told};

/// Up to so many nodes are asked for one by one.
const FEW: usize = 16;

impl Update<'_> {
    /// Adds nodes to the status, as far as the limit admits. They are touched when that is written.
    pub(super) async fn begin(
        &self,
        drained: &mut Drained,
        status: &mut DrainStatus,
        pods: &[Placed],
    ) -> Result<(), Error> {
        let busy: Vec<_> = status.nodes.iter().map(|it| it.name.clone()).collect();
        let nodes = by_node(pods);
        let limit = self.subject.rules.limit.of(self.total);
        if busy.len() >= limit {
            return Ok(());
        }
        let not_serving = not_serving(&nodes);
        let lost = self.lost(&not_serving).await?;
        let mut choice = Choice::of(&nodes, &busy, &lost, self.total, limit);
        for candidate in choice.nodes.clone() {
            if !choice.admits(candidate) {
                // Those that follow cost more. Nodes that are lost meanwhile no longer count.
                drained.without = choice.without();
                let are_few = not_serving.len() <= FEW;
                drained.look_again_in(if are_few { ASK_AGAIN } else { ASK_SELDOM });
                break;
            }
            let name = candidate.name;
            if lost.contains(name) || !self.lost(&[name]).await?.is_empty() {
                drained.unready.push(name.to_owned());
                drained.look_again_in(ASK_SELDOM);
                continue;
            }
            choice.begin(candidate);
            status.nodes.push(begun(name, self.subject.now()));
            drained.news.push(told::begun(name));
            drained.look_again_in(AT_ONCE);
        }
        Ok(())
    }

    /// Those of these nodes that are not ready, or gone.
    async fn lost(&self, nodes: &[&str]) -> Result<BTreeSet<String>, Error> {
        if nodes.len() > FEW {
            let ready = look::ready_nodes(self.subject.client).await?;
            let lost = nodes.iter().filter(|it| !ready.contains(**it));
            return Ok(lost.map(|it| (*it).to_owned()).collect());
        }
        let mut lost = BTreeSet::new();
        for name in nodes {
            let node = look::node(self.subject.client, name).await?;
            if !node.as_ref().is_some_and(look::is_ready_node) {
                lost.insert((*name).to_owned());
            }
        }
        Ok(lost)
    }
}

/// A node that is begun with.
fn begun(name: &str, now: Timestamp) -> DrainingNode {
    DrainingNode {
        name: name.to_owned(),
        since: Time(now),
        waiting_for: None,
        unused_since: None,
        replaced_since: None,
        mounts: None,
    }
}
