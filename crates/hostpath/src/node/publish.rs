//! `NodePublishVolume`: once per pod.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_csi::proto::csi::{NodePublishVolumeRequest, NodePublishVolumeResponse};
use stowage_host::loopdev::{LoopDevice, LoopOptions};
use stowage_host::mount::{Bind, BindSource, ensure_bind};

use super::target::Found;
use crate::controller::check_access;
use crate::device;
use crate::driver::Driver;
use crate::error::Error;
use crate::state::Image;
use crate::usage::{Access, Usage};

/// What a pod is to get, and where.
struct Publication {
    id: String,
    staging: PathBuf,
    target: PathBuf,
    usage: Usage,
    read_only: bool,
}

/// Shows a staged volume at the target of one pod.
pub(super) async fn publish(
    driver: Arc<Driver>,
    request: NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Error> {
    let usage = Usage::try_from(&request.volume_capability.unwrap_or_default())?;
    let publication = Publication {
        read_only: request.readonly || usage.reads_only(),
        id: request.volume_id,
        staging: request.staging_target_path.into(),
        target: request.target_path.into(),
        usage,
    };
    let _guard = driver.locks.lock(&publication.id)?;
    let (image, record) = driver.claim_volume(&publication.id).await?;
    check_access(&record, &publication.usage)?;
    check_staged(&driver, &image, &publication).await?;
    if is_published(&driver, &image, &publication).await? {
        return Ok(NodePublishVolumeResponse {});
    }
    check_single_writer(&driver, &image, &publication).await?;
    match publication.usage.access {
        Access::Filesystem => bind(&driver, &publication, &publication.staging).await?,
        Access::Block => {
            let device = device_for(&driver, &image, &publication, record.direct_io).await?;
            bind(&driver, &publication, device.path()).await?;
        }
    }
    Ok(NodePublishVolumeResponse {})
}

async fn check_staged(driver: &Driver, image: &Image, wanted: &Publication) -> Result<(), Error> {
    let staged = match wanted.usage.access {
        Access::Block => !driver.host.devices(image).await?.is_empty(),
        Access::Filesystem => {
            let found = driver.found_at(&wanted.staging, image.backing()?).await?;
            matches!(found, Found::Filesystem { .. })
        }
    };
    if staged {
        return Ok(());
    }
    Err(Error::NotStaged {
        id: wanted.id.clone(),
        path: wanted.staging.clone(),
    })
}

/// Whether it is there already; an error if it is so in another way.
async fn is_published(driver: &Driver, image: &Image, wanted: &Publication) -> Result<bool, Error> {
    match driver.found_at(&wanted.target, image.backing()?).await? {
        // A mount of somebody else is found by the bind, which also clears a dead one away.
        Found::Nothing | Found::Foreign => Ok(false),
        Found::Filesystem { read_only } | Found::Device { read_only, .. } => {
            if read_only == wanted.read_only {
                return Ok(true);
            }
            Err(Error::MountedDifferently {
                id: wanted.id.clone(),
                path: wanted.target.clone(),
                difference: "with a different read-only setting",
            })
        }
    }
}

/// A volume for a single writer is at one target only.
async fn check_single_writer(
    driver: &Driver,
    image: &Image,
    wanted: &Publication,
) -> Result<(), Error> {
    if !wanted.usage.single_writer() {
        return Ok(());
    }
    let mounter = &driver.host.mounter;
    // By the names that the table has them under.
    let staging = mounter.look(&wanted.staging).await?.point;
    let view = mounter.look(&wanted.target).await?;
    let except = [staging.as_path(), view.point.as_path()];
    let others = driver.other_targets(&view, image.backing()?, &except).await;
    match others.into_iter().next() {
        Some(path) => Err(Error::SecondWriter {
            id: wanted.id.clone(),
            path,
        }),
        None => Ok(()),
    }
}

async fn bind(driver: &Driver, wanted: &Publication, source: &Path) -> Result<(), Error> {
    let bind = Bind {
        source: BindSource::Path(source.to_owned()),
        target: wanted.target.clone(),
        // For a device this says nothing, but it looks right to people.
        read_only: wanted.read_only,
    };
    ensure_bind(&*driver.host.mounter, &bind).await?;
    Ok(())
}

async fn device_for(
    driver: &Driver,
    image: &Image,
    wanted: &Publication,
    direct_io: bool,
) -> Result<LoopDevice, Error> {
    let options = if wanted.read_only {
        device::READ_ONLY_BLOCK
    } else {
        device::BLOCK
    };
    let options = LoopOptions {
        direct_io,
        ..options
    };
    driver.host.attach(image, options).await
}
