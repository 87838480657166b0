//! One attempt for one request: finds or makes its content, and tells the user what has become of it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use stowage_api::snapshot::VolumeSnapshotError;
use stowage_api::snapshot::names::SNAPSHOT_AS_SOURCE;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};

use crate::births::Births;
use crate::cluster::{Cluster, Scope};
use crate::content::{Content, Origin};
use crate::failure::{Audience, Failure};
use crate::request::{Kind, Request, Source, Status};
use crate::status;
use crate::write::Writer;

/// After a decision from a cache that lagged behind: by then it has caught up.
const CATCH_UP: Duration = Duration::from_millis(200);

/// Works on requests of one kind.
pub(crate) struct Worker {
    pub(crate) kind: Kind,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) scope: Scope,
    /// How long a driver's sidecar may take to begin before the user is told.
    pub(crate) patience: Duration,
    pub(crate) births: Births,
}

impl Worker {
    /// Brings one request forward. Called twice: the second finds nothing to do.
    pub(crate) async fn work(self: Arc<Self>, uid: Key) -> Verdict {
        let Some(request) = self.cluster.requests.of(self.kind).store().get(&uid) else {
            return self.clean_up(&uid).await;
        };
        let done = if request.deleting {
            self.leave(&request).await
        } else {
            self.bind(&request).await
        };
        match done {
            Ok(()) => match self.not_begun(&request) {
                None => Verdict::Done,
                Some((age, _)) if age < self.patience => {
                    Verdict::After(self.patience.saturating_sub(age), None)
                }
                Some((_, driver)) => self.report(&request, &Failure::NotBegun(driver)).await,
            },
            Err(failure) => self.report(&request, &failure).await,
        }
    }

    /// A request is gone. If it was cut off when its content was made, that goes too; all others are left alone.
    async fn clean_up(&self, uid: &str) -> Verdict {
        let Some(birth) = self.births.of(uid) else {
            return Verdict::Done;
        };
        let name = format!("{}{uid}", self.kind.names().prefix);
        let left: Result<(), Failure> = async {
            let (namespace, request) = (&birth.namespace, &birth.name);
            let exists = self.writer.exists(self.kind, namespace, request, uid);
            if exists.await? {
                return Ok(());
            }
            match self.content(&name).await? {
                Some(content) if content.owner_uid == uid && content.goes_too() => {
                    self.leave_content(content).await.map(|_| ())
                }
                _ => Ok(()),
            }
        }
        .await;
        match left {
            Err(failure) if !failure.is_gone() => Verdict::Retry(failure.to_string()),
            _ => {
                self.births.end(uid);
                Verdict::Done
            }
        }
    }

    /// How long the content of a request has been waiting for a sidecar of its driver to begin.
    fn not_begun(&self, request: &Request) -> Option<(Duration, String)> {
        let contents = self.cluster.contents.of(self.kind).store();
        let content = contents.get(&content_name(request))?;
        if request.deleting || content.source != Origin::Taken || content.is_begun() {
            return None;
        }
        let age = Timestamp::now().duration_since(content.made_at?);
        let age = Duration::try_from(age).unwrap_or_default();
        Some((age, content.driver.clone()))
    }

    async fn bind(&self, request: &Request) -> Result<(), Failure> {
        let (request, content) = match self.find_content(request).await? {
            Some(content) => (request.clone(), content),
            // Whoever works on the group makes it.
            None if request.group.is_some() => return Ok(()),
            None => self.make(request).await?,
        };
        let content = self.join(&request, content).await?;
        let request = self.protect(request, &content).await?;
        if self.kind == Kind::Group && !request.is_ready() {
            self.make_members(&request, &content).await?;
        }
        self.tell(&request, &content).await?;
        self.join_group(&request, &content).await
    }

    /// The content of a request, checked. `None`: there is none yet.
    async fn find_content(&self, request: &Request) -> Result<Option<Content>, Failure> {
        let known = self.cluster.contents.of(self.kind).store();
        match &request.source {
            Source::Unclear => Err(Failure::Source),
            Source::Content(name) => {
                let content = self.content(name).await?;
                let content = content.ok_or_else(|| Failure::ContentMissing(name.clone()))?;
                let free = content.owner_uid.is_empty() && content.owner == request.key();
                if content.source != Origin::Existing {
                    return Err(Failure::Mismatch(name.clone()));
                }
                if !free && !content.is_of(request) {
                    return Err(Failure::Misbound(name.clone()));
                }
                Ok(Some(content))
            }
            Source::Claim(_) | Source::Claims(_) if request.group.is_some() => {
                let mut all = known.in_group(&request.key()).into_iter();
                let own = all.find(|content| content.is_of(request));
                Ok(own.map(|content| Content::clone(&content)))
            }
            Source::Claim(_) | Source::Claims(_) => {
                let name = content_name(request);
                let content = match known.get(&name) {
                    Some(content) => Some(Content::clone(&content)),
                    // It was made once: before anybody is told that it is lost, the server is asked.
                    None if request.status.bound.is_some() => self.content(&name).await?,
                    None => None,
                };
                let Some(content) = content else {
                    if request.is_ready() {
                        return Err(Failure::ContentMissing(name));
                    }
                    return Ok(None);
                };
                if content.source != Origin::Taken {
                    return Err(Failure::Mismatch(name));
                }
                if !content.is_of(request) {
                    return Err(Failure::Misbound(name));
                }
                Ok(Some(content))
            }
        }
    }

