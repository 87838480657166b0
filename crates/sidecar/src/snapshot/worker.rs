//! Does what was decided: one attempt for one content at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};
use stowage_kubernetes::secret_template::PREFIX;
use stowage_kubernetes::secrets;

use super::calls::{Calls, Found, Strings};
use super::failure::{Attempt, Failure};
use super::parameters;
use super::step::{Step, next_step};
use super::write::Writer;
use crate::args::Naming;
use crate::cluster::Cluster;
use crate::cluster::content::{Content, Kind, SnapshotClass};
use crate::role::Context;

/// How many steps one attempt may take. Each brings the content forward, so that more means somebody works against
/// us.
const MOST_STEPS: usize = 12;

/// Works on contents of one kind.
pub(super) struct Worker {
    kind: Kind,
    cluster: Cluster,
    client: Client,
    calls: Calls,
    writer: Writer,
    events: Events,
    naming: Naming,
    extra_metadata: bool,
}

/// One attempt: the content as it is known now.
struct View {
    content: Content,
    /// It was read from the server, not from a cache that may lag behind.
    fresh: bool,
    /// The driver has been asked once: what is not ready by now needs time.
    asked: bool,
}

/// Where an attempt stands after a step.
enum Progress {
    /// Nothing is left to do.
    Done,
    /// The content is this now.
    Now(Box<Content>),
    /// The snapshot needs time.
    NotReady,
}

impl Worker {
    pub(super) fn new(context: &Context, kind: Kind, version: &'static str) -> Self {
        let settings = &context.settings;
        let driver = context.driver.name().as_str();
        let connection = context.driver.connection();
        let connection = connection.with_timeout(settings.snapshots.timeout);
        Self {
            kind,
            cluster: context.cluster.clone(),
            client: context.client.clone(),
            calls: Calls::new(context.driver.capabilities(), connection),
            writer: Writer::new(&context.client, kind, version, driver),
            events: context
                .events
                .as_component(&format!("csi-snapshotter {driver}")),
            naming: match kind {
                Kind::Single => settings.snapshots.naming.clone(),
                Kind::Group => settings.snapshots.group_naming.clone(),
            },
            extra_metadata: settings
                .snapshots
                .extra_metadata
                .unwrap_or(settings.provision.extra_metadata),
        }
    }

    /// Brings one content forward. Called twice: the second finds nothing to do.
    pub(super) async fn work(self: Arc<Self>, key: Key) -> Verdict {
        let store = match self.kind {
            Kind::Single => self.cluster.contents.store(),
            Kind::Group => self.cluster.group_contents.store(),
        };
        let Some(content) = store.get(&key) else {
            return Verdict::Done;
        };
        let mut view = View {
            content: Content::clone(&content),
            fresh: false,
            asked: false,
        };
        for _ in 0..MOST_STEPS {
            let step = next_step(&view.content);
            let attempt = match &step {
                Step::Look { .. } => Attempt::Look,
                Step::Delete { .. } | Step::Release => Attempt::Delete,
                Step::Rest | Step::Make { .. } | Step::Unmark => Attempt::Make,
            };
            match self.act(&mut view, step).await {
                Ok(Progress::Done) | Err(Failure::Object(ObjectError::Gone(_))) => {
                    return Verdict::Done;
                }
                Ok(Progress::Now(content)) => {
                    view.content = *content;
                    view.fresh = true;
                }
                Ok(Progress::NotReady) => {
                    return Verdict::Retry("the snapshot is not ready yet".to_owned());
                }
                // Decided from a cache that lagged behind: read again, and decide again.
                Err(Failure::Object(error)) if error.is_stale() => {
                    match self.writer.read(&key).await {
                        Ok(content) => view.content = content,
                        Err(ObjectError::Gone(_)) => return Verdict::Done,
                        Err(error) => {
                            return self.report(&view.content, attempt, error.into()).await;
                        }
                    }
                    view.fresh = true;
                }
                Err(failure) => return self.report(&view.content, attempt, failure).await,
            }
        }
        Verdict::Retry("the content keeps changing under our hands".to_owned())
    }

    async fn act(&self, view: &mut View, step: Step) -> Result<Progress, Failure> {
        let content = &view.content;
        let now = |content| Ok(Progress::Now(Box::new(content)));
        match step {
            Step::Rest => Ok(Progress::Done),
            Step::Make { .. } | Step::Look { .. } if view.asked => Ok(Progress::NotReady),
            Step::Make { volumes } => self.make(view, &volumes).await,
            Step::Look { handle, members } => {
                let secrets = self.secrets_to_look(content).await?;
                view.asked = true;
                let content = &view.content;
                let found = self
                    .calls
                    .get_snapshot(content, &handle, &members, secrets)
                    .await?;
                now(self.write_down(content, found).await?)
            }
            Step::Unmark => now(self.writer.unmark(content).await?),
            Step::Delete { handle, members } => self.delete(content, handle, members).await,
            Step::Release => {
                self.writer.release(content).await?;
                Ok(Progress::Done)
            }
        }
    }

