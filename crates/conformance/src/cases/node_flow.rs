//! A volume's whole way to a pod.

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;

use crate::capability::{ControllerRpc, Need, NodeRpc, Service};
use crate::case::{Case, Group};
use crate::check::{Checked, ensure};
use crate::scene::{Flow, Scene};

pub(super) const FLOW: Group = Group {
    name: "Node flow",
    needs: &[
        Need::Plugin(Service::ControllerService),
        Need::Controller(ControllerRpc::CreateDeleteVolume),
    ],
    cases: &[
        Case::new(
            "creates, attaches, stages, publishes and measures a volume",
            |scene| Box::pin(flow(scene)),
        ),
        Case::new(
            "gives the same answers when every node call is repeated",
            |scene| Box::pin(repeated_flow(scene)),
        ),
    ],
};

/// The clean-up goes the way back, and fails the case if it cannot.
async fn flow(scene: &mut Scene) -> Checked {
    let flow = scene.published().await?;
    measure(scene, &flow).await
}

async fn repeated_flow(scene: &mut Scene) -> Checked {
    let flow = scene.attached(Mode::SingleNodeWriter).await?;
    let times = scene.options().repeat;
    for _ in 0..times {
        scene.stage(&flow).await?;
    }
    for _ in 0..times {
        scene.node_publish(flow.publish_request()).await.ok()?;
    }
    measure(scene, &flow).await
}

async fn measure(scene: &Scene, flow: &Flow) -> Checked {
    if !scene.has(Need::Node(NodeRpc::GetVolumeStats))? {
        return Ok(());
    }
    let volume_id = &flow.volume.volume_id;
    let stats = scene.node_stats(volume_id, &flow.target).await.ok()?;
    ensure(
        !stats.usage.is_empty(),
        "usage in NodeGetVolumeStats",
        "at least one entry",
        "none",
    )
}
