//! What is to be done next for a VolumeAttachment. Nothing here does anything.

use stowage_api::vpsa::{AttachType, AttachmentState, VolumeAttachmentSpec};

use super::in_use::why_barred;
use super::server::{Host, is_named_after};
use crate::rest::wire::{AttachedServer, Server};
use crate::vsc::condition::Reason;

/// The reason of what waits for a node that may still use a disk which was detached.
pub const NOT_CLEAN: &str = "NodeNotClean";

/// What is so.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct Observed<'a> {
    /// The object is held until we have let go.
    pub held: bool,
    /// The object is to go.
    pub deleting: bool,
    /// What was last said of it.
    pub recorded: Option<&'a AttachmentState>,
    /// Whether its volume is on an array.
    pub volume: bool,
    /// How arrays know its node, if that is known.
    pub host: Option<Host<'a>>,
    /// Another attachment needs the Server record.
    pub shared: bool,
    /// The node says that it has a session with the array.
    pub session: bool,
    /// What the array has, if it was asked.
    pub seen: Option<&'a Seen>,
    /// The array was asked to attach it in this look already.
    pub asked: bool,
    /// The array does not change or remove the Server record, because others use it.
    pub in_use: bool,
    /// The array was told in this look what the Server record should say, more than once.
    pub repaired: bool,
    /// The node may still use its disk, so that its next disk of the same number must wait.
    pub may_be_used: bool,
    /// It is said so on the VSCNode.
    pub marked: bool,
    /// Nothing new is attached to the node.
    pub barred: bool,
    /// Another node has its initiator or address.
    pub twin: Option<&'a Reason>,
}

/// What the array has.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Server record of the node.
    pub server: Option<Server>,
    /// How the volume is attached to it, if it is.
    pub attached: Option<AttachedServer>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the object until we have let go.
    Hold,
    /// Ask the array.
    Ask,
    /// Make a Server record for the node; a second one if the first has to stay as it is.
    CreateServer,
    /// Let the Server record say what the VSCNode says.
    RepairServer,
    /// Attach the volume.
    Attach,
    /// Say on the VSCNode that a disk is detached which the node may still use.
    Mark,
    /// Detach the volume.
    Detach,
    /// Remove the Server record.
    DeleteServer,
    /// Say how it is.
    Record(AttachmentState, Reason),
    /// Let the object go.
    LetGo,
    /// Nothing.
    Rest,
}

/// What is to be done next. Whoever has recorded the same twice rests.
pub fn next_step(wanted: &VolumeAttachmentSpec, observed: &Observed<'_>) -> Step {
    if observed.deleting {
        return leave(wanted, observed);
    }
    if !observed.held {
        return Step::Hold;
    }
    let host = match fit(wanted, observed) {
        Ok(host) => host,
        Err(step) => return step,
    };
    let Some(seen) = observed.seen else {
        return Step::Ask;
    };
    let Some(server) = &seen.server else {
        return Step::CreateServer;
    };
    match &seen.attached {
        // Nobody could use it.
        Some(_) if !host.is_reached_by(server, &wanted.attach_type) => Step::Detach,
        Some(attached) => keep(wanted, observed, attached),
        None if !host.is_reached_by(server, &wanted.attach_type) => {
            if observed.in_use {
                Step::CreateServer
            } else if observed.repaired {
                let message = format!(
                    "Server record `{}` ({}) was given the node's address and initiator, and shows `{}` and `{}`",
                    server.display_name, server.id, server.iscsi_ip, server.iqn
                );
                not_ready(AttachmentState::Failed, "ServerNotRepaired", message)
            } else {
                Step::RepairServer
            }
        }
        None if observed.asked => {
            let message = "the array is attaching it".to_owned();
            not_ready(AttachmentState::Attaching, "Attaching", message)
        }
        None if observed.barred => {
            let message = why_barred(&wanted.vsc_node_name);
            not_ready(AttachmentState::Attaching, NOT_CLEAN, message)
        }
        None => Step::Attach,
    }
}

