//! Questions about volumes: list, get, validate, capacity.

use stowage_csi::proto::csi::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, GetCapacityRequest,
    GetCapacityResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume, VolumeCondition,
    controller_get_volume_response, list_volumes_response,
};
use stowage_csi::sizes::signed;
use stowage_host::blocking;
use stowage_host::usage::{abnormal, healthy};

use super::create::describe;
use super::expand::check_access;
use crate::driver::Driver;
use crate::error::{Error, chain};
use crate::id::{Id, Key, Kind};
use crate::state::{Area, StateError, VolumeRecord};
use crate::topology;
use crate::usage::{Access, Usage, common_form};

/// All volumes, those included whose state is damaged: they are there, and somebody has to see to them.
pub(super) async fn list_volumes(
    driver: &Driver,
    request: ListVolumesRequest,
) -> Result<ListVolumesResponse, Error> {
    let after = token(&request.starting_token)?;
    let most = usize::try_from(request.max_entries).unwrap_or(0);
    let (store, danger) = (driver.store.clone(), driver.danger.clone());
    let page = blocking(move || {
        let page = store.page::<VolumeRecord>(after.as_ref(), most, |_| true)?;
        let entries = page.entries.into_iter().map(|(key, read)| {
            let condition = condition(&store, &key, read.as_ref(), danger.as_deref());
            (key, read.ok(), condition)
        });
        Ok::<_, StateError>((entries.collect::<Vec<_>>(), page.next))
    });
    let (entries, next) = page.await?;
    let entries = entries.into_iter().map(|(key, record, condition)| {
        let volume = match &record {
            Some(record) => describe(driver, record),
            None => damaged(driver, &key),
        };
        list_volumes_response::Entry {
            volume: Some(volume),
            status: Some(list_volumes_response::VolumeStatus {
                published_node_ids: record.as_ref().map(published).unwrap_or_default(),
                volume_condition: Some(condition),
            }),
        }
    });
    Ok(ListVolumesResponse {
        entries: entries.collect(),
        next_token: next.map(|key| key.to_string()).unwrap_or_default(),
    })
}

/// One volume.
pub(super) async fn get_volume(
    driver: &Driver,
    request: ControllerGetVolumeRequest,
) -> Result<ControllerGetVolumeResponse, Error> {
    let record = driver.volume(&request.volume_id).await?;
    let (store, asked) = (driver.store.clone(), record.clone());
    let (key, danger) = (Key::of_name(&record.name), driver.danger.clone());
    let condition = blocking(move || condition(&store, &key, Ok(&asked), danger.as_deref())).await;
    Ok(ControllerGetVolumeResponse {
        volume: Some(describe(driver, &record)),
        status: Some(controller_get_volume_response::VolumeStatus {
            published_node_ids: published(&record),
            volume_condition: Some(condition),
        }),
    })
}

/// Whether a volume can be used in all of these ways.
pub(super) async fn validate(
    driver: &Driver,
    request: ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, Error> {
    let record = driver.volume(&request.volume_id).await?;
    let refused = request.volume_capabilities.iter().find_map(|capability| {
        let usage = Usage::try_from(capability);
        usage.and_then(|usage| check_access(&record, &usage)).err()
    });
    Ok(request.answered(refused.map(|error| chain(&error))))
}

/// How large a volume can be made now.
pub(super) async fn get_capacity(
    driver: &Driver,
    request: GetCapacityRequest,
) -> Result<GetCapacityResponse, Error> {
    let (access, filesystem) = common_form(&request.volume_capabilities)?;
    let place = request.accessible_topology.as_ref();
    let reachable = place.is_none_or(|place| topology::includes(&driver.config, place));
    let available = if reachable {
        driver.available().await?
    } else {
        0
    };
    let minimum = match access {
        Access::Filesystem => filesystem
            .unwrap_or(driver.config.default_filesystem)
            .minimum_bytes(),
        Access::Block => 0,
    };
    Ok(GetCapacityResponse {
        available_capacity: signed(available),
        maximum_volume_size: Some(signed(available.min(driver.config.max_volume_bytes))),
        minimum_volume_size: Some(signed(minimum)),
    })
}

impl Driver {
    /// What the disk has free, or what may still be promised if that is less.
    async fn available(&self) -> Result<u64, Error> {
        let free = self.host.stats.usage(self.store.root()).await?;
        let free = free.bytes.available;
        Ok(self.ledger.left().map_or(free, |left| left.min(free)))
    }

    /// Images are sparse, so all of them together may promise more than there is. One alone must not: it could never
    /// be filled.
    pub(super) async fn check_space(&self, wanted: u64) -> Result<(), Error> {
        let available = self.available().await?;
        if wanted > available {
            return Err(Error::NoCapacity { wanted, available });
        }
        Ok(())
    }
}

/// The key after which a page starts.
pub(super) fn token(text: &str) -> Result<Option<Key>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    Key::parse(text).map(Some).ok_or(Error::BadToken)
}

fn published(record: &VolumeRecord) -> Vec<String> {
    record.attached.keys().map(ToString::to_string).collect()
}

fn condition(
    store: &crate::state::Store,
    key: &Key,
    read: Result<&VolumeRecord, &StateError>,
    danger: Option<&str>,
) -> VolumeCondition {
    let lost = StateError::ImageLost {
        path: store.image_path(Area::Volumes, key),
    };
    let trouble = match read {
        Err(error) => Some(chain(error)),
        Ok(record) if !store.is_whole(Area::Volumes, key, record.bytes) => Some(chain(&lost)),
        Ok(_) => danger.map(str::to_owned),
    };
    trouble.map_or_else(healthy, abnormal)
}

/// A volume of which nothing but its key is known.
fn damaged(driver: &Driver, key: &Key) -> Volume {
    let id = Id {
        kind: Kind::Volume,
        key: key.clone(),
        node: driver.config.node.clone(),
    };
    Volume {
        volume_id: id.to_string(),
        ..Volume::default()
    }
}
