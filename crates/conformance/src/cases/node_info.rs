//! What the node says about itself.

use stowage_csi::proto::csi::{NodeGetCapabilitiesRequest, NodeGetInfoRequest};

use super::identity::is_known;
use crate::capability::{Need, NodeRpc, Service, node_rpc_of};
use crate::case::{Case, Group};
use crate::check::{Checked, ask, ensure, filled};
use crate::scene::Scene;

const LONGEST_NODE_ID: usize = 256;

pub(super) const CAPABILITIES: Group = Group {
    name: "NodeGetCapabilities",
    needs: &[],
    cases: &[Case::new("lists known capabilities only", |scene| {
        Box::pin(known_capabilities(scene))
    })],
};

pub(super) const INFO: Group = Group {
    name: "NodeGetInfo",
    needs: &[],
    cases: &[Case::new(
        "gives a valid node id, limit and topology",
        |scene| Box::pin(node_info(scene)),
    )],
};

async fn known_capabilities(scene: &mut Scene) -> Checked {
    let mut node = scene.driver().node();
    let call = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
    let answer = ask("NodeGetCapabilities", call).await.ok()?;
    for capability in answer.capabilities {
        let value = node_rpc_of(capability).unwrap_or_default();
        ensure(
            is_known(NodeRpc::try_from(value), NodeRpc::Unknown),
            "NodeGetCapabilities",
            "types that the specification knows",
            format!("the type {value}"),
        )?;
    }
    Ok(())
}

async fn node_info(scene: &mut Scene) -> Checked {
    let mut node = scene.driver().node();
    let call = node.node_get_info(NodeGetInfoRequest {});
    let info = ask("NodeGetInfo", call).await.ok()?;
    filled("node_id in NodeGetInfo", "node_id", &info.node_id)?;
    ensure(
        info.node_id.len() <= LONGEST_NODE_ID,
        "node_id in NodeGetInfo",
        format!("at most {LONGEST_NODE_ID} bytes"),
        format!("{} bytes", info.node_id.len()),
    )?;
    ensure(
        info.max_volumes_per_node >= 0,
        "max_volumes_per_node in NodeGetInfo",
        "zero or more",
        info.max_volumes_per_node.to_string(),
    )?;
    if scene.has(Need::Plugin(Service::VolumeAccessibilityConstraints))? {
        ensure(
            info.accessible_topology.is_some(),
            "accessible_topology in NodeGetInfo of a driver with VOLUME_ACCESSIBILITY_CONSTRAINTS",
            "a topology",
            "none",
        )?;
    }
    Ok(())
}
