//! Takes a request apart that is being deleted, in an order that loses nothing: the content is told first, the
//! request goes last.

use stowage_api::snapshot::names::{SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_GROUP, YES};
use stowage_kubernetes::json_patch::ObjectPatch;

use crate::content::Content;
use crate::failure::Failure;
use crate::request::{Kind, Request, Source};
use crate::worker::{Worker, content_name};

impl Worker {
    /// Called twice: the second finds nothing to do.
    pub(crate) async fn leave(&self, request: &Request) -> Result<(), Failure> {
        let ours = [
            self.kind.bound_finalizer(),
            SNAPSHOT_AS_SOURCE,
            SNAPSHOT_IN_GROUP,
        ];
        if !ours
            .iter()
            .any(|finalizer| request.has_finalizer(finalizer))
        {
            return Ok(());
        }
        let content = self.own_content(request).await?;
        self.must_be_free(request, content.as_ref())?;
        let goes_too = match content {
            Some(content) => self.leave_content(content).await?,
            None => false,
        };
        if self.kind == Kind::Group {
            for member in self.cluster.members(request) {
                if !member.deleting {
                    self.writer.delete_request(&member).await?;
                }
            }
        }
        // While the content is being deleted the request stays, so that users see it.
        let stays = goes_too.then_some(self.kind.bound_finalizer());
        let goes = |finalizer: &String| {
            ours.contains(&finalizer.as_str()) && stays != Some(finalizer.as_str())
        };
        let mut rest = request.finalizers.clone();
        rest.retain(|finalizer| !goes(finalizer));
        if rest.len() == request.finalizers.len() {
            return Ok(());
        }
        let patch = ObjectPatch::new().replace_finalizers(&request.finalizers, &rest);
        self.writer.change(request, patch).await?;
        Ok(())
    }

    /// The content, if each names the other.
    async fn own_content(&self, request: &Request) -> Result<Option<Content>, Failure> {
        let name = match (&request.status.bound, &request.source) {
            (Some(name), _) | (None, Source::Content(name)) => name.clone(),
            (None, _) => content_name(request),
        };
        let content = self.content(&name).await?;
        Ok(content.filter(|content| content.is_of(request)))
    }

    fn must_be_free(&self, request: &Request, content: Option<&Content>) -> Result<(), Failure> {
        let cluster = &self.cluster;
        let restoring = match self.kind {
            Kind::Single => content.is_some() && cluster.is_restoring(&request.key()),
            Kind::Group => {
                let members = cluster.members(request);
                members
                    .iter()
                    .any(|member| cluster.is_restoring(&member.key()))
            }
        };
        if restoring {
            return Err(Failure::InUse);
        }
        if let Some(content) = content.filter(|content| content.kind == Kind::Group) {
            let others = cluster.others_with_members_of(request, content);
            if !others.is_empty() {
                return Err(Failure::MembersElsewhere(others));
            }
        }
        match cluster.group_request(request)? {
            Some(group) if group.deleting => Err(Failure::GroupGoing),
            Some(group) => Err(Failure::InGroup(group.name.clone())),
            None => Ok(()),
        }
    }

    /// Tells the content that its request goes. Says whether it goes too.
    pub(crate) async fn leave_content(&self, mut content: Content) -> Result<bool, Failure> {
        if !content.being_deleted {
            let key = self.kind.names().being_deleted;
            let patch = ObjectPatch::new().set_annotation(content.annotated, key, YES);
            content = self.writer.change_content(&content, patch).await?;
        }
        if content.goes_too() && !content.deleting {
            self.writer.delete_content(&content).await?;
        }
        Ok(content.goes_too())
    }
}
