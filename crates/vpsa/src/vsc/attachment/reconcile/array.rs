//! The steps that talk to an array.

use std::sync::Arc;

use stowage_api::vpsa::{
    AttachType, AttachmentState, VolumeAttachment, VolumeAttachmentStatus, VscNode,
};

use super::{Attachments, Look};
use crate::rest::api::{Access, NewServer};
use crate::rest::wire::Server;
use crate::rest::{Api, Outcome, Refusal, ServerId, VolumeId};
use crate::vsc::attachment::server::Host;
use crate::vsc::attachment::step::{Seen, Step};
use crate::vsc::cluster::Kept;
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
        let known = self.known_server(attachment);
        let is_it = |server: &Server| match &known {
            Some(id) => server.id == *id,
            None => host.is_some_and(|host| host.is(server)),
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
        let recorded = match &known {
            Some(id) => api.server(id).await?,
            None => None,
        };
        let server = match (recorded, host) {
            (Some(server), _) => Some(server),
            (None, Some(host)) => api.servers().await?.into_iter().find(|it| host.is(it)),
            (None, None) => None,
        };
        Ok(Seen {
            server,
            attached: None,
        })
    }

    /// The Server record that was recorded for the node on this array.
    fn known_server(&self, attachment: &VolumeAttachment) -> Option<ServerId> {
        let own = attachment.status.clone().into_iter();
        let mut all = own.chain(self.others(attachment));
        all.find_map(|status| status.vpsa_server_id?.parse().ok())
    }

    /// Changes something on the array. What it only takes on is seen by the next look.
    pub(super) async fn change(
        &self,
        attachment: &VolumeAttachment,
        step: &Step,
        look: &mut Look,
    ) -> Result<(), StepError> {
        let (api, volume) = self.api(attachment).await?;
        let server = look
            .seen
            .take()
            .and_then(|seen| seen.server)
            .map(|it| it.id);
        let done = match (step, server) {
            (Step::CreateServer, _) => return self.create_server(attachment, &api).await,
            (Step::RepairServer, Some(id)) => {
                let node = self.node(attachment)?;
                api.configure_server(&id, &described(&node)).await?
            }
            (Step::Attach, Some(id)) => {
                look.asked = true;
                self.remember(attachment, &id).await?;
                let access = match attachment.spec.attach_type {
                    AttachType::Iscsi => Access::Block,
                    AttachType::Nfs | AttachType::Other(_) => Access::Nfs,
                };
                api.attach_volume(&id, &volume, access, attachment.spec.read_only)
                    .await?
            }
            (Step::Detach, Some(id)) => {
                look.detached = true;
                api.detach_volume(&volume, &[&id]).await?
            }
            (Step::DeleteServer, Some(id)) => match api.delete_server(&id).await {
                Err(error) if error.refusal() == Some(Refusal::Attached) => {
                    look.in_use = true;
                    Outcome::Done(())
                }
                done => done?,
            },
            _ => Outcome::Done(()),
        };
        if done == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Called twice: the record is found by the node's IQN or address before.
    async fn create_server(
        &self,
        attachment: &VolumeAttachment,
        api: &Api,
    ) -> Result<(), StepError> {
        let node = self.node(attachment)?;
        match api.create_server(&described(&node)).await? {
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

/// A Server record as the VSCNode wants it.
fn described(node: &Kept<VscNode>) -> NewServer<'_> {
    let host = Host::of(&node.object.spec);
    NewServer {
        display_name: host.name,
        ip: Some(host.ip).filter(|it| !it.is_empty()),
        iqn: Some(host.iqn).filter(|it| !it.is_empty()),
        chap: None,
    }
}
