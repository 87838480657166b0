//! The steps that talk to an array.

use std::sync::Arc;

use stowage_api::vpsa::{
    AttachType, AttachmentState, VolumeAttachment, VolumeAttachmentStatus, VscNode,
};

use super::{Attachments, Look};
use crate::rest::api::{Access, NewServer};
use crate::rest::wire::Server;
use crate::rest::{Api, ApiError, Outcome, Refusal, ServerId, VolumeId};
use crate::vsc::attachment::server::{Host, best, second_name};
use crate::vsc::attachment::step::{Seen, Step};
use crate::vsc::cluster::Kept;
use crate::vsc::condition::Reason;
use crate::vsc::context::SOON;
use crate::vsc::error::StepError;

impl Attachments {
    async fn api(&self, attachment: &VolumeAttachment) -> Result<(Api, VolumeId), StepError> {
        let volume = &attachment.spec.volume_name;
        let missing = || StepError::Missing(format!("Volume `{volume}` is not on a VPSA"));
        let place = self.context.cluster.place(volume).ok_or_else(missing)?;
        let id = place.id.parse().map_err(|_| missing())?;
        Ok((self.context.api(&place.vpsa_id).await?, id))
    }

    /// What the array has. One request, if the volume is attached.
    pub(super) async fn ask(&self, attachment: &VolumeAttachment) -> Result<Seen, StepError> {
        let (api, volume) = self.api(attachment).await?;
        let node = &attachment.spec.vsc_node_name;
        let node = self.context.cluster.nodes.store().get(node);
        let host = node.as_ref().map(|node| Host::of(&node.object.spec));
        let known = self.known_servers(attachment);
        let is_it = |server: &Server| {
            known.contains(&server.id)
                || (known.is_empty() && host.is_some_and(|host| host.is(server)))
        };
        let attached = match api.volume_servers(&volume).await {
            Err(error) if error.is_not_found() => Vec::new(),
            found => found?,
        };
        if let Some(attached) = attached.into_iter().find(|it| is_it(&it.server)) {
            return Ok(Seen {
                server: Some(attached.server.clone()),
                attached: Some(attached),
            });
        }
        let attach_type = &attachment.spec.attach_type;
        let mut records = Vec::new();
        for id in &known {
            records.extend(api.server(id).await?);
            // Whoever leaves is only about its own.
            let is_leaving = attachment.metadata.deletion_timestamp.is_some();
            let is_good =
                |it: &Server| host.is_some_and(|host| host.is_reached_by(it, attach_type));
            if records.last().is_some_and(|it| is_leaving || is_good(it)) {
                return Ok(Seen {
                    server: records.pop(),
                    attached: None,
                });
            }
        }
        let Some(host) = host else {
            return Ok(Seen::default());
        };
        let found = api.servers().await?.into_iter();
        records.extend(found.filter(|it| host.is(it)));
        Ok(Seen {
            server: best(records, host, attach_type),
            attached: None,
        })
    }

    /// The Server records that were recorded for the node on this array, its own first.
    fn known_servers(&self, attachment: &VolumeAttachment) -> Vec<ServerId> {
        let own = attachment.status.clone().into_iter();
        let all = own.chain(self.others(attachment));
        let mut known: Vec<ServerId> = Vec::new();
        for id in all.filter_map(|status| status.vpsa_server_id?.parse().ok()) {
            if !known.contains(&id) {
                known.push(id);
            }
        }
        known
    }

