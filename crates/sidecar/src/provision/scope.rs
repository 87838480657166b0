//! Which part of the cluster this process works for: all of it, or one node.

use std::time::Duration;

use stowage_csi::proto::csi::NodeGetInfoRequest;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use tokio_util::sync::CancellationToken;

use crate::cluster::volume::Volume;
use crate::driver_call;
use crate::intent::Segment;
use crate::role::Context;

/// Between two questions to a driver that does not report the topology of its node.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(1),
};

/// Where this process makes and deletes volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everywhere.
    Cluster,
    /// On its own node, with a controller on every node. `None`: the driver reports no topology.
    Node(Option<Segment>),
}

impl Scope {
    /// Asks the driver where its node is, where that matters. `None`: asked to stop.
    pub(crate) async fn find(context: &Context, stop: &CancellationToken) -> Option<Self> {
        if context.settings.own_node.is_none() {
            return Some(Self::Cluster);
        }
        let ask = || async {
            let mut node = NodeClient::new(context.driver.connection());
            let answer = node.node_get_info(NodeGetInfoRequest {}).await;
            let answer = answer.map_err(|status| driver_call::status(&status))?;
            let topology = answer.into_inner().accessible_topology;
            Ok(Self::Node(topology.map(|topology| topology.segments)))
        };
        let tell = |reason: &str| {
            tracing::warn!(
                reason,
                "The driver does not report the topology of its node; asking again."
            );
        };
        patiently(stop, PAUSES, ask, tell).await
    }

    /// Whether a volume is ours. One that may be anywhere is nobody's in particular, and deleted by whichever node is
    /// first.
    pub(crate) fn has(&self, volume: &Volume) -> bool {
        let Self::Node(Some(segment)) = self else {
            return true;
        };
        let affinity = volume.affinity.as_ref();
        affinity.is_none_or(|affinity| affinity.includes(segment))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::wire::WireVolume;

    fn volume(affinity: &serde_json::Value) -> Volume {
        let wire = json!({
            "metadata": {"name": "pvc-1", "uid": "u"},
            "spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "nodeAffinity": affinity},
        });
        let wire: WireVolume = serde_json::from_value(wire).unwrap();
        Volume::read(wire, "d").unwrap()
    }

    fn on_host(host: &str) -> Volume {
        let expression = json!({"key": "host", "operator": "In", "values": [host]});
        let terms = json!([{"matchExpressions": [expression]}]);
        volume(&json!({"required": {"nodeSelectorTerms": terms}}))
    }

    #[test]
    fn a_node_has_what_is_on_it_and_what_may_be_anywhere() {
        let segment = Segment::from([("host".to_owned(), "a".to_owned())]);
        let here = Scope::Node(Some(segment));
        assert!(here.has(&on_host("a")));
        assert!(!here.has(&on_host("b")));
        assert!(here.has(&volume(&json!(null))));
        assert!(Scope::Node(None).has(&on_host("b")));
        assert!(Scope::Cluster.has(&on_host("b")));
    }
}
