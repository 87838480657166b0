//! RPCs that only look.

use std::collections::HashSet;
use std::path::Path;

use stowage_csi::proto::csi::controller_get_volume_response::VolumeStatus as GotStatus;
use stowage_csi::proto::csi::list_volumes_response::{Entry, VolumeStatus};
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, GetCapacityRequest,
    GetCapacityResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume,
    VolumeCapability, VolumeCondition,
};
use stowage_csi::sizes::signed;

use crate::driver::volume::{Existing, Recorded};
use crate::driver::{Driver, existing_handle};
use crate::error::{Error, chain};
use crate::handle::{Handle, Origin};
use crate::quota::Size;
use crate::rest::wire::{Filesystem, Quota, QuotaStatus};
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
            id: handle.to_string(),
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
async fn known(driver: &Driver, deadline: Deadline) -> Result<Vec<Api>, Error> {
    let legacy = legacy(driver, deadline)?;
    let mut seen = HashSet::new();
    let mut clusters = Vec::new();
    for api in [vec![legacy], driver.clusters.in_use(deadline)].concat() {
        let organization = api.client().credentials.organization.clone();
        if seen.insert((api.facts().await?.guid.clone(), organization)) {
            clusters.push(api);
        }
    }
    Ok(clusters)
}

/// All volumes with a quota on every cluster that the driver knows, in the order of their handles; the token is the last
/// handle of the page before. A cluster that does not answer fails the call: its volumes are not gone.
pub(super) async fn list(
    driver: &Driver,
    request: ListVolumesRequest,
    deadline: Deadline,
) -> Result<ListVolumesResponse, Error> {
    let clusters = known(driver, deadline).await?;
    if !request.starting_token.is_empty() && Handle::parse(&request.starting_token).is_err() {
        return Err(Error::BadToken);
    }
    let mut all = Vec::new();
    for api in clusters {
        for filesystem in api.filesystems().await? {
            for quota in api.quotas(&filesystem).await? {
                all.extend(volume(driver, &filesystem, &quota).map(|volume| (volume, quota)));
            }
        }
    }
    all.sort_by(|(one, _), (other, _)| one.volume_id.cmp(&other.volume_id));
    // A handle does not say on which of the clusters it is.
    all.dedup_by(|(one, _), (other, _)| one.volume_id == other.volume_id);
    all.retain(|(volume, _)| volume.volume_id > request.starting_token);
    let most = usize::try_from(request.max_entries)
        .ok()
        .filter(|&most| most > 0);
    let more = most.is_some_and(|most| all.len() > most);
    all.truncate(most.unwrap_or(all.len()));
    let last = all.last().map(|(volume, _)| volume.volume_id.clone());
    Ok(ListVolumesResponse {
        next_token: last.filter(|_| more).unwrap_or_default(),
        entries: all
            .into_iter()
            .map(|(volume, quota)| entry(volume, &quota))
            .collect(),
    })
}

fn entry(volume: Volume, quota: &Quota) -> Entry {
    Entry {
        volume: Some(volume),
        status: Some(VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(Some(quota))),
        }),
    }
}

/// The volume that a quota stands for, if it is one of ours.
fn volume(driver: &Driver, filesystem: &Filesystem, quota: &Quota) -> Option<Volume> {
    let path = quota.path.as_deref().or(quota.full_path.as_deref())?;
    // Some releases put the filesystem's name in front.
    let path = path
        .strip_prefix(&format!("{}:", filesystem.name))
        .unwrap_or(path)
        .trim_matches('/');
    let parent = Path::new(path).parent()?.to_str()?;
    if parent != driver.config.dynamic_path {
        return None;
    }
    let separator = if parent.is_empty() { "/" } else { "" };
    let handle = Handle::parse(&format!("dir/v1/{}/{separator}{path}", filesystem.name)).ok()?;
    (handle.origin(&driver.config.dynamic_path) == Origin::Dynamic).then(|| Volume {
        capacity_bytes: signed(Size::from(quota.limits()).bytes),
        volume_id: handle.to_string(),
        accessible_topology: topology::of_volume(&driver.config.serving.driver_name, None),
        ..Volume::default()
    })
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
        status: Some(GotStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(quota)),
        }),
    })
}

/// A volume on any of the clusters. It is missing only where a filesystem of its name is there without it.
async fn find(driver: &Driver, handle: &Handle, deadline: Deadline) -> Result<Existing, Error> {
    let mut reason = None;
    for api in known(driver, deadline).await? {
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
    Err(reason.unwrap_or(Error::NoCredentials))
}

fn condition(quota: Option<&Quota>) -> VolumeCondition {
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

/// What is left of the class's filesystem, or of the largest one.
pub(super) async fn capacity(
    driver: &Driver,
    request: GetCapacityRequest,
    deadline: Deadline,
) -> Result<GetCapacityResponse, Error> {
    let api = legacy(driver, deadline)?;
    let available = match request.parameters.get("filesystemName") {
        Some(name) => {
            let found = api.filesystem(name).await?;
            found
                .ok_or_else(|| Error::FilesystemMissing(name.clone()))?
                .available_total
        }
        None => {
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
