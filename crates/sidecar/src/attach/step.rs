//! What to do for an attachment, decided from what is known of the cluster. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use stowage_csi::proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};

use crate::access::{self, AccessError};
use crate::cluster::attachment::{Attachment, NODE_ID};
use crate::cluster::node::CsiNode;
use crate::cluster::volume::Volume;
use crate::driver::Driver;
use crate::role::sanitised;

/// What is the same for all attachments of a driver.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) driver: String,
    /// Keeps volumes and attachments until they are detached.
    pub(super) finalizer: String,
    /// Whether the driver attaches at all; if not, everything is attached as soon as somebody asks.
    pub(super) publishes: bool,
    pub(super) publishes_read_only: bool,
    pub(super) single_node_multi_writer: bool,
    pub(super) default_fs_type: String,
}

/// The next thing to do for an attachment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Everything is as it should be.
    Rest,
    /// The driver attaches nothing: say that it is attached.
    Answer,
    /// It is attached, but lacks what a later detach needs.
    Protect(Marks),
    Attach(Box<Attach>),
    Detach(Box<Detach>),
    /// The driver attaches nothing: there is nothing to undo.
    Release,
    /// Nothing can be done until something else changes.
    Wait(Problem),
}

/// What is written before the driver is called, so that whoever comes after us knows that it may have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The volume's object lacks the finalizer.
    pub(super) volume: bool,
    /// The attachment lacks the finalizer, or does not name this node id.
    pub(super) attachment: bool,
    pub(super) node_id: String,
}

/// A volume is to be attached.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attach {
    /// An earlier attempt was for the same node under another id: it may have succeeded.
    pub(super) leave: Option<ControllerUnpublishVolumeRequest>,
    pub(super) marks: Marks,
    /// Complete but for the secrets.
    pub(super) request: ControllerPublishVolumeRequest,
    pub(super) secret: Option<SecretReference>,
}

/// A volume is to be detached. Whether it ever was attached is not asked: the driver may have done it without
/// being able to say so, and detaching what is not attached is no error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Detach {
    /// Complete but for the secrets.
    pub(super) request: ControllerUnpublishVolumeRequest,
    pub(super) secret: Option<SecretReference>,
}

/// What must change before an attachment can be worked on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(
        "the attachment does not name a PersistentVolume: inline volumes are in-tree volumes, which driver `{0}` does not serve"
    )]
    Inline(String),
    #[error(
        "PersistentVolume `{volume}` does not exist or is not a volume of driver `{driver}`: create it, or delete the attachment"
    )]
    VolumeMissing { volume: String, driver: String },
    #[error(
        "PersistentVolume `{volume}` is of an in-tree plugin, which is not translated for driver `{driver}` here: make a \
         PersistentVolume of the driver itself for it, or run the Go attacher for such volumes"
    )]
    InTree { volume: String, driver: String },
    #[error("PersistentVolume `{0}` is being deleted and cannot be attached any more")]
    VolumeDeleting(String),
    #[error(
        "driver `{driver}` is not registered on node `{node}`: check that its node plugin runs there"
    )]
    NodeUnknown { node: String, driver: String },
    #[error("PersistentVolume `{0}`: {1}")]
    Access(String, AccessError),
    #[error(
        "PersistentVolume `{volume}` is gone, and with it what the storage calls the volume: make sure there that it is \
         not attached to node `{node}`, then remove finalizer `{finalizer}` from the attachment"
    )]
    VolumeLost {
        volume: String,
        node: String,
        finalizer: String,
    },
    #[error(
        "nobody knows what the storage calls node `{node}`: driver `{driver}` is not registered there, and the \
         attachment has no annotation `{NODE_ID}`: set it, or detach the volume at the storage and remove finalizer \
         `{finalizer}` from the attachment"
    )]
    NodeLost {
        node: String,
        driver: String,
        finalizer: String,
    },
}

impl Rules {
    pub(super) fn of(driver: &Driver, default_fs_type: &str) -> Self {
        let can = driver.capabilities();
        Self {
            driver: driver.name().to_string(),
            finalizer: finalizer(driver.name().as_str()),
            publishes: super::publishes(can),
            publishes_read_only: can.publish_readonly(),
            single_node_multi_writer: can.single_node_multi_writer(),
            default_fs_type: default_fs_type.to_owned(),
        }
    }
}

/// The finalizer of a driver's attacher, Go's or ours.
pub(super) fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", sanitised(driver))
}

/// Decides. `doubted`: the driver says that what we think is attached is not; then it is attached once more, if it
/// still can be.
pub(super) fn next_step(
    rules: &Rules,
    attachment: &Attachment,
    volume: Option<&Volume>,
    node: Option<&CsiNode>,
    doubted: bool,
) -> Step {
    if let Some(volume) = volume.filter(|volume| volume.is_in_tree() && rules.publishes) {
        return in_tree(rules, attachment, volume);
    }
    let again = doubted && node.is_some() && volume.is_some_and(|volume| !volume.deleting);
    match (rules.publishes, attachment.deleting) {
        (true, true) => detach(rules, attachment, volume, node),
        (true, false) if attachment.attached && !again => protect(rules, attachment, volume, node),
        (true, false) => attach(rules, attachment, volume, node),
        (false, true) if attachment.has_finalizer(&rules.finalizer) => Step::Release,
        (false, false) if !attachment.attached => Step::Answer,
        (false, _) => Step::Rest,
    }
}

