//! Who the driver is.

use stowage_csi::name::{DriverName, LONGEST};
use stowage_csi::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginInfoRequest, ProbeRequest, plugin_capability,
};

use crate::capability::{Expansion, Service};
use crate::case::{Case, Group};
use crate::check::{Checked, ask, ensure, filled};
use crate::scene::Scene;

pub(super) const IDENTITY: Group = Group {
    name: "Identity",
    needs: &[],
    cases: &[
        Case::new(
            "GetPluginCapabilities lists known capabilities only",
            |scene| Box::pin(known_capabilities(scene)),
        ),
        Case::new("Probe answers OK", |scene| Box::pin(probe(scene))),
        Case::new("GetPluginInfo gives a valid name", |scene| {
            Box::pin(plugin_name(scene))
        }),
    ],
};

async fn known_capabilities(scene: &mut Scene) -> Checked {
    for (place, mut identity) in scene.driver().identities() {
        let call = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {});
        let answer = ask("GetPluginCapabilities", call).await.when(place).ok()?;
        for capability in answer.capabilities {
            let (known, got) = match &capability.r#type {
                Some(plugin_capability::Type::Service(service)) => (
                    is_known(Service::try_from(service.r#type), Service::Unknown),
                    format!("the service type {}", service.r#type),
                ),
                Some(plugin_capability::Type::VolumeExpansion(expansion)) => (
                    is_known(Expansion::try_from(expansion.r#type), Expansion::Unknown),
                    format!("the expansion type {}", expansion.r#type),
                ),
                None => (false, "a capability without a type".to_owned()),
            };
            ensure(
                known,
                format!("GetPluginCapabilities{place}"),
                "types that the specification knows",
                got,
            )?;
        }
    }
    Ok(())
}

/// A value of an enum that means something.
pub(super) fn is_known<T: PartialEq + Copy, E>(value: Result<T, E>, unknown: T) -> bool {
    value.is_ok_and(|value| value != unknown)
}

/// Any value of `ready` will do: the run has waited for a true one before.
async fn probe(scene: &mut Scene) -> Checked {
    for (place, mut identity) in scene.driver().identities() {
        let answer = ask("Probe", identity.probe(ProbeRequest {})).await;
        answer.when(place).ok()?;
    }
    Ok(())
}

async fn plugin_name(scene: &mut Scene) -> Checked {
    for (place, mut identity) in scene.driver().identities() {
        let call = identity.get_plugin_info(GetPluginInfoRequest {});
        let name = ask("GetPluginInfo", call).await.when(place).ok()?.name;
        let check = format!("name in GetPluginInfo{place}");
        filled(&check, "name", &name)?;
        ensure(
            name.len() <= LONGEST,
            &check,
            format!("at most {LONGEST} characters"),
            format!("`{name}` with {}", name.len()),
        )?;
        ensure(
            name.parse::<DriverName>().is_ok(),
            &check,
            "letters, digits, dots and dashes, with a letter or a digit at both ends",
            format!("`{name}`"),
        )?;
    }
    Ok(())
}