    /// The order is what makes it safe: the content says that a call may be under way before it is made, and who it
    /// is that was made before it says that the call has ended.
    async fn make(&self, view: &mut View, volumes: &[String]) -> Result<Progress, Failure> {
        let content = &view.content;
        if content.owner.uid.is_empty() {
            return Err(Failure::NoOwner);
        }
        let parameters = self.parameters(content)?;
        let secrets = secrets::read(&self.client, content.secret.as_ref()).await?;
        if content.state.handle.is_none() && !(view.fresh && content.being_created) {
            let content = if content.being_created {
                self.writer.read(&content.name).await?
            } else {
                self.writer.mark(content).await?
            };
            return Ok(Progress::Now(Box::new(content)));
        }
        view.asked = true;
        let content = &view.content;
        let name = self.naming.name(&content.owner.uid);
        let made = self
            .calls
            .create_snapshot(content, name, volumes, parameters, secrets)
            .await;
        match made {
            Ok(found) => {
                let content = self.write_down(content, found).await?;
                Ok(Progress::Now(Box::new(content)))
            }
            Err(failure) if failure.is_final() && content.being_created => {
                let unmarked = self.writer.unmark(content).await?;
                if unmarked.deleting && unmarked.being_deleted {
                    // There is nothing, which is what was wanted.
                    return Ok(Progress::Now(Box::new(unmarked)));
                }
                view.content = unmarked;
                Err(failure)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes what the driver said into the status, if that is news.
    async fn write_down(&self, content: &Content, found: Found) -> Result<Content, Failure> {
        let state = &content.state;
        let known = state.handle.as_ref() == Some(&found.handle)
            && state.ready == found.ready
            && state.error.is_none();
        if known {
            return Ok(content.clone());
        }
        let (handle, ready) = (&found.handle, found.ready);
        tracing::info!(
            content = content.name,
            handle,
            ready,
            "The driver has the snapshot."
        );
        Ok(self.writer.set_status(content, found.status).await?)
    }

    async fn delete(
        &self,
        content: &Content,
        handle: String,
        members: Vec<String>,
    ) -> Result<Progress, Failure> {
        let secrets = secrets::read(&self.client, content.secret.as_ref()).await?;
        self.calls
            .delete_snapshot(content, handle.clone(), members, secrets)
            .await?;
        tracing::info!(content = content.name, handle, "The snapshot is deleted.");
        if content.finalizers.len() > 1 {
            // Somebody else holds the content: it must not speak of a snapshot that is gone.
            let cleared = self
                .writer
                .set_status(content, serde_json::json!({}))
                .await?;
            return Ok(Progress::Now(Box::new(cleared)));
        }
        self.writer.release(content).await?;
        Ok(Progress::Done)
    }

    fn class(&self, name: &str) -> Option<Arc<SnapshotClass>> {
        match self.kind {
            Kind::Single => self.cluster.snapshot_classes.store().get(name),
            Kind::Group => self.cluster.group_classes.store().get(name),
        }
    }

    fn parameters(&self, content: &Content) -> Result<Strings, Failure> {
        let class = content.class.as_ref().ok_or(Failure::ClassNotNamed)?;
        let mut all = match self.class(class) {
            Some(known) => parameters::for_driver(&known.parameters).map_err(|error| {
                let class = class.clone();
                Failure::Parameters { class, error }
            })?,
            // Drivers know snapshots by name. To learn what to delete, the call must be made although nobody knows
            // its parameters any more.
            None if content.deleting && content.being_created => BTreeMap::new(),
            None => return Err(Failure::NoClass(class.clone())),
        };
        if self.extra_metadata {
            let (owner, object) = match self.kind {
                Kind::Single => ("volumesnapshot", "volumesnapshotcontent"),
                Kind::Group => ("volumegroupsnapshot", "volumegroupsnapshotcontent"),
            };
            for (key, value) in [
                (format!("{owner}/name"), &content.owner.name),
                (format!("{owner}/namespace"), &content.owner.namespace),
                (format!("{object}/name"), &content.name),
            ] {
                all.insert(format!("{PREFIX}{key}"), value.clone());
            }
        }
        Ok(all)
    }

    /// The class names the secret for looking; members have no class, and the secret of their group.
    async fn secrets_to_look(&self, content: &Content) -> Result<Strings, Failure> {
        if content.member {
            return Ok(secrets::read(&self.client, content.secret.as_ref()).await?);
        }
        let Some(class) = &content.class else {
            return Ok(Strings::new());
        };
        let known = self.class(class);
        let known = known.ok_or_else(|| Failure::NoClass(class.clone()))?;
        let reference = parameters::look_secret(&known.parameters, content).map_err(|error| {
            let class = class.clone();
            Failure::Parameters { class, error }
        })?;
        Ok(secrets::read(&self.client, reference.as_ref()).await?)
    }

    /// Says what is wrong, where it is new: in the log, in an event, and in the status, where the controller finds it
    /// and tells the user.
    async fn report(&self, content: &Content, attempt: Attempt, failure: Failure) -> Verdict {
        let message = format!("{}: {failure}", attempt.failed(self.kind));
        let told = content.state.error.as_ref() == Some(&message);
        if !told || attempt == Attempt::Delete {
            tracing::warn!(
                content = content.name,
                reason = message,
                "Something is wrong with a snapshot; trying again."
            );
            let reason = attempt.reason(self.kind);
            self.events
                .warning(self.writer.reference(content), reason, message.as_str());
        }
        let of_server = matches!(failure, Failure::Object(_));
        if !told && !of_server && attempt != Attempt::Delete {
            let written = self.writer.set_error(content, &message).await;
            if let Err(error) = written {
                tracing::debug!(content = content.name, %error, "An error cannot be written down.");
            }
        }
        Verdict::Retry(message)
    }
}
