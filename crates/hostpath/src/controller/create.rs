//! `CreateVolume`.

use std::sync::Arc;

use stowage_csi::proto::csi::volume_content_source::{
    SnapshotSource, Type as SourceType, VolumeSource,
};
use stowage_csi::proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, Volume, VolumeContentSource,
};
use stowage_csi::sizes::Range;
use stowage_host::blocking;
use stowage_host::filesystem::FsKind;

use crate::capacity::{self, Content};
use crate::content::copy_idle;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Id, Kind};
use crate::mutable::Mutable;
use crate::state::{
    Area, Image, SnapshotRecord, Source, Stage, StateError, VolumeRecord, now_unix_ms,
};
use crate::topology;
use crate::usage::{Access, common_form};

/// What was asked for, understood.
struct Wanted {
    id: Id,
    name: String,
    range: Range,
    access: Access,
    /// Only if the caller named one.
    filesystem: Option<FsKind>,
    source: Option<Source>,
    /// A volume that exists keeps what it has: that is changed by another call.
    mutable: Mutable,
}

/// Makes a volume: the image first, the record last.
pub(super) async fn create_volume(
    driver: Arc<Driver>,
    request: CreateVolumeRequest,
) -> Result<CreateVolumeResponse, Error> {
    let wanted = understand(&driver, &request)?;
    let _guard = driver.locks.lock(&wanted.id.to_string())?;
    let (store, key) = (driver.store.clone(), wanted.id.key.clone());
    let (image, existing) = blocking(move || {
        let existing = store.read::<VolumeRecord>(&key)?;
        let image = match existing {
            // Nothing to change, so nothing to wait for.
            Some(_) => None,
            None => Some(store.lock_or_make(Area::Volumes, &key)?),
        };
        // Another process may have been faster to the lock.
        let existing = match existing {
            None => store.read::<VolumeRecord>(&key)?,
            existing => existing,
        };
        if let (None, Some(image)) = (&existing, &image) {
            image.start_over()?;
        }
        Ok::<_, StateError>((image, existing))
    })
    .await?;
    let record = match (existing, image) {
        (Some(record), _) => {
            // The directory of a node that has another name now.
            driver.volume_id(&record.id)?;
            compare(record, &wanted)?
        }
        (None, Some(image)) => make(&driver, image, wanted).await?,
        (None, None) => return Err(Error::VolumeMissing(wanted.id.to_string())),
    };
    Ok(CreateVolumeResponse {
        volume: Some(describe(&driver, &record)),
    })
}

