//! `CreateVolume`.
//!
//! What a volume is shows in its handle, which is known from the request alone. Each kind is made in a module of its own:
//! `directory`, `filesystem`, `blank` (an empty snapshot) and `copy` (a snapshot of a volume or of a snapshot). All of
//! them end with the size: what has its size is complete, and what has not is completed by the same call.

use std::collections::BTreeMap;
use std::sync::Arc;

use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::volume_content_source::Type;
use stowage_csi::proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, Topology, Volume, VolumeCapability,
    VolumeContentSource,
};
use stowage_csi::sizes::{Range, signed};

use crate::driver::{Driver, Guard};
use crate::error::{Error, chain};
use crate::handle::{Backing, Handle};
use crate::options::{OptionError, Options, Vocabulary};
use crate::parameters::{ClassBacking, Parameters};
use crate::rest::Deadline;
use crate::snapshot_id::SnapshotId;
use crate::{name, topology};

mod blank;
mod copy;
mod directory;
mod encryption;
mod filesystem;
mod size;
mod writable;

/// What was asked for, understood.
struct Wanted {
    handle: Handle,
    name: String,
    range: Range,
    parameters: Parameters,
    /// What it is a copy of.
    source: Option<Source>,
    context: BTreeMap<String, String>,
    topology: Vec<Topology>,
}

/// What a volume is a copy of.
#[derive(Debug)]
enum Source {
    Snapshot(SnapshotId),
    Volume(Handle),
}

impl Source {
    /// What cannot be an identifier names nothing.
    fn parse(source: &VolumeContentSource) -> Result<Option<Self>, Error> {
        Ok(match &source.r#type {
            None => None,
            Some(Type::Snapshot(snapshot)) => {
                let id = &snapshot.snapshot_id;
                let missing = |_| Error::SnapshotMissing(id.clone());
                Some(Self::Snapshot(SnapshotId::parse(id).map_err(missing)?))
            }
            Some(Type::Volume(volume)) => {
                let handle = crate::driver::existing_handle(&volume.volume_id)?;
                Some(Self::Volume(handle))
            }
        })
    }

    fn filesystem(&self) -> &str {
        match self {
            Self::Snapshot(snapshot) => snapshot.filesystem(),
            Self::Volume(volume) => volume.filesystem(),
        }
    }

    /// The handle of its copy.
    fn copied(&self, access_point: &str) -> Handle {
        match self {
            Self::Snapshot(snapshot) => snapshot.restored(access_point),
            Self::Volume(volume) => {
                Handle::in_snapshot(volume.filesystem(), access_point, volume.written_inner())
            }
        }
    }
}

/// A volume that is being made, and the right to do so.
struct Creation<'a> {
    driver: &'a Arc<Driver>,
    secrets: &'a BTreeMap<String, String>,
    wanted: &'a Wanted,
    guard: &'a Guard,
    deadline: Deadline,
}

impl Creation<'_> {
    /// Says how a creation ended that has something on the array by now. What this call made is taken away before it ends
    /// with a final failure. What cannot be taken away, or an earlier call made, must not end so: the caller would forget it.
    async fn settle<T>(
        &self,
        outcome: Result<T, Error>,
        is_new: bool,
        discard: impl Future<Output = Result<(), Error>>,
    ) -> Result<T, Error> {
        let error = match outcome {
            // It is another volume than the one that is wanted.
            Err(error @ (Error::Incompatible { .. } | Error::NotEncrypted(_))) if !is_new => {
                return Err(error);
            }
            Err(error) if error.is_final() => error,
            outcome => return outcome,
        };
        let volume = &self.wanted.handle;
        if is_new {
            match discard.await {
                Ok(()) => return Err(error),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(error, volume_id = %volume, "Cannot remove a partly created volume.");
                }
            }
        }
        Err(Error::HalfMade {
            id: volume.to_string(),
            source: Box::new(error),
        })
    }
}

