//! RPCs that only look.

use std::collections::HashSet;

use stowage_csi::proto::csi::controller_get_volume_response::VolumeStatus;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, GetCapacityRequest,
    GetCapacityResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    Volume, VolumeCapability, VolumeCondition,
};
use stowage_csi::sizes::signed;

use crate::driver::volume::{Existing, Recorded};
use crate::driver::{Driver, existing_handle};
use crate::error::{Error, chain};
use crate::handle::Handle;
use crate::rest::wire::{Quota, QuotaStatus};
use crate::rest::{Api, Deadline};
use crate::topology;

/// Refuses raw block volumes.
pub(crate) fn check_mounts<'a>(
    capabilities: impl IntoIterator<Item = &'a VolumeCapability>,
) -> Result<(), Error> {
    let is_block = |capability: &VolumeCapability| {
        matches!(capability.access_type, Some(AccessType::Block(_)))
    };
    if capabilities.into_iter().any(is_block) {
        return Err(Error::Block);
    }
    Ok(())
}

pub(super) async fn validate(
    driver: &Driver,
    request: ValidateVolumeCapabilitiesRequest,
    deadline: Deadline,
) -> Result<ValidateVolumeCapabilitiesResponse, Error> {
    let handle = existing_handle(&request.volume_id)?;
    let filesystem = driver
        .filesystem(&request.secrets, handle.filesystem(), deadline)
        .await;
    let filesystem = filesystem.map_err(|error| hidden(error, &handle))?;
    driver
        .required(&filesystem, &handle, None, deadline)
        .await?;
    let refused = check_mounts(&request.volume_capabilities).err();
    Ok(request.answered(refused.map(|error| chain(&error))))
}

/// A volume whose filesystem the secret does not show may be well, in another organization or on another cluster.
pub(super) fn hidden(error: Error, handle: &Handle) -> Error {
    match error {
        Error::FilesystemMissing(filesystem) => Error::FilesystemHidden {
            filesystem,
            kind: "volume",
            id: handle.to_string(),
            remedy: "delete the PersistentVolume by hand",
        },
        error => error,
    }
}

/// The cluster of the legacy secret.
fn legacy(driver: &Driver, deadline: Deadline) -> Result<Api, Error> {
    driver
        .clusters
        .of_legacy_secret(deadline)?
        .ok_or(Error::NoCredentials)
}

/// Every cluster that the driver knows: of the legacy secret, and of the secrets of calls since it started.
pub(super) async fn known(driver: &Driver, deadline: Deadline) -> Result<Vec<Api>, Error> {
    let legacy = driver.clusters.of_legacy_secret(deadline)?;
    if legacy.is_none() && driver.inventory.is_none() {
        return Err(Error::NoCredentials);
    }
    let mut seen = HashSet::new();
    let mut clusters = Vec::new();
    for api in legacy.into_iter().chain(driver.clusters.in_use(deadline)) {
        let organization = api.client().credentials.organization.clone();
        if seen.insert((api.facts().await?.guid.clone(), organization)) {
            clusters.push(api);
        }
    }
    Ok(clusters)
}

/// The clusters that may have a volume. Where Kubernetes has it, it says by which secret.
async fn clusters_of(
    driver: &Driver,
    handle: &Handle,
    deadline: Deadline,
) -> Result<Vec<Api>, Error> {
    let mut clusters = Vec::new();
    if let Some(inventory) = &driver.inventory {
        for volume in inventory.with_handle(handle.as_str()) {
            let secret = volume.secret.as_ref();
            let api = driver
                .cluster_of_secret(inventory, secret, deadline)
                .await?;
            clusters.extend(api);
        }
    }
    if clusters.is_empty() {
        clusters = known(driver, deadline).await?;
    }
    Ok(clusters)
}

pub(super) async fn get(
    driver: &Driver,
    request: ControllerGetVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerGetVolumeResponse, Error> {
    let handle = existing_handle(&request.volume_id)?;
    let existing = find(driver, &handle, deadline).await?;
    let quota = match &existing.recorded {
        Recorded::Quota(quota) => Some(quota),
        _ => None,
    };
    Ok(ControllerGetVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: signed(existing.size().map_or(0, |size| size.bytes)),
            volume_id: request.volume_id,
            accessible_topology: topology::of_volume(&driver.config.serving.driver_name, None),
            ..Volume::default()
        }),
        status: Some(VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(quota)),
        }),
    })
}

/// A volume on any of the clusters. It is missing only where a filesystem of its name is there without it.
async fn find(driver: &Driver, handle: &Handle, deadline: Deadline) -> Result<Existing, Error> {
    let mut reason = None;
    for api in clusters_of(driver, handle, deadline).await? {
        let filesystem = driver.filesystem_of(Some(api), handle.filesystem()).await;
        let found = match filesystem {
            Ok(filesystem) => driver.required(&filesystem, handle, None, deadline).await,
            Err(error) => Err(hidden(error, handle)),
        };
        match found {
            Ok(existing) => return Ok(existing),
            Err(Error::FilesystemHidden { .. }) if reason.is_some() => {}
            Err(error @ (Error::FilesystemHidden { .. } | Error::VolumeMissing(_))) => {
                reason = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(reason.unwrap_or_else(|| Error::VolumeMissing(handle.to_string())))
}

pub(super) fn condition(quota: Option<&Quota>) -> VolumeCondition {
    let (abnormal, message) = match quota.map(|quota| quota.status) {
        Some(QuotaStatus::Active) => (false, "the volume is healthy"),
        Some(QuotaStatus::Adding | QuotaStatus::Unknown) => (false, "the quota is being added"),
        Some(QuotaStatus::Error | QuotaStatus::Deleting) => (true, "the quota is not enforced"),
        None => (false, "the volume has no quota"),
    };
    VolumeCondition {
        abnormal,
        message: message.to_owned(),
    }
}

/// What is left for a volume of the class: of its filesystem, of the cluster for new filesystems, or of the largest
/// filesystem.
pub(super) async fn capacity(
    driver: &Driver,
    request: GetCapacityRequest,
    deadline: Deadline,
) -> Result<GetCapacityResponse, Error> {
    let api = legacy(driver, deadline)?;
    let given = |name: &str| request.parameters.get(name).filter(|it| !it.is_empty());
    let available = match (given("filesystemName"), given("filesystemGroupName")) {
        (Some(name), _) => {
            let found = api.filesystem(name).await?;
            found
                .ok_or_else(|| Error::FilesystemMissing(name.clone()))?
                .available_total
        }
        (None, Some(_)) => api.unprovisioned().await?,
        (None, None) => {
            let all = api.filesystems().await?;
            all.iter()
                .map(|filesystem| filesystem.available_total)
                .max()
                .unwrap_or(0)
        }
    };
    Ok(GetCapacityResponse {
        available_capacity: signed(available),
        ..GetCapacityResponse::default()
    })
}
