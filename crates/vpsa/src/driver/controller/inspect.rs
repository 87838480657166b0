//! RPCs that only look.

use std::sync::Arc;

use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_api::vpsa::{
    CapacityMode, Segments, Volume, VolumeSpec, VolumeType, Vpsa, VpsaState, VscStorageClass,
};
use stowage_csi::proto::csi::controller_get_volume_response::VolumeStatus as GotStatus;
use stowage_csi::proto::csi::list_volumes_response::{Entry, VolumeStatus};
use stowage_csi::proto::csi::{
    ControllerGetVolumeResponse, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest,
    ListVolumesResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeCondition,
};

use super::create::{describe, missing};
use super::{Services, page};
use crate::driver::error::Error;
use crate::driver::parameters::Parameters;
use crate::driver::usage;
use crate::vsc::class::is_sick;
use crate::vsc::cluster::{Kept, of_volume};
use crate::vsc::condition;
use crate::vsc::topology::{is_reached, places};

impl Services {
    /// The class of this name, or the default one.
    pub(super) fn class(&self, name: Option<&str>) -> Result<VscStorageClass, Error> {
        let classes = self.objects.cluster.classes.store();
        if let Some(name) = name {
            let class = classes.get(name).ok_or_else(|| {
                Error::Usage(format!(
                    "VSCStorageClass `{name}` does not exist: create it"
                ))
            })?;
            return Ok(class.object.clone());
        }
        let is_default = |it: &Arc<Kept<VscStorageClass>>| it.object.spec.is_default == Some(true);
        let all = classes.all();
        let mut defaults = all.iter().filter(|it| is_default(it));
        match (defaults.next(), defaults.next()) {
            (Some(only), None) => Ok(only.object.clone()),
            (None, _) => Err(Error::Precondition(
                "no VSCStorageClass is the default: name one in `VSCStorageClassName` of the StorageClass, or set \
                 `isDefault` on one"
                    .to_owned(),
            )),
            (Some(one), Some(other)) => Err(Error::Precondition(format!(
                "VSCStorageClasses `{}` and `{}` are both the default: unset `isDefault` on one of them",
                one.object.name_any(),
                other.object.name_any()
            ))),
        }
    }

    /// What is wanted of a volume, our own or that of others.
    pub(super) fn spec(&self, name: &str) -> Option<VolumeSpec> {
        let cluster = &self.objects.cluster;
        let own = cluster.volumes.store().get(name);
        let own = own.map(|it| it.object.spec.clone());
        own.or_else(|| {
            let other = cluster.external_volumes.store().get(name)?;
            Some(other.object.spec.volume.clone())
        })
    }

    /// From where a volume is reached; empty is from everywhere, or not said.
    pub(super) fn places(&self, volume: &Volume) -> Vec<Segments> {
        let array = volume.status.as_ref().map(|it| it.vpsa_id.as_str());
        let array = array.filter(|_| self.has_topology).unwrap_or_default();
        let array = self.objects.cluster.arrays.store().get(array);
        array.map_or_else(Vec::new, |it| places(&self.objects.cluster, &it.object))
    }

    /// The nodes that a volume is attached to.
    fn nodes(&self, name: &str) -> Vec<String> {
        let attachments = self.objects.cluster.attachments.store();
        let attached = attachments.in_group(&of_volume(name));
        let mut nodes: Vec<String> = attached
            .iter()
            .map(|it| it.object.spec.vsc_node_name.clone())
            .collect();
        nodes.sort();
        nodes
    }
}

pub(super) async fn validate(
    services: &Services,
    request: ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, Error> {
    let name = &request.volume_id;
    let volume: Option<Volume> = services.objects.writer.read(name).await?;
    let volume = volume.ok_or_else(|| missing(name))?;
    let refused = usage::check(&request.volume_capabilities, &volume.spec.volume_type).err();
    Ok(request.answered(refused.map(|error| error.to_string())))
}

pub(super) fn list(
    services: &Services,
    request: &ListVolumesRequest,
) -> Result<ListVolumesResponse, Error> {
    let all = services.objects.cluster.volumes.store().all();
    let is_made = |volume: &&Volume| {
        let status = volume.status.as_ref();
        status.is_some_and(|it| !it.id.is_empty())
    };
    let all = all.iter().map(|it| &it.object).filter(is_made);
    let all = all.map(|it| {
        let entry = Entry {
            volume: Some(describe(services, it)),
            status: Some(VolumeStatus {
                published_node_ids: services.nodes(&it.name_any()),
                volume_condition: Some(health(services, it)),
            }),
        };
        (it.name_any(), entry)
    });
    let (entries, next_token) = page(all.collect(), &request.starting_token, request.max_entries)?;
    Ok(ListVolumesResponse {
        entries,
        next_token,
    })
}

pub(super) async fn get(
    services: &Services,
    name: &str,
) -> Result<ControllerGetVolumeResponse, Error> {
    let volume: Option<Volume> = services.objects.writer.read(name).await?;
    let volume = volume.ok_or_else(|| missing(name))?;
    Ok(ControllerGetVolumeResponse {
        volume: Some(describe(services, &volume)),
        status: Some(GotStatus {
            published_node_ids: services.nodes(name),
            volume_condition: Some(health(services, &volume)),
        }),
    })
}

/// What the array says about a volume, and the array itself where nobody can ask it.
fn health(services: &Services, volume: &Volume) -> VolumeCondition {
    let status = volume.status.clone().unwrap_or_default();
    let array = services.objects.cluster.arrays.store().get(&status.vpsa_id);
    let array = array.and_then(|it| it.object.status.clone());
    if let Some(array) = array.filter(|it| is_sick(&it.state)) {
        let reason = condition::ready(&array.observed).map(|it| it.message.as_str());
        return VolumeCondition {
            abnormal: true,
            message: format!(
                "VPSA `{}` is {}: {}",
                status.vpsa_id,
                array.state,
                reason.unwrap_or_default()
            ),
        };
    }
    let ready = condition::ready(&status.observed);
    VolumeCondition {
        abnormal: ready.is_some_and(|it| it.status != "True"),
        message: ready.map(|it| it.message.clone()).unwrap_or_default(),
    }
}

/// What the arrays of a class have that would take a volume for nodes of a place.
pub(super) fn capacity(
    services: &Services,
    request: &GetCapacityRequest,
) -> Result<GetCapacityResponse, Error> {
    let parameters = Parameters::try_from(&request.parameters)?;
    let class = services.class(parameters.class.as_deref())?;
    let filesystems = class.spec.volume_type.clone().unwrap_or(VolumeType::Nas);
    usage::volume_type(&request.volume_capabilities, &filesystems)?;
    let cluster = &services.objects.cluster;
    let from = request.accessible_topology.as_ref();
    let from = from.filter(|_| services.has_topology);
    let is_reached =
        |array: &Vpsa| from.is_none_or(|from| is_reached(&places(cluster, array), &from.segments));
    let members = cluster.members(&class.name_any());
    let members = members.iter().filter(|it| is_reached(&it.object));
    let free = members.filter_map(|it| {
        let status = it.object.status.as_ref()?;
        let capacity = status.capacity.as_ref()?;
        let is_usable = status.state == VpsaState::Ready && capacity.mode == CapacityMode::Normal;
        is_usable.then(|| quantity::size(&capacity.available.0).unwrap_or(0))
    });
    let free: Vec<i64> = free.collect();
    Ok(GetCapacityResponse {
        available_capacity: free.iter().sum(),
        maximum_volume_size: Some(free.iter().copied().max().unwrap_or(0)),
        minimum_volume_size: Some(1 << 30),
    })
}