    /// Changes something on the array. What it only takes on is seen by the next look.
    pub(super) async fn change(
        &self,
        attachment: &VolumeAttachment,
        step: &Step,
        look: &mut Look,
    ) -> Result<(), StepError> {
        let (api, volume) = self.api(attachment).await?;
        let server = look.seen.take().and_then(|seen| seen.server);
        let done = match (step, server.map(|it| (it.id.clone(), it))) {
            (Step::CreateServer, first) => {
                let is_second = first.is_some();
                return self.create_server(attachment, &api, is_second).await;
            }
            (Step::RepairServer, Some((id, server))) => {
                look.repairs += 1;
                let node = self.node(attachment)?;
                let attach_type = &attachment.spec.attach_type;
                let second = second_name(&node.object.spec.display_name, attach_type);
                let wanted = Description::of(&node, attach_type, server.display_name == second);
                let done = in_use(api.configure_server(&id, &wanted.server()).await, look)?;
                if !look.in_use {
                    self.tell_repaired(attachment, &server);
                }
                done
            }
            (Step::Attach, Some((id, _))) => {
                self.attach(attachment, &api, (&volume, &id), look).await?
            }
            (Step::Detach, Some((id, _))) => {
                look.detached = true;
                api.detach_volume(&volume, &[&id]).await?
            }
            (Step::DeleteServer, Some((id, _))) => {
                look.removed = true;
                in_use(api.delete_server(&id).await, look)?
            }
            _ => Outcome::Done(()),
        };
        if done == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Nothing is attached to a node that may still use a disk which was detached: it would get the number of that.
    async fn attach(
        &self,
        attachment: &VolumeAttachment,
        api: &Api,
        (volume, server): (&VolumeId, &ServerId),
        look: &mut Look,
    ) -> Result<Outcome<()>, StepError> {
        let is_disk = attachment.spec.attach_type == AttachType::Iscsi;
        // Held until the array has given it a number; shares have none.
        let inside = if is_disk {
            self.enter(&attachment.spec.vsc_node_name).await?
        } else {
            None
        };
        look.barred = is_disk && inside.is_none();
        if look.barred {
            return Ok(Outcome::Done(()));
        }
        look.asked = true;
        self.remember(attachment, server).await?;
        let access = if is_disk { Access::Block } else { Access::Nfs };
        let read_only = attachment.spec.read_only;
        Ok(api.attach_volume(server, volume, access, read_only).await?)
    }

    /// Somebody edited the record on the array, or the node has another address or initiator than before.
    fn tell_repaired(&self, attachment: &VolumeAttachment, before: &Server) {
        let Server {
            id,
            display_name,
            iscsi_ip,
            iqn,
            ..
        } = before;
        let message = format!(
            "Server record `{display_name}` ({id}) had the address `{iscsi_ip}` and the initiator `{iqn}`: it was changed to those of VSCNode `{}`",
            attachment.spec.vsc_node_name
        );
        let reason = Reason::ready("ServerRepaired", message);
        self.context.tell(attachment, &reason, false);
    }

    /// Called twice: the record is found by the node's IQN or address before.
    async fn create_server(
        &self,
        attachment: &VolumeAttachment,
        api: &Api,
        is_second: bool,
    ) -> Result<(), StepError> {
        let node = self.node(attachment)?;
        let wanted = Description::of(&node, &attachment.spec.attach_type, is_second);
        match api.create_server(&wanted.server()).await? {
            Outcome::Done(id) => self.remember(attachment, &id).await,
            Outcome::Submitted => {
                tokio::time::sleep(SOON).await;
                Ok(())
            }
        }
    }

    fn node(&self, attachment: &VolumeAttachment) -> Result<Arc<Kept<VscNode>>, StepError> {
        let name = &attachment.spec.vsc_node_name;
        let node = self.context.cluster.nodes.store().get(name);
        node.ok_or_else(|| StepError::Missing(format!("VSCNode `{name}` does not exist")))
    }

    /// Records the Server record before anything is attached to it.
    async fn remember(
        &self,
        attachment: &VolumeAttachment,
        id: &ServerId,
    ) -> Result<(), StepError> {
        let before = attachment.status.clone().unwrap_or_default();
        let status = VolumeAttachmentStatus {
            state: AttachmentState::Attaching,
            vpsa_server_id: Some(id.to_string()),
            ..before.clone()
        };
        if status != before {
            self.context.writer.set_status(attachment, &status).await?;
        }
        Ok(())
    }
}

/// What came of changing or removing a Server record, which the array does not do while volumes are attached to it.
fn in_use(done: Result<Outcome<()>, ApiError>, look: &mut Look) -> Result<Outcome<()>, ApiError> {
    match done {
        Err(error) if error.refusal() == Some(Refusal::Attached) => {
            look.in_use = true;
            Ok(Outcome::Done(()))
        }
        done => done,
    }
}

/// A Server record as the VSCNode wants it.
struct Description<'a> {
    name: String,
    ip: Option<&'a str>,
    iqn: Option<&'a str>,
}

impl<'a> Description<'a> {
    /// A second record has only what volumes of this kind are reached by: the first has the rest.
    fn of(node: &'a Kept<VscNode>, attach_type: &AttachType, is_second: bool) -> Self {
        let host = Host::of(&node.object.spec);
        let is_for_disks = *attach_type == AttachType::Iscsi;
        let is_given = |it: &&str| !it.is_empty();
        Self {
            name: if is_second {
                second_name(host.name, attach_type)
            } else {
                host.name.to_owned()
            },
            ip: (!is_second || !is_for_disks)
                .then_some(host.ip)
                .filter(is_given),
            iqn: (!is_second || is_for_disks)
                .then_some(host.iqn)
                .filter(is_given),
        }
    }

    fn server(&self) -> NewServer<'_> {
        NewServer {
            display_name: &self.name,
            ip: self.ip,
            iqn: self.iqn,
            chap: None,
        }
    }
}
