//! Does what was decided: one attempt for one attachment or volume at a time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::ControllerUnpublishVolumeRequest;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};
use stowage_kubernetes::secrets;

use super::Setup;
use super::failure::Failure;
use super::lanes::{Lane, Lanes};
use super::step::{Attach, Detach, Marks, Rules, Step, may_go, next_step};
use super::turns::Turns;
use super::unsure::Unsure;
use super::write::Writer;
use crate::cluster::Cluster;
use crate::cluster::attachment::Attachment;
use crate::cluster::node::DriverNode;
use crate::cluster::volume::Volume;

/// How often an object that changes under our hands is read again before it counts as a failure.
const ROUNDS: u32 = 3;
/// How often to look whether a node or volume that is missing has appeared. It costs nothing but a look at the cache.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Works on attachments.
pub(super) struct Worker {
    pub(super) rules: Rules,
    pub(super) cluster: Cluster,
    pub(super) lanes: Lanes,
    pub(super) controller: ControllerClient<Connection>,
    pub(super) doubted: Doubted,
    client: Client,
    writer: Writer,
    turns: Turns,
    unsure: Unsure,
    error_codes: bool,
}

/// Attachments that the driver does not list although they are attached.
#[derive(Default)]
pub(super) struct Doubted(Mutex<HashSet<Key>>);

/// What an attempt is decided from.
struct View {
    attachment: Arc<Attachment>,
    volume: Option<Arc<Volume>>,
    node: Option<Arc<DriverNode>>,
}

impl Doubted {
    pub(super) fn add(&self, key: Key) {
        let mut keys = self.0.lock();
        keys.insert(key);
    }

    fn take(&self, key: &Key) -> bool {
        let mut keys = self.0.lock();
        keys.remove(key)
    }
}

impl Worker {
    pub(super) fn new(setup: &Setup) -> Self {
        let rules = Rules::of(&setup.driver, &setup.default_fs_type);
        let own_node = setup.own_node.as_deref();
        let connection = setup.driver.connection();
        Self {
            writer: Writer::new(&setup.client, &rules.finalizer),
            rules,
            cluster: setup.cluster.clone(),
            lanes: setup
                .metrics
                .with_registry(|registry| Lanes::new(setup.backoff, own_node, registry)),
            controller: ControllerClient::new(connection.with_timeout(setup.settings.timeout)),
            doubted: Doubted::default(),
            client: setup.client.clone(),
            turns: Turns::default(),
            unsure: Unsure::default(),
            error_codes: setup.error_codes,
        }
    }

    /// Brings one attachment forward. Called twice: the second finds nothing to do.
    pub(super) async fn work(self: Arc<Self>, lane: Lane, key: Key) -> Verdict {
        let Some(_turn) = self.turns.take(&key, self.lanes.queue(lane)) else {
            return Verdict::Done;
        };
        let doubted = self.doubted.take(&key);
        let mut view = self.cached(&key);
        let mut round = 1;
        loop {
            let Some(current) = view else {
                return self.clean_up(&key).await;
            };
            if Lane::of(&current.attachment) != lane {
                // It is deleted by now, and the other lane's.
                return Verdict::Done;
            }
            let (volume, node) = (current.volume.as_deref(), current.node.as_deref());
            let step = next_step(&self.rules, &current.attachment, volume, node, doubted);
            let mut failure = match self.act(&current, step).await {
                Ok(()) => return Verdict::Done,
                Err(failure) => failure,
            };
            if failure.is_stale() && round < ROUNDS {
                round += 1;
                match self.fresh(&key).await {
                    Ok(fresh) => {
                        view = fresh;
                        continue;
                    }
                    Err(error) => failure = error.into(),
                }
            }
            return self.report(&current.attachment, failure).await;
        }
    }

    fn cached(&self, key: &str) -> Option<View> {
        let attachment = self.cluster.attachments.store().get(key)?;
        let volume = attachment.volume.as_deref();
        Some(View {
            volume: volume.and_then(|name| self.cluster.volumes.store().get(name)),
            node: self.cluster.driver_nodes.store().get(&attachment.node),
            attachment,
        })
    }

    async fn fresh(&self, key: &str) -> Result<Option<View>, ObjectError> {
        let driver = self.rules.driver.as_str();
        let attachment = self.writer.read_attachment(key).await?;
        let Some(attachment) = attachment.and_then(|wire| Attachment::read(wire, driver)) else {
            return Ok(None);
        };
        let volume = match &attachment.volume {
            None => None,
            Some(name) => self.writer.read_volume(name).await?,
        };
        Ok(Some(View {
            volume: volume
                .and_then(|wire| Volume::read(wire, driver))
                .map(Arc::new),
            node: self.cluster.driver_nodes.store().get(&attachment.node),
            attachment: Arc::new(attachment),
        }))
    }