    /// A content, from the cache or else from the server.
    pub(crate) async fn content(&self, name: &str) -> Result<Option<Content>, Failure> {
        match self.cluster.contents.of(self.kind).store().get(name) {
            Some(content) => Ok(Some(Content::clone(&content))),
            None => Ok(self.writer.content(self.kind, name).await?),
        }
    }

    /// Binds a content that was made by hand to the request that it names.
    async fn join(&self, request: &Request, content: Content) -> Result<Content, Failure> {
        let (owner, class) = match self.kind {
            Kind::Single => ("volumeSnapshotRef", "volumeSnapshotClassName"),
            Kind::Group => ("volumeGroupSnapshotRef", "volumeGroupSnapshotClassName"),
        };
        let mut patch = ObjectPatch::new();
        if content.owner_uid.is_empty() {
            patch = patch.set(["spec", owner, "uid"], json!(request.uid));
        }
        if let (None, Some(name)) = (&content.class, &request.class)
            && content.source == Origin::Existing
        {
            patch = patch.set(["spec", class], json!(name));
        }
        if patch.is_empty() {
            return Ok(content);
        }
        let patch = patch.and(crate::finish::add_finalizer(&content));
        Ok(self.writer.change_content(&content, patch).await?)
    }

    /// Keeps the request until its content is dealt with.
    async fn protect(&self, request: Request, content: &Content) -> Result<Request, Failure> {
        self.keep(request, content.goes_too()).await
    }

    /// Adds the finalizers that are missing.
    pub(crate) async fn keep(&self, request: Request, bound: bool) -> Result<Request, Failure> {
        let bound = (bound || self.kind == Kind::Group).then_some(self.kind.bound_finalizer());
        let source = (self.kind == Kind::Single).then_some(SNAPSHOT_AS_SOURCE);
        let wanted = source.into_iter().chain(bound);
        let missing = wanted.filter(|finalizer| !request.has_finalizer(finalizer));
        let mut all = request.finalizers.clone();
        all.extend(missing.map(str::to_owned));
        if all.len() == request.finalizers.len() {
            return Ok(request);
        }
        let patch = ObjectPatch::new().replace_finalizers(&request.finalizers, &all);
        Ok(self.writer.change(&request, patch).await?)
    }

    /// Copies what the content says into the status of the request.
    async fn tell(&self, request: &Request, content: &Content) -> Result<(), Failure> {
        let group = self.cluster.group_of(request, content);
        let known = &request.status;
        let status = status::desired(known, content, group);
        if status == *known {
            return Ok(());
        }
        let written = status::written(self.kind, &status);
        self.writer.set_status(request, written).await?;
        self.announce(request, known, &status);
        Ok(())
    }

    fn announce(&self, request: &Request, before: &Status, after: &Status) {
        let (word, created, ready) = match self.kind {
            Kind::Single => ("Snapshot", "SnapshotCreated", "SnapshotReady"),
            Kind::Group => (
                "GroupSnapshot",
                "GroupSnapshotCreated",
                "GroupSnapshotReady",
            ),
        };
        let key = request.key();
        if before.created.is_none() && after.created.is_some() {
            let text = format!("{word} {key} was successfully created by the CSI driver.");
            self.events
                .normal(request.reference(self.scope), created, text);
        }
        if before.ready != Some(true) && after.ready == Some(true) {
            let text = format!("{word} {key} is ready to use.");
            self.events
                .normal(request.reference(self.scope), ready, text);
        }
    }

    /// Says what is wrong, where it is new.
    async fn report(&self, request: &Request, failure: &Failure) -> Verdict {
        let message = failure.to_string();
        match failure.audience(self.kind) {
            Audience::Nobody => {
                return match failure {
                    Failure::GroupGoing | Failure::Object(ObjectError::Gone(_)) => Verdict::Done,
                    Failure::Object(error) if error.is_stale() => Verdict::After(CATCH_UP, None),
                    _ => Verdict::Retry(message),
                };
            }
            Audience::Event(reason) => {
                self.events
                    .warning(request.reference(self.scope), reason, message);
                // What it waits for is watched.
                return Verdict::Done;
            }
            Audience::User(reason) => {
                let told = request.status.error.as_ref();
                if told.and_then(|error| error.message.as_ref()) != Some(&message) {
                    tracing::warn!(
                        snapshot = request.key(),
                        reason = message,
                        "Something is wrong with a snapshot; trying again."
                    );
                    self.events
                        .warning(request.reference(self.scope), reason, message.as_str());
                    self.write_error(request, &message).await;
                }
            }
        }
        Verdict::Retry(message)
    }

    async fn write_error(&self, request: &Request, message: &str) {
        let status = Status {
            ready: Some(false),
            error: Some(VolumeSnapshotError {
                time: Some(Time(Timestamp::now())),
                message: Some(message.to_owned()),
            }),
            ..request.status.clone()
        };
        let written = status::written(self.kind, &status);
        if let Err(error) = self.writer.set_status(request, written).await {
            tracing::debug!(snapshot = request.key(), %error, "An error cannot be written down.");
        }
    }
}

/// The name of the content that is made for a request.
pub(crate) fn content_name(request: &Request) -> String {
    format!("{}{}", request.kind.names().prefix, request.uid)
}
