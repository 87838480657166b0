//! A new volume: empty, or a copy.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use stowage_api::quantity;
use stowage_api::vpsa::{
    CloneSource, CloneSourceKind, Snapshot, Volume, VolumeFlags, VolumeSpec, VolumeState,
    VolumeType, VscStorageClass,
};
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use stowage_csi::proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, Volume as CsiVolume, VolumeContentSource,
};
use stowage_csi::sizes::Range;
use stowage_rest::Deadline;

use super::Services;
use crate::driver::error::{Error, is_final};
use crate::driver::names::object_name;
use crate::driver::objects::trouble;
use crate::driver::parameters::Parameters;
use crate::driver::usage;
use crate::vsc::condition;

const GB: u64 = 1 << 30;

/// What a copy is made from.
struct Source {
    clone: CloneSource,
    bytes: u64,
    class: Option<String>,
    volume_type: Option<VolumeType>,
}

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
    let existing = gone_or_there(services, &name, deadline).await?;
    match &existing {
        Some(existing) => compare(existing, &wanted, &request)?,
        None => {
            services.objects.writer.create(&wanted).await?;
        }
    }
    let judge = |volume: Option<&Volume>| {
        let Some(volume) = volume else {
            return Some(Err(missing(&name)));
        };
        if is_ready(volume) {
            return Some(Ok(volume.clone()));
        }
        trouble(volume, &name, "ready").map(Err)
    };
    match services
        .objects
        .until(&name, "ready", deadline, judge)
        .await
    {
        Ok(volume) => Ok(CreateVolumeResponse {
            volume: Some(describe(&volume)),
        }),
        Err(error) => {
            if existing.is_none() && is_final(&error) {
                services.objects.begin_to_delete::<Volume>(&name).await?;
            }
            Err(error)
        }
    }
}

/// The volume of this name; one that is being deleted is waited for.
async fn gone_or_there(
    services: &Services,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Volume>, Error> {
    let judge = |volume: Option<&Volume>| match volume {
        Some(volume) if volume.metadata.deletion_timestamp.is_some() => None,
        volume => Some(Ok(volume.cloned())),
    };
    services
        .objects
        .until(name, "deleted", deadline, judge)
        .await
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
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: VolumeSpec {
            vsc_storage_class_name: class.name_any(),
            display_name: name.to_owned(),
            size: Quantity(quantity::text(i64::try_from(bytes).unwrap_or(i64::MAX))),
            volume_type,
            flags: flags(&class, &parameters),
            clone_source: source.map(|it| it.clone),
            ..VolumeSpec::default()
        },
        status: None,
    })
}

impl Source {
    /// A copy is on the array of its source, and of the same type.
    fn check(&self, class: &str, volume_type: &VolumeType) -> Result<(), Error> {
        let kind = self.clone.kind.as_str();
        if self.class.as_deref().is_some_and(|it| it != class) {
            return Err(Error::Usage(format!(
                "{kind} `{}` is in another VSCStorageClass: a copy is on the VPSA of its source",
                self.clone.name
            )));
        }
        match &self.volume_type {
            Some(own) if own != volume_type => Err(Error::Usage(format!(
                "{kind} `{}` is of type {own}, and a copy cannot be of type {volume_type}",
                self.clone.name
            ))),
            _ => Ok(()),
        }
    }
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

async fn source(
    services: &Services,
    request: &CreateVolumeRequest,
) -> Result<Option<Source>, Error> {
    let source = request.volume_content_source.as_ref();
    let Some(source) = source.and_then(|it| it.r#type.as_ref()) else {
        return Ok(None);
    };
    let writer = &services.objects.writer;
    let bytes = |text: Option<&Quantity>| {
        let bytes = text.and_then(|it| quantity::size(&it.0).ok());
        bytes.and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
    };
    let (kind, name) = match source {
        Type::Snapshot(it) => (CloneSourceKind::Snapshot, it.snapshot_id.clone()),
        Type::Volume(it) => (CloneSourceKind::Volume, it.volume_id.clone()),
    };
    let (volume, size) = match source {
        Type::Snapshot(_) => {
            let snapshot: Option<Snapshot> = writer.read(&name).await?;
            let snapshot = snapshot.ok_or_else(|| Error::Missing {
                kind: "Snapshot",
                name: name.clone(),
            })?;
            let size = bytes(snapshot.status.as_ref().and_then(|it| it.size.as_ref()));
            (services.spec(&snapshot.spec.volume_id), size)
        }
        Type::Volume(_) => {
            let volume = writer.read::<Volume>(&name).await?;
            let volume = volume.ok_or_else(|| missing(&name))?;
            let size = bytes(volume.status.as_ref().and_then(|it| it.capacity.as_ref()));
            (Some(volume.spec), size)
        }
    };
    Ok(Some(Source {
        clone: CloneSource {
            kind,
            name,
            ..CloneSource::default()
        },
        bytes: size,
        class: volume.as_ref().map(|it| it.vsc_storage_class_name.clone()),
        volume_type: volume.map(|it| it.volume_type),
    }))
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
pub(super) fn describe(volume: &Volume) -> CsiVolume {
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
        ..CsiVolume::default()
    }
}
