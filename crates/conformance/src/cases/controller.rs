//! What the controller says about itself.

use stowage_csi::proto::csi::{ControllerGetCapabilitiesRequest, GetCapacityRequest};

use super::identity::is_known;
use crate::capability::{ControllerRpc, Need, Service, controller_rpc_of};
use crate::case::{Case, Group};
use crate::check::{Checked, ask, ensure};
use crate::scene::Scene;

pub(super) const CAPABILITIES: Group = Group {
    name: "ControllerGetCapabilities",
    needs: &[Need::Plugin(Service::ControllerService)],
    cases: &[Case::new("lists known capabilities only", |scene| {
        Box::pin(known_capabilities(scene))
    })],
};

pub(super) const CAPACITY: Group = Group {
    name: "GetCapacity",
    needs: &[Need::Controller(ControllerRpc::GetCapacity)],
    cases: &[Case::new("answers without any argument", |scene| {
        Box::pin(capacity_without_arguments(scene))
    })],
};

async fn known_capabilities(scene: &mut Scene) -> Checked {
    let mut controller = scene.driver().controller();
    let call = controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {});
    let answer = ask("ControllerGetCapabilities", call).await.ok()?;
    for capability in answer.capabilities {
        let value = controller_rpc_of(capability).unwrap_or_default();
        ensure(
            is_known(ControllerRpc::try_from(value), ControllerRpc::Unknown),
            "ControllerGetCapabilities",
            "types that the specification knows",
            format!("the type {value}"),
        )?;
    }
    Ok(())
}

async fn capacity_without_arguments(scene: &mut Scene) -> Checked {
    let mut controller = scene.driver().controller();
    let call = controller.get_capacity(GetCapacityRequest::default());
    let available = ask("GetCapacity", call).await.ok()?.available_capacity;
    ensure(
        available >= 0,
        "available_capacity in GetCapacity",
        "zero or more",
        available.to_string(),
    )
}
