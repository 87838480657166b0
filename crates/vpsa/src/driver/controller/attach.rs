//! Volumes on nodes.

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use stowage_api::vpsa::{
    ADOPTED, AttachType, AttachmentState, ExternalVolume, FENCED, Volume, VolumeAttachment,
    VolumeAttachmentSpec, VolumeType, VscNode,
};
use stowage_csi::proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse, VolumeCapability,
};
use stowage_rest::Deadline;

use super::Services;
use super::create::{is_ready, missing};
use crate::driver::error::Error;
use crate::driver::names::attachment_name;
use crate::driver::objects::trouble;
use crate::driver::publication::{Iscsi, Publication};
use crate::driver::usage;
use crate::vsc::cluster::of_volume;

/// Makes the object, and waits until the control plane has attached the volume. A volume of others becomes ours.
pub(super) async fn publish(
    services: &Services,
    request: ControllerPublishVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerPublishVolumeResponse, Error> {
    let (volume, node) = (&request.volume_id, &request.node_id);
    let name = attachment_name(volume, node);
    let _guard = services.locks.lock(&name)?;
    let volume = match services.objects.writer.read::<Volume>(volume).await? {
        Some(volume) if !volume.annotations().contains_key(ADOPTED) => volume,
        there => adopt(services, volume, there, deadline).await?,
    };
    match services.objects.writer.read::<VscNode>(node).await? {
        None => {
            return Err(Error::Missing {
                kind: "VSCNode",
                name: node.clone(),
            });
        }
        Some(known) if known.annotations().contains_key(FENCED) => {
            return Err(Error::Precondition(format!(
                "node `{node}` is lost and was fenced: nothing is attached to it until it is ready again"
            )));
        }
        Some(_) => {}
    }
    let capability: &[VolumeCapability] = request.volume_capability.as_slice();
    usage::check(capability, &volume.spec.volume_type)?;
    let read_only = request.readonly || capability.iter().any(usage::is_read_only);
    let wanted = wanted(&name, &volume, node, read_only);
    ensure(services, wanted, deadline).await?;
    let judge = |attachment: Option<&VolumeAttachment>| match attachment {
        Some(attachment) if is_attached(attachment) => Some(Ok(attachment.clone())),
        Some(attachment) => trouble(attachment, &name, "attached").map(Err),
        None => Some(Err(Error::Missing {
            kind: "VolumeAttachment",
            name: name.clone(),
        })),
    };
    let objects = &services.objects;
    let attachment = objects.until(&name, "attached", deadline, judge).await?;
    let publication = publication(services, &volume, &attachment)?;
    Ok(ControllerPublishVolumeResponse {
        publish_context: publication.into(),
    })
}

fn wanted(name: &str, volume: &Volume, node: &str, read_only: bool) -> VolumeAttachment {
    VolumeAttachment {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: VolumeAttachmentSpec {
            volume_name: volume.name_any(),
            vsc_node_name: node.to_owned(),
            attach_type: match volume.spec.volume_type {
                VolumeType::Block => AttachType::Iscsi,
                VolumeType::Nas | VolumeType::Other(_) => AttachType::Nfs,
            },
            read_only,
            ..VolumeAttachmentSpec::default()
        },
        status: None,
    }
}

/// Makes the object, unless it is there; one that is being deleted is waited for.
async fn ensure(
    services: &Services,
    wanted: VolumeAttachment,
    deadline: Deadline,
) -> Result<(), Error> {
    let name = wanted.name_any();
    match gone_or_there(services, &name, deadline).await? {
        None => services.objects.writer.create(&wanted).await.map(drop)?,
        Some(there) if there.spec.read_only == wanted.spec.read_only => {}
        Some(there) => {
            let mode = if there.spec.read_only {
                "read-only"
            } else {
                "writable"
            };
            return Err(Error::Incompatible {
                kind: "VolumeAttachment",
                name,
                difference: format!("another mode: {mode}"),
            });
        }
    }
    Ok(())
}

async fn gone_or_there(
    services: &Services,
    name: &str,
    deadline: Deadline,
) -> Result<Option<VolumeAttachment>, Error> {
    let judge = |attachment: Option<&VolumeAttachment>| match attachment {
        Some(it) if it.metadata.deletion_timestamp.is_some() => None,
        attachment => Some(Ok(attachment.cloned())),
    };
    services
        .objects
        .until(name, "deleted", deadline, judge)
        .await
}

/// Attached on the array; a node logs in by itself.
fn is_attached(attachment: &VolumeAttachment) -> bool {
    attachment.status.as_ref().is_some_and(|status| {
        matches!(
            status.state,
            AttachmentState::Ready | AttachmentState::IscsiLoginPending
        )
    })
}

/// What a node has to know.
fn publication(
    services: &Services,
    volume: &Volume,
    attachment: &VolumeAttachment,
) -> Result<Publication, Error> {
    let status = volume.status.clone().unwrap_or_default();
    if volume.spec.volume_type != VolumeType::Block {
        let share = status.nas.map(|it| it.nfs_export_path).unwrap_or_default();
        return Ok(Publication::Nfs { share });
    }
    let array = services.objects.cluster.arrays.store().get(&status.vpsa_id);
    let array = array
        .and_then(|it| it.object.status.clone())
        .unwrap_or_default();
    let disk = attachment.status.as_ref().and_then(|it| it.block.clone());
    let disk = disk.unwrap_or_default();
    if array.portals.is_empty() || disk.target.is_empty() {
        return Err(Error::Precondition(format!(
            "VPSA `{}` does not say where its disks are reached",
            status.vpsa_id
        )));
    }
    Ok(Publication::Iscsi(Iscsi {
        array: status.vpsa_id,
        portals: array.portals,
        target: disk.target,
        lun: u64::try_from(disk.lun).unwrap_or(0),
        chap_user: array.chap_user.unwrap_or_default(),
        chap_secret: array.chap_secret.unwrap_or_default(),
    }))
}

/// A volume of others becomes ours: from now on it is deleted with its claim. Its record goes last, so that it tells who
/// was interrupted.
///
/// Called twice: it is ours.
async fn adopt(
    services: &Services,
    name: &str,
    there: Option<Volume>,
    deadline: Deadline,
) -> Result<Volume, Error> {
    let objects = &services.objects;
    let record: Option<ExternalVolume> = objects.writer.read(name).await?;
    match (there, record) {
        (None, None) => return Err(missing(name)),
        (Some(volume), None) => return Ok(volume),
        (Some(_), Some(_)) => {}
        (None, Some(record)) => objects
            .writer
            .create(&ours(name, record)?)
            .await
            .map(drop)?,
    }
    let judge = |volume: Option<&Volume>| match volume {
        Some(volume) if is_ready(volume) => Some(Ok(volume.clone())),
        Some(volume) => trouble(volume, name, "ready").map(Err),
        None => Some(Err(missing(name))),
    };
    let volume = objects.until(name, "ready", deadline, judge).await?;
    objects.writer.delete::<ExternalVolume>(name).await?;
    Ok(volume)
}

/// What a volume of others is as one of ours.
fn ours(name: &str, record: ExternalVolume) -> Result<Volume, Error> {
    let status = record.status.unwrap_or_default();
    if status.vpsa_id.is_empty() || status.id.is_empty() {
        return Err(Error::Precondition(format!(
            "ExternalVolume `{name}` does not say yet which volume of which VPSA it is"
        )));
    }
    let place = format!("{}/{}", status.vpsa_id, status.id);
    Ok(Volume {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some([(ADOPTED.to_owned(), place)].into()),
            ..ObjectMeta::default()
        },
        spec: record.spec.volume,
        status: None,
    })
}

/// Has the object deleted, or those for all nodes, and waits until the control plane has detached the volume.
pub(super) async fn unpublish(
    services: &Services,
    request: ControllerUnpublishVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerUnpublishVolumeResponse, Error> {
    let (volume, node) = (&request.volume_id, &request.node_id);
    let names = if node.is_empty() {
        let attachments = services.objects.cluster.attachments.store();
        let all = attachments.in_group(&of_volume(volume));
        all.iter().map(|it| it.object.name_any()).collect()
    } else {
        vec![attachment_name(volume, node)]
    };
    let _guard = services.locks.lock_all(names.iter().map(String::as_str))?;
    for name in &names {
        services
            .objects
            .delete::<VolumeAttachment>(name, deadline)
            .await?;
    }
    Ok(ControllerUnpublishVolumeResponse {})
}
