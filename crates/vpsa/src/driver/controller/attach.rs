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
use crate::driver::objects::{held, trouble};
use crate::driver::publication::{Iscsi, Publication, Share};
use crate::driver::usage;
use crate::vsc::attachment::how_to_forget;
use crate::vsc::attachment::in_use::{is_barred, why_barred};
use crate::vsc::cluster::of_volume;

/// Makes the object, and waits until the control plane has attached the volume. A volume of others becomes ours.
pub(super) async fn publish(
    services: &Services,
    request: ControllerPublishVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerPublishVolumeResponse, Error> {
    let (volume, node) = (&request.volume_id, &request.node_id);
    let name = attachment_name(volume, node);
    let capability: &[VolumeCapability] = request.volume_capability.as_slice();
    let is_single = capability.iter().any(usage::has_single_node);
    // A volume for one node is waited for by one call: the next sees what became of it.
    let one_node = is_single.then_some(volume.as_str());
    let keys = [name.as_str()].into_iter().chain(one_node);
    let _guard = services.locks.lock_all(keys)?;
    let volume = match services.objects.writer.read::<Volume>(volume).await? {
        Some(volume) if !volume.annotations().contains_key(ADOPTED) => volume,
        there => adopt(services, volume, there, deadline).await?,
    };
    let is_barred = is_barred(&open_node(services, node).await?);
    usage::check(capability, &volume.spec.volume_type)?;
    let read_only = request.readonly || capability.iter().any(usage::is_read_only);
    let wanted = wanted(&name, &volume, node, read_only);
    let objects = &services.objects;
    let existing = objects.gone_or_there(&name, deadline).await?;
    match &existing {
        Some(there) => compare(there, &wanted)?,
        None if is_barred => return Err(Error::Precondition(why_barred(node))),
        None if is_single => check_others(services, &wanted)?,
        None => {}
    }
    let judge = |attachment: Option<&VolumeAttachment>| match attachment {
        Some(attachment) if is_attached(attachment) => Some(Ok(attachment.clone())),
        Some(attachment) => trouble(attachment, &name, "attached").map(Err),
        None => Some(Err(Error::Missing {
            kind: "VolumeAttachment",
            name: name.clone(),
        })),
    };
    let made = objects.ensure(&wanted, existing.is_none());
    let attachment = objects
        .until_after(made, &name, "attached", deadline, judge)
        .await?;
    let publication = publication(services, &volume, &attachment)?;
    Ok(ControllerPublishVolumeResponse {
        publish_context: publication.into(),
    })
}

/// The VSCNode, if volumes may be on its node at all.
async fn open_node(services: &Services, name: &str) -> Result<VscNode, Error> {
    let found = services.objects.writer.read::<VscNode>(name).await?;
    let node = found.ok_or_else(|| Error::Missing {
        kind: "VSCNode",
        name: name.to_owned(),
    })?;
    if node.annotations().contains_key(FENCED) {
        return Err(Error::Precondition(format!(
            "node `{name}` was lost and is fenced: nothing is attached to it until it is ready again and no disk of before is in use there. {}",
            how_to_forget(name)
        )));
    }
    Ok(node)
}

fn wanted(name: &str, volume: &Volume, node: &str, read_only: bool) -> VolumeAttachment {
    VolumeAttachment {
        metadata: held(name),
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

/// Whether a volume for one node is on no other. One that is leaving is there until its array has detached it: so long whoever
/// moves a pod has to wait, and calls again.
fn check_others(services: &Services, wanted: &VolumeAttachment) -> Result<(), Error> {
    let attachments = services.objects.cluster.attachments.store();
    let all = attachments.in_group(&of_volume(&wanted.spec.volume_name));
    let is_other = |it: &VolumeAttachment| {
        it.spec.vsc_node_name != wanted.spec.vsc_node_name && !is_detached(it)
    };
    let Some(other) = all.iter().find(|it| is_other(&it.object)) else {
        return Ok(());
    };
    Err(Error::Precondition(format!(
        "volume `{}` is attached to node `{}`, and can be used on one node only: it has to be detached there first",
        wanted.spec.volume_name, other.object.spec.vsc_node_name
    )))
}

/// Its array has detached it, and only its Server record is left to be removed.
fn is_detached(attachment: &VolumeAttachment) -> bool {
    let state = attachment.status.as_ref().map(|it| &it.state);
    attachment.metadata.deletion_timestamp.is_some() && state == Some(&AttachmentState::Deleting)
}

/// Whether the attachment that is there is the one that is asked for.
fn compare(there: &VolumeAttachment, wanted: &VolumeAttachment) -> Result<(), Error> {
    if there.spec.read_only == wanted.spec.read_only {
        return Ok(());
    }
    let mode = if there.spec.read_only {
        "read-only"
    } else {
        "writable"
    };
    Err(Error::Incompatible {
        kind: "VolumeAttachment",
        name: there.name_any(),
        difference: format!("another mode: {mode}"),
    })
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
        return Ok(Publication::Nfs(Share {
            path: status.nas.map(|it| it.nfs_export_path).unwrap_or_default(),
            read_only: attachment.spec.read_only,
        }));
    }
    let array = services.objects.cluster.arrays.store().get(&status.vpsa_id);
    let array = array
        .and_then(|it| it.object.status.clone())
        .unwrap_or_default();
    let disk = attachment.status.as_ref().and_then(|it| it.block.clone());
    let disk = disk.unwrap_or_default();
    // Any number in place of one that is not known would be another disk.
    let (Ok(lun), false) = (u64::try_from(disk.lun), disk.target.is_empty()) else {
        return Err(Error::Precondition(format!(
            "VolumeAttachment `{}` does not say which disk of which target it is",
            attachment.name_any()
        )));
    };
    if array.portals.is_empty() {
        return Err(Error::Precondition(format!(
            "VPSA `{}` does not say where its disks are reached",
            status.vpsa_id
        )));
    }
    Ok(Publication::Iscsi(Iscsi {
        array: status.vpsa_id,
        portals: array.portals,
        target: disk.target,
        lun,
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
            annotations: Some([(ADOPTED.to_owned(), place)].into()),
            ..held(name)
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
