//! `NodePublishVolume`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, VolumeCapability,
};
use stowage_host::beneath::Root;
use stowage_host::mount::{Bind, BindSource, ensure_bind};
use stowage_host::stat::Health;
use stowage_host::{blocking, create_directories};

use super::annotations;
use crate::driver::Driver;
use crate::driver::directory::{self, Place};
use crate::driver::filesystem::WekaFilesystem;
use crate::driver::mounts::{Shown, is_weka};
use crate::error::Error;
use crate::handle::Handle;
use crate::options::{OptionError, Options};
use crate::rest::Deadline;
use crate::version::Capability;

const SYNC_ON_CLOSE: &str = "sync_on_close";

/// What the kubelet gives the directories it makes.
const DIRECTORY_MODE: u32 = 0o750;

/// What a pod is to get, and where.
struct Publication {
    handle: Handle,
    target: PathBuf,
    read_only: bool,
    /// Nobody may write to the volume, whatever the pod asks for.
    readers_only: bool,
    /// The volume may be at one target only.
    single: bool,
    options: Options,
}

/// Shows the volume's directory at the target of one pod. What is bound is the directory that was opened below the
/// filesystem's root, not its path once more.
pub(super) async fn publish(
    driver: &Driver,
    request: NodePublishVolumeRequest,
    deadline: Deadline,
) -> Result<NodePublishVolumeResponse, Error> {
    let handle = Handle::parse(&request.volume_id)?;
    let guard = Arc::new(driver.locks.lock(handle.as_str())?);
    let wanted = understand(driver, &request, handle).await?;
    if is_published(driver, &wanted).await? {
        return Ok(NodePublishVolumeResponse {});
    }
    check_single_writer(driver, &wanted).await?;
    let filesystem = driver
        .filesystem(&request.secrets, wanted.handle.filesystem(), deadline)
        .await?;
    let options = for_cluster(&wanted.options, &filesystem);
    let place = Place::of(&wanted.handle, &driver.config.dynamic_paths);
    let work = {
        let place = place.clone();
        move |root: &Root| directory::to_bind(root, &place)
    };
    let found = driver
        .within_as(&filesystem, &options, Some(&guard), deadline, work)
        .await?;
    let Some(found) = found else {
        filesystem.confirm_missing(&place.path).await?;
        return Err(Error::PathMissing {
            filesystem: filesystem.name.clone(),
            path: place.path,
        });
    };
    make_parent(&wanted.target).await?;
    let bind = Bind {
        source: BindSource::from(found),
        target: wanted.target,
        read_only: wanted.read_only,
    };
    ensure_bind(&*driver.mounter, &bind).await?;
    let cluster = filesystem
        .managed
        .as_ref()
        .map(|managed| &*managed.facts.guid);
    driver.names.note(
        &bind.target,
        &request.volume_context,
        cluster.unwrap_or_default(),
    );
    Ok(NodePublishVolumeResponse {})
}

async fn understand(
    driver: &Driver,
    request: &NodePublishVolumeRequest,
    handle: Handle,
) -> Result<Publication, Error> {
    let config = &driver.config;
    let none = VolumeCapability::default();
    let capability = request.volume_capability.as_ref().unwrap_or(&none);
    let flags = match &capability.access_type {
        Some(AccessType::Block(_)) => return Err(Error::Block),
        Some(AccessType::Mount(mount)) => mount.mount_flags.join(","),
        None => String::new(),
    };
    let mut options = Options::parse("writecache,sync_on_close");
    let context = request.volume_context.get("mountOptions");
    for list in [context.map(String::as_str).unwrap_or_default(), &flags] {
        let more = Options::parse(list);
        check_kept(&more, driver, &handle)?;
        options.merge(&more, &config.vocabulary);
    }
    if config.overrides {
        let changes = annotations::changes(driver, &request.volume_context).await?;
        for change in changes {
            change.apply(&mut options, &config.vocabulary)?;
        }
    }
    options.prune();
    // Read-only is a matter of the pod's mount: the filesystem's own is shared.
    let asked = options.remove("ro");
    options.remove("rw");
    options.remove("defaults");
    let readers_only = reads_only(capability);
    Ok(Publication {
        handle,
        target: PathBuf::from(&request.target_path),
        read_only: request.readonly || asked || readers_only,
        readers_only,
        single: mode(capability) == Some(Mode::SingleNodeSingleWriter),
        options,
    })
}

