//! What a copy is made from.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use stowage_api::quantity;
use stowage_api::vpsa::{CloneSource, CloneSourceKind, Snapshot, Volume, VolumeType};
use stowage_csi::proto::csi::CreateVolumeRequest;
use stowage_csi::proto::csi::volume_content_source::Type;

use super::Services;
use super::create::missing;
use crate::driver::error::Error;

/// What a copy is made from.
pub(super) struct Source {
    /// It.
    pub clone: CloneSource,
    /// How large it is.
    pub bytes: u64,
    class: Option<String>,
    volume_type: Option<VolumeType>,
}

impl Source {
    /// A copy is on the array of its source, and of the same type.
    pub fn check(&self, class: &str, volume_type: &VolumeType) -> Result<(), Error> {
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

/// What a request wants a copy of, if it wants one.
pub(super) async fn source(
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
