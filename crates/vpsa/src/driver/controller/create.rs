//! A new volume: empty, or a copy.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use stowage_api::quantity;
use stowage_api::vpsa::{
    CloneSourceKind, REQUESTED, Volume, VolumeFlags, VolumeSpec, VolumeState, VolumeTopology,
    VolumeType, VscStorageClass,
};
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use stowage_csi::proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, Topology, Volume as CsiVolume, VolumeContentSource,
};
use stowage_csi::sizes::Range;
use stowage_rest::Deadline;

use super::Services;
use super::source::source;
use crate::driver::error::{Error, is_final};
use crate::driver::names::object_name;
use crate::driver::objects::{held, trouble};
use crate::driver::parameters::Parameters;
use crate::driver::usage;
use crate::vsc::condition;
use crate::vsc::topology::{rank, shown};
use crate::vsc::volume::may_be_there;

const GB: u64 = 1 << 30;

/// Makes the object, and waits until the control plane has made the volume. What can never become one is deleted again:
/// the caller asks as often as it likes, or gives the claim up and never asks again.
pub(super) async fn create(
    services: &Services,
    request: CreateVolumeRequest,
    deadline: Deadline,
) -> Result<CreateVolumeResponse, Error> {
    let name = object_name("volume", &request.name);
    let _guard = services.locks.lock(&name)?;
    let wanted = wanted(services, &name, &request).await?;
    let objects = &services.objects;
    let existing = objects.gone_or_there(&name, deadline).await?;
    if let Some(existing) = &existing {
        compare(existing, &wanted, &request)?;
        check_place(services, existing, &wanted)?;
    }
    let is_new = existing.is_none();
    let judge = |volume: Option<&Volume>| {
        let Some(volume) = volume else {
            return Some(Err(missing(&name)));
        };
        if is_ready(volume) {
            return Some(Ok(volume.clone()));
        }
        trouble(volume, &name, "ready").map(Err)
    };
    let made = objects.ensure(&wanted, is_new);
    match objects
        .until_after(made, &name, "ready", deadline, judge)
        .await
    {
        Ok(volume) => Ok(CreateVolumeResponse {
            volume: Some(describe(services, &volume)),
        }),
        Err(error) => {
            if is_final(&error) {
                take_back(services, &name).await?;
            }
            Err(error)
        }
    }
}

/// Has an object deleted again that a call of ours asked for, this one or one that nobody lived to answer. Nothing may have come
/// of it yet: what has changed since it was read stays for the next call.
async fn take_back(services: &Services, name: &str) -> Result<(), Error> {
    let writer = &services.objects.writer;
    let volume: Option<Volume> = writer.read(name).await?;
    let is_ours = |it: &Volume| it.annotations().contains_key(REQUESTED);
    let is_nothing = |it: &Volume| it.status.as_ref().is_none_or(|it| !may_be_there(it));
    if let Some(volume) = volume.filter(|it| is_ours(it) && is_nothing(it)) {
        writer.delete_unchanged(&volume).await?;
    }
    Ok(())
}

/// The object for a request.
async fn wanted(
    services: &Services,
    name: &str,
    request: &CreateVolumeRequest,
) -> Result<Volume, Error> {
    let parameters = Parameters::try_from(&request.parameters)?;
    let class = services.class(parameters.class.as_deref())?;
    let filesystems = class.spec.volume_type.clone().unwrap_or(VolumeType::Nas);
    let volume_type = usage::volume_type(&request.volume_capabilities, &filesystems)?;
    let source = source(services, request).await?;
    if let Some(source) = &source {
        source.check(&class.name_any(), &volume_type)?;
    }
    let range = Range::from(request.capacity_range.as_ref());
    let bytes = size(range, source.as_ref().map_or(0, |it| it.bytes))?;
    Ok(Volume {
        metadata: ObjectMeta {
            annotations: Some([(REQUESTED.to_owned(), "true".to_owned())].into()),
            ..held(name)
        },
        spec: VolumeSpec {
            vsc_storage_class_name: class.name_any(),
            display_name: name.to_owned(),
            size: Quantity(quantity::text(i64::try_from(bytes).unwrap_or(i64::MAX))),
            volume_type,
            flags: flags(&class, &parameters),
            clone_source: source.map(|it| it.clone),
            topology: topology(services, request),
            ..VolumeSpec::default()
        },
        status: None,
    })
}

/// From where the volume must be reached, if anybody says.
fn topology(services: &Services, request: &CreateVolumeRequest) -> Option<VolumeTopology> {
    let asked = request.accessibility_requirements.as_ref();
    let asked = asked.filter(|_| services.has_topology)?;
    let segments = |all: &[Topology]| all.iter().map(|it| it.segments.clone()).collect();
    Some(VolumeTopology {
        requisite: segments(&asked.requisite),
        preferred: segments(&asked.preferred),
        ..VolumeTopology::default()
    })
}