/// Options of a volume that exists may be those of a release that this driver does not know: the client decides. Classes
/// are refused before there is a volume.
fn check_kept(options: &Options, driver: &Driver, handle: &Handle) -> Result<(), Error> {
    match options.check(&driver.config.vocabulary) {
        Err(error @ OptionError::Unknown(_)) => {
            tracing::warn!(%error, volume_id = %handle, "The volume has a mount option that this driver does not know; passing it on to the Weka client.");
            Ok(())
        }
        checked => Ok(checked?),
    }
}

fn mode(capability: &VolumeCapability) -> Option<Mode> {
    Mode::try_from(capability.access_mode.as_ref()?.mode).ok()
}

/// A volume for a single writer is at one target only.
async fn check_single_writer(driver: &Driver, wanted: &Publication) -> Result<(), Error> {
    if !wanted.single {
        return Ok(());
    }
    let view = driver.mounter.look(&wanted.target).await?;
    let volume = Shown::of(&wanted.handle);
    let other = view.table.iter().find(|mount| {
        let same = Shown::by(mount).is_some_and(|it| it == volume);
        // A volume that is a filesystem has the root of the driver's own mount.
        let is_published = is_weka(mount) && !driver.mounts.is_own(mount);
        same && is_published && mount.point() != view.point
    });
    other.map_or(Ok(()), |mount| {
        Err(Error::SecondWriter {
            id: wanted.handle.to_string(),
            path: mount.point().to_owned(),
        })
    })
}

/// Whether the access mode allows no writing at all.
fn reads_only(capability: &VolumeCapability) -> bool {
    matches!(
        mode(capability),
        Some(Mode::MultiNodeReaderOnly | Mode::SingleNodeReaderOnly)
    )
}

/// The options that this cluster understands.
fn for_cluster(options: &Options, filesystem: &WekaFilesystem) -> Options {
    let mut options = options.clone();
    let modern = filesystem
        .managed
        .as_ref()
        .is_some_and(|managed| managed.facts.has(Capability::SyncOnClose));
    if !modern {
        options.remove(SYNC_ON_CLOSE);
    }
    options
}

/// Whether it is there already; an error if it is so in another way. A dead mount is as good as none: it is replaced.
async fn is_published(driver: &Driver, wanted: &Publication) -> Result<bool, Error> {
    // The table is long on a busy node, and every pod changes it: it is not read for a target that has nothing.
    if !driver.mounter.is_mounted(&wanted.target).await? {
        return Ok(false);
    }
    let view = driver.mounter.look(&wanted.target).await?;
    let Some(mount) = view.mount() else {
        return Ok(false);
    };
    if !is_weka(&mount) {
        return Err(Error::ForeignMount {
            path: wanted.target.clone(),
            kind: mount.kind().to_string_lossy().into_owned(),
        });
    }
    match driver.mounter.health(&view.point).await {
        Health::Alive => {}
        Health::Corrupted(_) | Health::Missing => return Ok(false),
        Health::Hung => return Err(Error::MountHung(wanted.target.clone())),
    }
    let otherwise = |difference| Error::PublishedDifferently {
        id: wanted.handle.to_string(),
        path: wanted.target.clone(),
        difference,
    };
    let volume = Shown::of(&wanted.handle);
    let there = Shown::by(&mount).filter(|it| it.filesystem == volume.filesystem);
    let Some(there) = there else {
        return Err(otherwise("shows another filesystem"));
    };
    // A static path may have links on it: only the opened directory shows where it leads.
    if there.path != volume.path {
        return if wanted.handle.has_own_path(&driver.config.dynamic_paths) {
            Err(otherwise("shows another directory"))
        } else {
            Ok(false)
        };
    }
    if mount.root_deleted() {
        return Ok(false);
    }
    match (mount.has_option("ro"), wanted.read_only) {
        // WEKA's own plugin publishes volumes of readers writable. Pods that run have mounts of their own: they keep what
        // they have, and are not disturbed.
        (false, true) if wanted.readers_only => driver.mounter.make_read_only(&view.point).await?,
        (is_read_only, wanted) if is_read_only == wanted => {}
        _ => return Err(otherwise("has a different read-only setting")),
    }
    Ok(true)
}

/// The kubelet makes it as a rule; older ones did not.
async fn make_parent(target: &Path) -> Result<(), Error> {
    let Some(parent) = target.parent().map(Path::to_owned) else {
        return Ok(());
    };
    blocking(move || create_directories(&parent, DIRECTORY_MODE)).await?;
    Ok(())
}
