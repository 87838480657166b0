//! The calls to the driver, and the writes around them in the order that makes them safe.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::ControllerUnpublishVolumeRequest;
use stowage_kubernetes::queue::Verdict;
use stowage_kubernetes::secrets;

use super::{View, Worker};
use crate::attach::failure::Failure;
use crate::attach::step::{Attach, Detach};
use crate::cluster::attachment::Attachment;

impl Worker {
    /// The order is what makes it safe: whoever dies in between leaves the marks, and with them the next one knows
    /// what to undo.
    pub(super) async fn attach(&self, view: &View, attach: Attach) -> Result<(), Failure> {
        let secrets = secrets::read(&self.client, attach.secret.as_ref()).await?;
        if let Some(mut leave) = attach.leave {
            leave.secrets.clone_from(&secrets);
            self.unpublish(leave).await?;
        }
        self.mark(view, &attach.marks).await?;
        let attachment = &*view.attachment;
        let undo = Detach {
            request: ControllerUnpublishVolumeRequest {
                volume_id: attach.request.volume_id.clone(),
                node_id: attach.request.node_id.clone(),
                secrets: BTreeMap::new(),
            },
            secret: attach.secret,
        };
        self.unsure.begin(&attachment.name, undo);
        let mut request = attach.request;
        request.secrets = secrets;
        let mut controller = self.controller.clone();
        let answer = controller.controller_publish_volume(request).await?;
        if self.is_deleted_by_now(attachment) {
            // The queue for detaching has it, and nobody would read the status.
            return Ok(());
        }
        let context = &answer.get_ref().publish_context;
        match self.set_attached(attachment, context).await {
            Ok(()) => self.unsure.end(&attachment.name),
            Err(failure) if failure.is_attachment_gone() => self.undo(&attachment.name).await?,
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    pub(super) async fn set_attached(
        &self,
        attachment: &Attachment,
        context: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        self.writer.set_attached(attachment, context).await?;
        tracing::info!(
            volume = attachment.volume,
            node = attachment.node,
            "Attached."
        );
        Ok(())
    }

    /// The finalizer goes first: whoever waits for the end of the attachment waits for that.
    pub(super) async fn detach(
        &self,
        attachment: &Attachment,
        detach: Detach,
    ) -> Result<(), Failure> {
        self.unpublish_with_secret(detach).await?;
        self.unsure.end(&attachment.name);
        tracing::info!(
            volume = attachment.volume,
            node = attachment.node,
            "Detached."
        );
        self.release(attachment).await
    }

    pub(super) async fn release(&self, attachment: &Attachment) -> Result<(), Failure> {
        let held = !attachment.has_finalizer(&self.rules.finalizer)
            || self.writer.unmark_attachment(attachment).await?;
        if held {
            self.writer.set_detached(attachment).await?;
        }
        Ok(())
    }

    /// The attachment is gone: nothing is left that would remind anybody to detach what it stood for.
    pub(super) async fn clean_up(&self, name: &str) -> Verdict {
        match self.undo(name).await {
            Ok(()) => Verdict::Done,
            Err(failure) => {
                let reason = failure.volume_error(self.error_codes).message;
                tracing::warn!(
                    attachment = name,
                    reason,
                    "The attachment was taken away, and its volume cannot be detached; trying again."
                );
                Verdict::Retry(reason)
            }
        }
    }

    async fn undo(&self, name: &str) -> Result<(), Failure> {
        let Some(undo) = self.unsure.undo(name) else {
            return Ok(());
        };
        let volume = undo.request.volume_id.clone();
        self.unpublish_with_secret(undo).await?;
        self.unsure.end(name);
        tracing::info!(
            attachment = name,
            handle = volume,
            "Detached: the attachment was taken away."
        );
        Ok(())
    }

    pub(in crate::attach) async fn unpublish_with_secret(
        &self,
        detach: Detach,
    ) -> Result<(), Failure> {
        let mut request = detach.request;
        request.secrets = secrets::read(&self.client, detach.secret.as_ref()).await?;
        self.unpublish(request).await
    }

    async fn unpublish(&self, request: ControllerUnpublishVolumeRequest) -> Result<(), Failure> {
        let mut controller = self.controller.clone();
        controller.controller_unpublish_volume(request).await?;
        Ok(())
    }
}