/// Whether the array that was chosen before is reached from where the volume is wanted now.
fn check_place(services: &Services, there: &Volume, wanted: &Volume) -> Result<(), Error> {
    let places = services.places(there);
    if rank(&places, wanted.spec.topology.as_ref()).is_some() {
        return Ok(());
    }
    Err(Error::Incompatible {
        kind: "Volume",
        name: there.name_any(),
        difference: format!(
            "a VPSA that is reached only from nodes with {}",
            shown(&places)
        ),
    })
}

/// Options of the storage class add to those of the VSCStorageClass.
fn flags(class: &VscStorageClass, parameters: &Parameters) -> Option<VolumeFlags> {
    if parameters.options.is_empty() {
        return None;
    }
    let mut flags = class.spec.volume_flags.clone().unwrap_or_default();
    let extra = flags.extra.get_or_insert_default();
    extra.extend(parameters.options.clone());
    Some(flags)
}

/// Whole GB, as arrays have them, and not less than the source.
fn size(range: Range, source: u64) -> Result<u64, Error> {
    if source > 0 && range.limit > 0 && range.limit < source {
        return Err(Error::Size(format!(
            "the source has {source} bytes: a copy cannot have {} at most",
            range.limit
        )));
    }
    if range.required > 0 && range.required < source {
        return Err(Error::Size(format!(
            "the source has {source} bytes: a copy cannot have {}",
            range.required
        )));
    }
    let wanted = range.required.max(source).max(1);
    let bytes = wanted.div_ceil(GB).saturating_mul(GB);
    if range.limit > 0 && bytes > range.limit {
        return Err(Error::Size(format!(
            "a VPSA makes volumes of whole GiB: {bytes} bytes are more than the limit of {}",
            range.limit
        )));
    }
    if i64::try_from(bytes).is_err() || bytes > 1 << 60 {
        return Err(Error::Size(format!("no VPSA has {bytes} bytes")));
    }
    Ok(bytes)
}

/// Whether the volume that is there is the one that is asked for.
fn compare(there: &Volume, wanted: &Volume, request: &CreateVolumeRequest) -> Result<(), Error> {
    let range = Range::from(request.capacity_range.as_ref());
    let bytes = quantity::size(&there.spec.size.0).unwrap_or(0);
    let (there, wanted, name) = (&there.spec, &wanted.spec, wanted.name_any());
    let difference = if !range.contains(bytes.unsigned_abs()) {
        format!("another size: {}", there.size.0)
    } else if there.volume_type != wanted.volume_type {
        format!("another type: {}", there.volume_type)
    } else if there.vsc_storage_class_name != wanted.vsc_storage_class_name {
        format!("another VSCStorageClass: {}", there.vsc_storage_class_name)
    } else if there.clone_source != wanted.clone_source {
        "another source".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Incompatible {
        kind: "Volume",
        name,
        difference,
    })
}

/// Whether the control plane has done everything for the newest form of a volume.
pub(super) fn is_ready(volume: &Volume) -> bool {
    volume.status.as_ref().is_some_and(|status| {
        let ready = condition::ready(&status.observed);
        status.state == VolumeState::Ready
            && ready.is_some_and(|it| {
                it.status == "True"
                    && it.reason != "Expanding"
                    && it.observed_generation == volume.metadata.generation
            })
    })
}

pub(super) fn missing(name: &str) -> Error {
    Error::Missing {
        kind: "Volume",
        name: name.to_owned(),
    }
}

/// A volume as the protocol shows it.
pub(super) fn describe(services: &Services, volume: &Volume) -> CsiVolume {
    let status = volume.status.clone().unwrap_or_default();
    let size = status.capacity.as_ref().unwrap_or(&volume.spec.size);
    let source = volume.spec.clone_source.as_ref().map(|source| {
        let name = source.name.clone();
        let source = match source.kind {
            CloneSourceKind::Snapshot => Type::Snapshot(SnapshotSource { snapshot_id: name }),
            CloneSourceKind::Volume | CloneSourceKind::Other(_) => {
                Type::Volume(VolumeSource { volume_id: name })
            }
        };
        VolumeContentSource {
            r#type: Some(source),
        }
    });
    CsiVolume {
        volume_id: volume.name_any(),
        capacity_bytes: quantity::size(&size.0).unwrap_or(0),
        content_source: source,
        accessible_topology: services
            .places(volume)
            .into_iter()
            .map(|segments| Topology { segments })
            .collect(),
        ..CsiVolume::default()
    }
}
