//! `CreateVolume`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::fs::fstatvfs;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, Topology, Volume, VolumeCapability,
};
use stowage_csi::sizes::{Range, signed};
use stowage_host::PathError;
use stowage_host::beneath::Root;

use crate::capacity::{check_fits, choose};
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::volume::Existing;
use crate::driver::{Driver, Guard, directory};
use crate::error::{Error, chain};
use crate::handle::Handle;
use crate::options::{OptionError, Options, Vocabulary};
use crate::parameters::Parameters;
use crate::quota::{Enforcement, Size};
use crate::rest::Deadline;
use crate::topology;

/// What was asked for, understood.
struct Wanted {
    handle: Handle,
    name: String,
    range: Range,
    parameters: Parameters,
    context: BTreeMap<String, String>,
    topology: Vec<Topology>,
}

/// Makes a directory, gives it to its owner, and then its size: what has a size is complete.
pub(super) async fn create(
    driver: &Arc<Driver>,
    request: CreateVolumeRequest,
    deadline: Deadline,
) -> Result<CreateVolumeResponse, Error> {
    let wanted = understand(driver, &request)?;
    super::unknown::warn(driver, &request);
    let guard = Arc::new(driver.locks.lock(wanted.handle.as_str())?);
    let mut filesystem = driver
        .filesystem(&request.secrets, wanted.handle.filesystem(), deadline)
        .await?;
    filesystem
        .require(|filesystem| check(filesystem, &wanted))
        .await?;
    driver.sweep_once(&filesystem);
    let existing = driver
        .existing(&filesystem, &wanted.handle, Some(&guard), deadline)
        .await?;
    let bytes = match existing {
        Some(existing) if existing.size().is_some() => {
            let size = compare(&existing, &filesystem, &wanted)?;
            if let Some(managed) = filesystem.quotas()
                && existing.is_pending()
            {
                managed
                    .api
                    .await_quota(&managed.filesystem, existing.inode)
                    .await?;
            }
            size.bytes
        }
        _ => make(driver, &filesystem, &wanted, &guard, deadline).await?,
    };
    Ok(CreateVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: signed(bytes),
            volume_id: wanted.handle.to_string(),
            volume_context: wanted.context,
            content_source: None,
            accessible_topology: wanted.topology,
        }),
    })
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
    let mut context = request.parameters.clone();
    context.insert("mountOptions".to_owned(), remembered(driver, &parameters));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    context.insert("provisionedByCsiVersion".to_owned(), version);
    Ok(Wanted {
        handle: Handle::directory(&parameters.filesystem, &config.dynamic_path, &request.name),
        name: request.name.clone(),
        range: request.capacity_range.as_ref().into(),
        parameters,
        context,
        topology: topology::of_volume(
            &config.serving.driver_name,
            request.accessibility_requirements.as_ref(),
        ),
    })
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

/// What can be refused before anything is made.
fn check(filesystem: &WekaFilesystem, wanted: &Wanted) -> Result<(), Error> {
    filesystem.check_may_write("set the quota of a directory")?;
    filesystem.check_fits(choose(wanted.range))?;
    if let Some(managed) = &filesystem.managed
        && wanted.parameters.encrypted
        && !managed.filesystem.is_encrypted
    {
        return Err(Error::NotEncrypted(filesystem.name.clone()));
    }
    Ok(())
}

/// Whether the volume of this name is what is wanted now.
fn compare(
    existing: &Existing,
    filesystem: &WekaFilesystem,
    wanted: &Wanted,
) -> Result<Size, Error> {
    let size = existing.size().unwrap_or(Size {
        bytes: 0,
        enforcement: Enforcement::Hard,
    });
    let difference = if !wanted.range.contains(size.bytes) {
        format!("{} bytes", size.bytes)
    } else if filesystem.quotas().is_some()
        && existing.is_enforceable()
        && size.enforcement != wanted.parameters.enforcement
    {
        format!("capacityEnforcement {}", size.enforcement)
    } else {
        return Ok(size);
    };
    Err(Error::Incompatible {
        name: wanted.name.clone(),
        difference,
    })
}

async fn make(
    driver: &Driver,
    filesystem: &WekaFilesystem,
    wanted: &Wanted,
    guard: &Guard,
    deadline: Deadline,
) -> Result<u64, Error> {
    let bytes = choose(wanted.range);
    let (path, owner) = (wanted.handle.path(), wanted.parameters.owner);
    let (name, measured) = (filesystem.name.clone(), filesystem.managed.is_none());
    let work = move |root: &Root| {
        if measured {
            check_fits(&name, bytes, available(root)?)?;
        }
        let (directory, new) = directory::make(root, &path, owner)?;
        Ok((directory.inode, new))
    };
    let (inode, new) = driver
        .within(filesystem, Some(guard), deadline, work)
        .await?;
    let size = Size {
        bytes,
        enforcement: wanted.parameters.enforcement,
    };
    let recorded = match filesystem.quotas() {
        Some(managed) => limit(managed, &wanted.handle, inode, size).await,
        None => {
            driver
                .record(filesystem, &wanted.handle, bytes, Some(guard), deadline)
                .await
        }
    };
    match recorded {
        Ok(()) => Ok(bytes),
        Err(error) => {
            if new && error.is_final() {
                give_up(driver, filesystem, wanted, guard, deadline).await;
            }
            Err(error)
        }
    }
}

/// Gives a directory its quota. The cluster says itself by which number it knows the directory, where it can; elsewhere it
/// is the number that the mount shows.
async fn limit(managed: &Managed, handle: &Handle, seen: u64, size: Size) -> Result<(), Error> {
    let inode = if managed.facts.resolves_paths() {
        let path = handle.path();
        let told = managed.api.inode(&managed.filesystem, &path).await?;
        // A number of another cluster's filesystem would limit somebody else's directory.
        told.ok_or_else(|| managed.other_cluster())?
    } else {
        seen
    };
    Ok(managed
        .api
        .set_quota(&managed.filesystem, inode, size.into())
        .await?)
}

/// What a filesystem without an API has left.
fn available(root: &Root) -> Result<u64, Error> {
    let stat = fstatvfs(root).map_err(PathError::at("read the free space of", "/"))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Takes away what could not be completed. If even that fails, the repeated call finds it.
async fn give_up(
    driver: &Driver,
    filesystem: &WekaFilesystem,
    wanted: &Wanted,
    guard: &Guard,
    deadline: Deadline,
) {
    let path = wanted.handle.path();
    let discard = move |root: &Root| directory::discard(root, &path);
    if let Err(error) = driver
        .within(filesystem, Some(guard), deadline, discard)
        .await
    {
        let error = chain(&error);
        tracing::warn!(error, volume_id = %wanted.handle, "Cannot remove a partly created volume.");
    }
}
