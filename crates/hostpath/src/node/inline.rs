//! Inline volumes: made when a pod is started and gone when it ends. The kubelet makes up their ids and calls
//! `NodePublishVolume` alone.

use std::path::Path;
use std::sync::Arc;

use stowage_api::quantity;
use stowage_csi::proto::csi::{NodePublishVolumeRequest, NodePublishVolumeResponse};
use stowage_csi::sizes::Range;
use stowage_host::blocking;
use stowage_host::filesystem::FsKind;

use super::stage::{Wanted, mount};
use super::target::{Found, Place};
use crate::capacity::{self, Content};
use crate::device::FILESYSTEM;
use crate::driver::Driver;
use crate::error::Error;
use crate::state::{Area, Image};
use crate::usage::{Access, Usage, UsageError};

/// How the kubelet says that a volume is inline.
const INLINE: &str = "csi.storage.k8s.io/ephemeral";
/// The volume attribute with the size, as a quantity of Kubernetes.
const SIZE: &str = "size";

/// Whether the call is about an inline volume.
pub(super) fn is_inline(request: &NodePublishVolumeRequest) -> bool {
    request.volume_context.get(INLINE).map(String::as_str) == Some("true")
}

/// Makes the volume and mounts it at the target.
pub(super) async fn publish(
    driver: Arc<Driver>,
    request: NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Error> {
    let mut usage = Usage::try_from(&request.volume_capability.unwrap_or_default())?;
    let size = request.volume_context.get(SIZE);
    let size = size.map(|size| quantity::size(size)).transpose();
    let size = size.map_err(Error::EphemeralSize)?;
    let place = Driver::place(&request.volume_id);
    if place.area != Area::Inline {
        return Err(Error::EphemeralId(request.volume_id));
    }
    if usage.access == Access::Block {
        return Err(UsageError::Contradiction("an inline volume and raw block").into());
    }
    if request.readonly {
        usage.mount_flags.push("ro".to_owned());
    }
    let target = Path::new(&request.target_path);
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, kind) = make(&driver, place, size, &usage).await?;
    let read_only = request.readonly || usage.reads_only();
    if let Found::Filesystem { read_only: is } = driver.found_at(target, image.backing()?).await?
        && is != read_only
    {
        return Err(Error::MountedDifferently {
            id: request.volume_id,
            path: target.to_owned(),
            difference: "with a different read-only setting",
        });
    }
    let wanted = Wanted {
        kind,
        formatted: false,
    };
    if let Err(error) = mount(&driver.host, &image, FILESYSTEM, wanted, target, &usage).await {
        give_up(&driver, image, target).await;
        return Err(error);
    }
    Ok(NodePublishVolumeResponse {})
}

/// The image, which is as large as asked for when it is made, and keeps its size from then on.
async fn make(
    driver: &Driver,
    place: Place,
    size: Option<i64>,
    usage: &Usage,
) -> Result<(Image, FsKind), Error> {
    let kind = usage.filesystem.unwrap_or(driver.config.default_filesystem);
    let range = Range {
        required: size.map_or(0, i64::unsigned_abs),
        limit: 0,
    };
    let content = Content {
        access: Access::Filesystem,
        filesystem: kind,
        source_bytes: None,
    };
    let bytes = capacity::choose(range, content, driver.config.max_volume_bytes)?;
    let store = driver.store.clone();
    let made = blocking(move || {
        let image = store.lock_or_make(Area::Inline, &place.key)?;
        if image.bytes()? == 0 {
            image.lengthen(bytes)?;
        }
        Ok::<_, crate::state::StateError>(image)
    });
    Ok((made.await?, kind))
}

/// A volume that could not be mounted is not kept: the pod may never be started again, and nobody would ask for it.
async fn give_up(driver: &Driver, image: Image, target: &Path) {
    let in_use = driver.host.devices(&image).await;
    if in_use.is_ok_and(|devices| devices.is_empty()) {
        let removed = blocking(move || image.discard()).await;
        if let Err(error) = removed {
            tracing::warn!(target = %target.display(), %error, "Cannot remove the image of an inline volume.");
        }
    }
}