/// The node, if the volume can be on it.
fn fit<'a>(wanted: &VolumeAttachmentSpec, observed: &Observed<'a>) -> Result<Host<'a>, Step> {
    if !observed.volume {
        let message = format!("Volume `{}` is not on a VPSA yet", wanted.volume_name);
        let state = AttachmentState::Creating;
        return Err(not_ready(state, "NoVolume", message));
    }
    let Some(host) = observed.host else {
        let message = format!(
            "VSCNode `{}` does not exist: the driver's pod on that node makes it",
            wanted.vsc_node_name
        );
        return Err(not_ready(AttachmentState::Creating, "NoNode", message));
    };
    if let Some(lack) = host.lack(&wanted.attach_type) {
        let state = AttachmentState::Failed;
        return Err(not_ready(state, "NodeNotFit", lack.to_owned()));
    }
    match observed.twin {
        Some(twin) if !was_attached(observed) => {
            Err(Step::Record(AttachmentState::Failed, twin.clone()))
        }
        _ => Ok(host),
    }
}

/// What was attached before anybody looked for twins stays.
fn was_attached(observed: &Observed<'_>) -> bool {
    matches!(
        observed.recorded,
        Some(AttachmentState::Ready | AttachmentState::IscsiLoginPending)
    )
}

/// The array has it.
fn keep(wanted: &VolumeAttachmentSpec, observed: &Observed<'_>, attached: &AttachedServer) -> Step {
    if wanted.attach_type == AttachType::Iscsi && attached.disk().is_none() {
        let message = "the array has not given it a number and a target yet".to_owned();
        return not_ready(AttachmentState::Attaching, "Attaching", message);
    }
    if attached.read_only != wanted.read_only {
        let is = if attached.read_only {
            "read-only"
        } else {
            "writable"
        };
        let message = format!("the volume is attached to the node, but {is}: detach it first");
        return not_ready(AttachmentState::Failed, "OtherMode", message);
    }
    if wanted.attach_type == AttachType::Iscsi && !observed.session {
        let message = "it is attached; the node has not logged in yet".to_owned();
        return not_ready(
            AttachmentState::IscsiLoginPending,
            "ISCSILoginPending",
            message,
        );
    }
    let reason = Reason::ready("Ready", "the node can mount it");
    Step::Record(AttachmentState::Ready, reason)
}

fn leave(wanted: &VolumeAttachmentSpec, observed: &Observed<'_>) -> Step {
    if !observed.held {
        return Step::Rest;
    }
    if !observed.volume {
        return Step::LetGo;
    }
    let Some(seen) = observed.seen else {
        return Step::Ask;
    };
    if seen.attached.is_some() {
        let message = "the array is detaching it".to_owned();
        return match observed.recorded {
            Some(AttachmentState::Detaching) if observed.may_be_used && !observed.marked => {
                Step::Mark
            }
            Some(AttachmentState::Detaching) => Step::Detach,
            _ => not_ready(AttachmentState::Detaching, "Detaching", message),
        };
    }
    // A record of another name was made by somebody else.
    let is_ours = |server: &Server| {
        let node = wanted.vsc_node_name.as_str();
        is_named_after(server, observed.host.map_or(node, |host| host.name))
    };
    if observed.shared || observed.in_use || !seen.server.as_ref().is_some_and(is_ours) {
        return Step::LetGo;
    }
    let message = "the Server record of the node goes with it".to_owned();
    match observed.recorded {
        Some(AttachmentState::Deleting) => Step::DeleteServer,
        _ => not_ready(AttachmentState::Deleting, "Deleting", message),
    }
}

fn not_ready(state: AttachmentState, word: &'static str, message: String) -> Step {
    Step::Record(state, Reason::not_ready(word, message))
}

#[cfg(test)]
mod tests;