fn understand(driver: &Driver, request: &CreateVolumeRequest) -> Result<Wanted, Error> {
    let (access, filesystem) = common_form(&request.volume_capabilities)?;
    topology::check(&driver.config, request.accessibility_requirements.as_ref())?;
    let source = request.volume_content_source.as_ref();
    let source = source.and_then(|source| source.r#type.as_ref());
    Ok(Wanted {
        id: driver.new_id(Kind::Volume, &request.name),
        name: request.name.clone(),
        range: request.capacity_range.as_ref().into(),
        access,
        filesystem,
        mutable: Mutable::try_from(&request.mutable_parameters)?,
        source: source.map(|source| match source {
            SourceType::Snapshot(snapshot) => Source::Snapshot(snapshot.snapshot_id.clone()),
            SourceType::Volume(volume) => Source::Volume(volume.volume_id.clone()),
        }),
    })
}

/// Whether the volume of this name is what is wanted now.
fn compare(record: VolumeRecord, wanted: &Wanted) -> Result<VolumeRecord, Error> {
    let difference = if !wanted.range.contains(record.bytes) {
        format!("{} bytes", record.bytes)
    } else if record.access != wanted.access {
        format!("another form: {}", record.access.name())
    } else if wanted
        .filesystem
        .is_some_and(|kind| kind != record.filesystem)
    {
        format!("another filesystem: {}", record.filesystem)
    } else if record.source != wanted.source {
        "another source".to_owned()
    } else {
        return Ok(record);
    };
    Err(Error::Incompatible {
        name: record.name,
        difference,
    })
}

async fn make(driver: &Driver, image: Image, wanted: Wanted) -> Result<VolumeRecord, Error> {
    if image.stage()? == Stage::Finished {
        let path = image.path().to_owned();
        return Err(StateError::RecordLost { path }.into());
    }
    let key = image.key().clone();
    let made = make_locked(driver, image, wanted).await;
    if made.is_err() {
        // The disk may be full: what is not a volume must not take its place.
        driver.give_up(Area::Volumes, key).await;
    }
    made
}

/// Gives the image its content and size, and writes the record.
async fn make_locked(driver: &Driver, image: Image, wanted: Wanted) -> Result<VolumeRecord, Error> {
    let origin = match &wanted.source {
        None => None,
        Some(source) => Some(Origin::open(driver, source).await?),
    };
    let filesystem = filesystem(driver, &wanted, origin.as_ref())?;
    let content = Content {
        access: wanted.access,
        filesystem,
        source_bytes: origin.as_ref().map(Origin::bytes),
    };
    let bytes = capacity::choose(wanted.range, content, driver.config.max_volume_bytes)?;
    driver.check_space(bytes).await?;
    let reserved = driver.ledger.reserve(bytes)?;
    if let Some(origin) = &origin {
        check_growth(content, bytes)?;
        origin.copy(driver, &image).await?;
        if wanted.access == Access::Filesystem {
            driver.renew_copy(&image).await?;
        }
    }
    let record = VolumeRecord {
        id: wanted.id.to_string(),
        name: wanted.name,
        bytes,
        access: wanted.access,
        filesystem,
        source: wanted.source,
        created_unix_ms: now_unix_ms(),
        formatted: wanted.access == Access::Filesystem
            && origin.as_ref().is_some_and(Origin::formatted),
        direct_io: wanted.mutable.direct_io.unwrap_or(false),
        attached: std::collections::BTreeMap::new(),
    };
    driver.write_sized(image, bytes, record.clone()).await?;
    reserved.keep();
    Ok(record)
}

/// The filesystem of the new volume. A copy has that of its source: to format it would lose what was copied.
fn filesystem(driver: &Driver, wanted: &Wanted, origin: Option<&Origin>) -> Result<FsKind, Error> {
    match (origin.and_then(Origin::filesystem), wanted.filesystem) {
        (Some(is), Some(asked)) if is != asked && wanted.access == Access::Filesystem => {
            Err(Error::OtherFilesystem { is, asked })
        }
        (Some(is), _) => Ok(is),
        (None, asked) => Ok(asked.unwrap_or(driver.config.default_filesystem)),
    }
}

/// A filesystem that is copied into a larger volume grows when it is staged, if it can.
fn check_growth(content: Content, bytes: u64) -> Result<(), Error> {
    let grows = content.access == Access::Filesystem && content.source_bytes != Some(bytes);
    if grows && bytes < content.filesystem.growth_minimum_bytes() {
        return Err(Error::GrowthTooSmall { bytes });
    }
    Ok(())
}

/// What a volume is copied from, locked so that it stays as it is.
enum Origin {
    Snapshot(Image, SnapshotRecord),
    Volume(Image, VolumeRecord),
}

impl Origin {
    async fn open(driver: &Driver, source: &Source) -> Result<Self, Error> {
        let elsewhere = |error| match error {
            // The caller may find the right node by trying another.
            Error::OtherNode { id, node, here } => Error::SourceElsewhere { id, node, here },
            error => error,
        };
        match source {
            Source::Snapshot(text) => {
                let missing = || Error::SnapshotMissing(text.clone());
                let id = driver.local(Kind::Snapshot, text).map_err(elsewhere)?;
                let id = id.ok_or_else(missing)?;
                let record: SnapshotRecord = driver.read(&id).await?.ok_or_else(missing)?;
                let store = driver.store.clone();
                // Several volumes may be copied from one snapshot at the same time.
                let image = blocking(move || store.lock_shared(Area::Snapshots, &id.key));
                Ok(Self::Snapshot(image.await?.ok_or_else(missing)?, record))
            }
            Source::Volume(text) => {
                let (image, record) = driver.claim_volume(text).await.map_err(elsewhere)?;
                Ok(Self::Volume(image, record))
            }
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Snapshot(_, record) => record.bytes,
            Self::Volume(_, record) => record.bytes,
        }
    }

    /// Nobody knows what is on a raw block volume.
    fn filesystem(&self) -> Option<FsKind> {
        let (access, filesystem) = match self {
            Self::Snapshot(_, record) => (record.access, record.filesystem),
            Self::Volume(_, record) => (record.access, record.filesystem),
        };
        (access == Access::Filesystem).then_some(filesystem)
    }

    /// Whether it has held its filesystem, which its copies then have, too.
    fn formatted(&self) -> bool {
        match self {
            Self::Snapshot(_, record) => record.formatted,
            Self::Volume(_, record) => record.formatted,
        }
    }

    async fn copy(&self, driver: &Driver, to: &Image) -> Result<(), Error> {
        match self {
            Self::Snapshot(image, _) => copy_idle(image, to).await,
            Self::Volume(image, record) => driver.copy_volume(image, record, to).await,
        }
    }
}

/// A volume as the protocol has it.
pub(super) fn describe(driver: &Driver, record: &VolumeRecord) -> Volume {
    let source = record.source.as_ref().map(|source| VolumeContentSource {
        r#type: Some(match source {
            Source::Snapshot(id) => SourceType::Snapshot(SnapshotSource {
                snapshot_id: id.clone(),
            }),
            Source::Volume(id) => SourceType::Volume(VolumeSource {
                volume_id: id.clone(),
            }),
        }),
    });
    let node = Id::parse(Kind::Volume, &record.id).map(|id| id.node);
    Volume {
        capacity_bytes: i64::try_from(record.bytes).unwrap_or(i64::MAX),
        volume_id: record.id.clone(),
        volume_context: std::collections::BTreeMap::new(),
        content_source: source,
        accessible_topology: node
            .map(|node| topology::of_volume(&driver.config, &node))
            .unwrap_or_default(),
    }
}