/// Nothing is asked of the driver for what it knows by another name.
fn in_tree(rules: &Rules, attachment: &Attachment, volume: &Volume) -> Step {
    let done = if attachment.deleting {
        !attachment.has_finalizer(&rules.finalizer)
    } else {
        attachment.attached
    };
    if done {
        return Step::Rest;
    }
    Step::Wait(Problem::InTree {
        volume: volume.name.clone(),
        driver: rules.driver.clone(),
    })
}

fn attach(
    rules: &Rules,
    attachment: &Attachment,
    volume: Option<&Volume>,
    node: Option<&CsiNode>,
) -> Step {
    let volume = match (&attachment.volume, volume) {
        (None, _) => return Step::Wait(Problem::Inline(rules.driver.clone())),
        (Some(name), None) => {
            return Step::Wait(Problem::VolumeMissing {
                volume: name.clone(),
                driver: rules.driver.clone(),
            });
        }
        (Some(_), Some(volume)) => volume,
    };
    if volume.deleting {
        return Step::Wait(Problem::VolumeDeleting(volume.name.clone()));
    }
    let Some(node) = node else {
        return Step::Wait(Problem::NodeUnknown {
            node: attachment.node.clone(),
            driver: rules.driver.clone(),
        });
    };
    let mode = match access::merged_mode(&volume.access_modes, rules.single_node_multi_writer) {
        Ok(mode) => mode,
        Err(error) => return Step::Wait(Problem::Access(volume.name.clone(), error)),
    };
    let csi = &volume.csi;
    let fs_type = csi.fs_type.as_deref().unwrap_or(&rules.default_fs_type);
    let other_id = known_id(attachment).filter(|id| *id != node.node_id);
    Step::Attach(Box::new(Attach {
        leave: other_id.map(|id| unpublish(volume, id)),
        marks: Marks {
            volume: !volume.has_finalizer(&rules.finalizer),
            attachment: !attachment.has_finalizer(&rules.finalizer)
                || known_id(attachment) != Some(&node.node_id),
            node_id: node.node_id.clone(),
        },
        request: ControllerPublishVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            node_id: node.node_id.clone(),
            volume_capability: Some(access::capability(
                mode,
                volume.block,
                fs_type,
                &volume.mount_options,
            )),
            readonly: rules.publishes_read_only && csi.read_only,
            secrets: BTreeMap::new(),
            volume_context: csi.attributes(),
        },
        secret: csi.controller_publish_secret.as_deref().cloned(),
    }))
}

/// An attachment that an old attacher made, or somebody trimmed: it would vanish without being detached, or could
/// not be detached once its node is gone.
fn protect(
    rules: &Rules,
    attachment: &Attachment,
    volume: Option<&Volume>,
    node: Option<&CsiNode>,
) -> Step {
    let node_id = known_id(attachment).or(node.map(|node| node.node_id.as_str()));
    let (Some(volume), Some(node_id)) = (volume, node_id) else {
        return Step::Rest;
    };
    let marks = Marks {
        // No finalizer can be added to what is being deleted.
        volume: !volume.deleting && !volume.has_finalizer(&rules.finalizer),
        attachment: !attachment.has_finalizer(&rules.finalizer) || known_id(attachment).is_none(),
        node_id: node_id.to_owned(),
    };
    if marks.volume || marks.attachment {
        Step::Protect(marks)
    } else {
        Step::Rest
    }
}

/// The id that the attachment carries comes first: it is the one that the volume was attached with. A node may have
/// been replaced by another one of the same name since.
fn detach(
    rules: &Rules,
    attachment: &Attachment,
    volume: Option<&Volume>,
    node: Option<&CsiNode>,
) -> Step {
    let marked = attachment.has_finalizer(&rules.finalizer);
    if !marked && !attachment.attached {
        return Step::Rest;
    }
    let node_id = known_id(attachment).or(node.map(|node| node.node_id.as_str()));
    match (volume, node_id) {
        (Some(volume), Some(node_id)) => Step::Detach(Box::new(Detach {
            request: unpublish(volume, node_id),
            secret: volume.csi.controller_publish_secret.as_deref().cloned(),
        })),
        // Nothing of ours holds it, and nothing can be done for it.
        _ if !marked => Step::Rest,
        (None, _) => Step::Wait(match &attachment.volume {
            None => Problem::Inline(rules.driver.clone()),
            Some(volume) => Problem::VolumeLost {
                volume: volume.clone(),
                node: attachment.node.clone(),
                finalizer: rules.finalizer.clone(),
            },
        }),
        (Some(_), None) => Step::Wait(Problem::NodeLost {
            node: attachment.node.clone(),
            driver: rules.driver.clone(),
            finalizer: rules.finalizer.clone(),
        }),
    }
}

/// Whether nothing holds a volume that is being deleted but our finalizer on its own object.
pub(super) fn may_go(rules: &Rules, volume: &Volume, attachments: usize) -> bool {
    volume.deleting && attachments == 0 && volume.has_finalizer(&rules.finalizer)
}

/// An empty id would mean all nodes to the driver.
fn known_id(attachment: &Attachment) -> Option<&str> {
    attachment.node_id.as_deref().filter(|id| !id.is_empty())
}

pub(super) fn unpublish(volume: &Volume, node_id: &str) -> ControllerUnpublishVolumeRequest {
    ControllerUnpublishVolumeRequest {
        volume_id: volume.csi.volume_handle.clone(),
        node_id: node_id.to_owned(),
        secrets: BTreeMap::new(),
    }
}
