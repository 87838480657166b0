//! Does what was decided: one attempt for one attachment or volume at a time.

mod calls;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};

use super::Setup;
use super::failure::Failure;
use super::queues::{Operation, Queues};
use super::step::{Marks, Rules, Step, may_go, next_step};
use super::turns::Turns;
use super::unsure::Unsure;
use super::write::Writer;
use crate::cluster::Cluster;
use crate::cluster::attachment::Attachment;
use crate::cluster::node::CsiNode;
use crate::cluster::volume::Volume;

/// How often an object that changes under our hands is read again before it counts as a failure.
const ROUNDS: u32 = 3;
/// How often to look whether a node or volume that is missing has appeared. It costs nothing but a look at the cache.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Works on attachments.
pub(super) struct Worker {
    pub(super) rules: Rules,
    pub(super) cluster: Cluster,
    pub(super) queues: Queues,
    pub(super) controller: ControllerClient<Connection>,
    pub(super) doubted: Doubted,
    client: Client,
    writer: Writer,
    turns: Turns,
    unsure: Unsure,
    error_codes: bool,
    /// How many volumes are listed at a time.
    pub(super) page: i32,
}

/// Attachments that the driver does not list although they are attached.
#[derive(Default)]
pub(super) struct Doubted(Mutex<HashSet<Key>>);

/// What an attempt is decided from.
struct View {
    attachment: Arc<Attachment>,
    volume: Option<Arc<Volume>>,
    node: Option<Arc<CsiNode>>,
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
            queues: setup
                .metrics
                .with_registry(|registry| Queues::new(setup.settings.retry, own_node, registry)),
            controller: ControllerClient::new(connection.with_timeout(setup.settings.timeout)),
            doubted: Doubted::default(),
            client: setup.client.clone(),
            turns: Turns::default(),
            unsure: Unsure::default(),
            error_codes: setup.error_codes,
            page: setup.settings.page,
        }
    }

    /// Brings one attachment forward. Called twice: the second finds nothing to do.
    pub(super) async fn work(self: Arc<Self>, operation: Operation, key: Key) -> Verdict {
        let Some(_turn) = self.turns.take(&key, self.queues.queue(operation)) else {
            return Verdict::Done;
        };
        let doubted = self.doubted.take(&key);
        let mut view = self.cached(&key);
        let mut round = 1;
        loop {
            let Some(current) = view else {
                return self.clean_up(&key).await;
            };
            if Operation::of(&current.attachment) != operation {
                // It is deleted by now: the queue for detaching has it.
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
            node: self.cluster.csi_nodes.store().get(&attachment.node),
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
            node: self.cluster.csi_nodes.store().get(&attachment.node),
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
        let shown = failure.volume_error(self.error_codes);
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