pub(super) async fn create(
    driver: &Arc<Driver>,
    request: CreateVolumeRequest,
    deadline: Deadline,
) -> Result<CreateVolumeResponse, Error> {
    let mut wanted = understand(driver, &request)?;
    super::unknown::warn(driver, &request);
    if let (None, ClassBacking::Filesystem(_)) = (&wanted.source, &wanted.parameters.backing)
        && let Some(name) = filesystem::name_before(driver, &request, deadline).await?
    {
        wanted.handle = Handle::filesystem_volume(&name);
    }
    let guard = Arc::new(driver.locks.lock(wanted.handle.as_str())?);
    let _copying = match &wanted.source {
        Some(Source::Volume(volume)) => Some(driver.copying(volume.as_str())?),
        Some(Source::Snapshot(_)) | None => None,
    };
    let creation = Creation {
        driver,
        secrets: &request.secrets,
        wanted: &wanted,
        guard: &guard,
        deadline,
    };
    let bytes = match (&wanted.source, &wanted.parameters.backing) {
        (Some(source), _) => creation.copy(source).await?,
        (None, ClassBacking::Directory(_)) => creation.directory().await?,
        (None, ClassBacking::Snapshot(_)) => creation.blank().await?,
        (None, ClassBacking::Filesystem(new)) => creation.filesystem(new).await?,
    };
    Ok(CreateVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: signed(bytes),
            volume_id: wanted.handle.to_string(),
            volume_context: wanted.context,
            content_source: request.volume_content_source,
            accessible_topology: wanted.topology,
        }),
    })
}

/// What the volume of a request will be, as far as that can be told before the request was read.
pub(super) fn backing(request: &CreateVolumeRequest) -> Backing {
    let source = request.volume_content_source.as_ref();
    let source = source.and_then(|source| Source::parse(source).ok().flatten());
    if let Some(source) = source {
        return source.copied("copy").backing();
    }
    let given = |name: &str| {
        request
            .parameters
            .get(name)
            .is_some_and(|it| !it.is_empty())
    };
    let kind = request.parameters.get("volumeType").map(String::as_str);
    match (kind, given("filesystemName")) {
        (Some("dir/v1"), _) => Backing::Directory,
        (_, true) => Backing::Snapshot,
        (_, false) => Backing::Filesystem,
    }
}

fn understand(driver: &Driver, request: &CreateVolumeRequest) -> Result<Wanted, Error> {
    let config = &driver.config;
    super::inspect::check_mounts(&request.volume_capabilities)?;
    check_flags(&request.volume_capabilities, &config.vocabulary)?;
    let parameters = Parameters::parse(
        &request.parameters,
        &request.mutable_parameters,
        &config.vocabulary,
    )?;
    let source = request.volume_content_source.as_ref();
    let source = source.map_or(Ok(None), Source::parse)?;
    let mut context = request.parameters.clone();
    context.insert("mountOptions".to_owned(), remembered(driver, &parameters));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    context.insert("provisionedByCsiVersion".to_owned(), version);
    Ok(Wanted {
        handle: handle(driver, &request.name, &parameters.backing, source.as_ref()),
        name: request.name.clone(),
        range: request.capacity_range.as_ref().into(),
        parameters,
        source,
        context,
        topology: topology::of_volume(
            &config.serving.driver_name,
            request.accessibility_requirements.as_ref(),
        ),
    })
}

fn handle(driver: &Driver, name: &str, class: &ClassBacking, source: Option<&Source>) -> Handle {
    let object = name::object(name);
    if let Some(source) = source {
        return source.copied(&object);
    }
    match class {
        ClassBacking::Directory(filesystem) => {
            Handle::directory(filesystem, driver.config.dynamic_paths.current(), name)
        }
        ClassBacking::Snapshot(filesystem) => Handle::in_snapshot(filesystem, &object, None),
        ClassBacking::Filesystem(_) => {
            let prefix = &driver.config.volumes.volume_prefix;
            Handle::filesystem_volume(&format!("{prefix}{object}"))
        }
    }
}

/// Refuses mount options of the class that the driver does not know: no volume should begin with them.
fn check_flags(
    capabilities: &[VolumeCapability],
    vocabulary: &Vocabulary,
) -> Result<(), OptionError> {
    for capability in capabilities {
        if let Some(AccessType::Mount(mount)) = &capability.access_type {
            Options::parse(&mount.mount_flags.join(",")).check(vocabulary)?;
        }
    }
    Ok(())
}

/// The mount options that a volume keeps. What depends on the cluster or the node is decided when it is mounted.
fn remembered(driver: &Driver, parameters: &Parameters) -> String {
    let mut options = Options::parse("writecache");
    options.merge(&parameters.mount_options, &driver.config.vocabulary);
    options.prune();
    options.remove("sync_on_close");
    options.to_string()
}