    async fn act(&self, view: &View, step: Step) -> Result<(), Failure> {
        let attachment = &*view.attachment;
        let done = match step {
            Step::Rest => return Ok(()),
            Step::Wait(problem) => return Err(problem.into()),
            Step::Answer => self.set_attached(attachment, &BTreeMap::new()).await,
            Step::Protect(marks) => self.mark(view, &marks).await,
            Step::Attach(attach) => self.attach(view, *attach).await,
            Step::Detach(detach) => self.detach(attachment, *detach).await,
            Step::Release => self.release(attachment).await,
        };
        match done {
            // Somebody took it away, which is what we would have ended with.
            Err(failure) if failure.is_attachment_gone() => Ok(()),
            done => done,
        }
    }

    async fn mark(&self, view: &View, marks: &Marks) -> Result<(), Failure> {
        if let (true, Some(volume)) = (marks.volume, &view.volume) {
            self.writer.mark_volume(volume).await?;
        }
        if marks.attachment {
            let attachment = &view.attachment;
            self.writer
                .mark_attachment(attachment, &marks.node_id)
                .await?;
        }
        Ok(())
    }

    /// The order is what makes it safe: whoever dies in between leaves the marks, and with them the next one knows
    /// what to undo.
    async fn attach(&self, view: &View, attach: Attach) -> Result<(), Failure> {
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
            // It is the other lane's, which detaches it again: nobody would read the status.
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

    async fn set_attached(
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
    async fn detach(&self, attachment: &Attachment, detach: Detach) -> Result<(), Failure> {
        self.unpublish_with_secret(detach).await?;
        self.unsure.end(&attachment.name);
        tracing::info!(
            volume = attachment.volume,
            node = attachment.node,
            "Detached."
        );
        self.release(attachment).await
    }

    async fn release(&self, attachment: &Attachment) -> Result<(), Failure> {
        let held = !attachment.has_finalizer(&self.rules.finalizer)
            || self.writer.unmark_attachment(attachment).await?;
        if held {
            self.writer.set_detached(attachment).await?;
        }
        Ok(())
    }

    /// The attachment is gone: nothing is left that would remind anybody to detach what it stood for.
    async fn clean_up(&self, name: &str) -> Verdict {
        match self.undo(name).await {
            Ok(()) => Verdict::Done,
            Err(failure) => {
                let reason = failure.shown(self.error_codes).message;
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

    async fn unpublish_with_secret(&self, detach: Detach) -> Result<(), Failure> {
        let mut request = detach.request;
        request.secrets = secrets::read(&self.client, detach.secret.as_ref()).await?;
        self.unpublish(request).await
    }

    async fn unpublish(&self, request: ControllerUnpublishVolumeRequest) -> Result<(), Failure> {
        let mut controller = self.controller.clone();
        controller.controller_unpublish_volume(request).await?;
        Ok(())
    }

    fn is_deleted_by_now(&self, attachment: &Attachment) -> bool {
        let current = self.cluster.attachments.store().get(&attachment.name);
        current.is_some_and(|current| current.uid == attachment.uid && current.deleting)
    }

    /// Says what is wrong, where it is new: in the log and in the status, where the attach/detach controller finds it
    /// and tells the pod.
    async fn report(&self, attachment: &Attachment, failure: Failure) -> Verdict {
        if !attachment.deleting && self.is_deleted_by_now(attachment) {
            return Verdict::Done;
        }
        let shown = failure.shown(self.error_codes);
        let (told, done) = if attachment.deleting {
            (&attachment.detach_error, "detached")
        } else {
            (&attachment.attach_error, "attached")
        };
        if told.as_ref() != Some(&shown.message) {
            tracing::warn!(
                attachment = attachment.name,
                volume = attachment.volume,
                node = attachment.node,
                reason = shown.message,
                "A volume cannot be {done}; trying again.",
            );
            if !failure.is_of_server()
                && let Err(error) = self.writer.set_error(attachment, &shown).await
            {
                tracing::debug!(attachment = attachment.name, %error, "An error cannot be written down.");
            }
        }
        match failure {
            Failure::Problem(_) => Verdict::After(LOOK_AGAIN, Some(shown.message)),
            _ => Verdict::Retry(shown.message),
        }
    }

    /// Lets a deleted volume's object go once it is attached nowhere. Called twice: the second finds nothing to do.
    pub(super) async fn release_volume(self: Arc<Self>, name: Key) -> Verdict {
        let mut volume = self.cluster.volumes.store().get(&name);
        for round in 1.. {
            let attachments = self.cluster.attachments.store().count_in_group(&name);
            let Some(current) = volume.filter(|volume| may_go(&self.rules, volume, attachments))
            else {
                break;
            };
            match self.writer.unmark_volume(&current).await {
                Ok(()) | Err(ObjectError::Gone(_)) => break,
                Err(error) if error.is_stale() && round < ROUNDS => {}
                Err(error) => {
                    tracing::warn!(volume = current.name, reason = %error, "The finalizer of a volume cannot be removed; trying again.");
                    return Verdict::Retry(error.to_string());
                }
            }
            volume = match self.writer.read_volume(&name).await {
                Ok(wire) => wire
                    .and_then(|wire| Volume::read(wire, &self.rules.driver))
                    .map(Arc::new),
                Err(error) => return Verdict::Retry(error.to_string()),
            };
        }
        Verdict::Done
    }
}
