//! A volume grows.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use stowage_api::quantity;
use stowage_api::vpsa::{Volume, VolumeType};
use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use stowage_csi::sizes::Range;
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_rest::Deadline;

use super::Services;
use super::create::{describe, is_ready, missing};
use crate::driver::error::Error;
use crate::driver::objects::trouble;
use crate::vsc::error::NO_ROOM;

const GB: u64 = 1 << 30;

/// Asks for the new size, and waits until the array has it. A disk has to be looked at again on its node.
pub(super) async fn expand(
    services: &Services,
    request: ControllerExpandVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerExpandVolumeResponse, Error> {
    let name = &request.volume_id;
    let _guard = services.locks.lock(name)?;
    let volume: Option<Volume> = services.objects.writer.read(name).await?;
    let volume = volume.ok_or_else(|| missing(name))?;
    let range = Range::from(request.capacity_range.as_ref());
    // What it has, and not what was asked for before: somebody may take back what no array has room for.
    let capacity = volume.status.as_ref().and_then(|it| it.capacity.as_ref());
    let has = size(capacity.unwrap_or(&volume.spec.size));
    let bytes = range.required.max(has).div_ceil(GB).saturating_mul(GB);
    if range.limit > 0 && bytes > range.limit {
        return Err(Error::Size(format!(
            "volume `{name}` would have {bytes} bytes, more than the limit of {}",
            range.limit
        )));
    }
    if bytes != size(&volume.spec.size) {
        let size = quantity::text(i64::try_from(bytes).unwrap_or(i64::MAX));
        let patch = ObjectPatch::new().set(["spec", "size"], size.into());
        services.objects.writer.change(&volume, patch).await?;
    }
    let judge = |volume: Option<&Volume>| match volume {
        None => Some(Err(missing(name))),
        Some(volume) if is_ready(volume) => Some(Ok(volume.clone())),
        Some(volume) => {
            let error = trouble(volume, name, "expanded");
            error.map(|error| Err(out_of_range(error)))
        }
    };
    let volume = services
        .objects
        .until(name, "expanded", deadline, judge)
        .await?;
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: describe(services, &volume).capacity_bytes,
        node_expansion_required: volume.spec.volume_type == VolumeType::Block,
    })
}

fn size(quantity: &Quantity) -> u64 {
    quantity::size(&quantity.0).unwrap_or(0).unsigned_abs()
}

/// A size that the array has no room for is one that the volume cannot have: whoever asked may ask for less.
fn out_of_range(error: Error) -> Error {
    match &error {
        Error::Unfinished { word, .. } if word == NO_ROOM => Error::Size(error.to_string()),
        _ => error,
    }
}
