//! Completes contents that others made.

use std::sync::Arc;

use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};

use crate::content::{Content, Origin};
use crate::request::Kind;
use crate::worker::Worker;

/// Whether there is something to do for a content.
pub(crate) fn is_unfinished(content: &Content) -> bool {
    let bound = !content.owner_uid.is_empty() && !content.deleting;
    content.source == Origin::Unclear || bound && !content.has_finalizer()
}

/// The patch that adds the finalizer, where it is missing.
pub(crate) fn add_finalizer(content: &Content) -> ObjectPatch {
    let patch = ObjectPatch::new();
    if content.has_finalizer() {
        return patch;
    }
    patch.add_finalizer(&content.finalizers, content.kind.names().finalizer)
}

impl Worker {
    /// Keeps a bound content until its snapshot is dealt with. Called twice: the second finds nothing to do.
    pub(crate) async fn finish(self: Arc<Self>, name: Key) -> Verdict {
        let content = self.cluster.contents.of(self.kind).store().get(&name);
        let Some(content) = content.filter(|content| is_unfinished(content)) else {
            return Verdict::Done;
        };
        if content.source == Origin::Unclear {
            let reason = match self.kind {
                Kind::Single => "ContentValidationError",
                Kind::Group => "GroupContentValidationError",
            };
            let text = "exactly one source must be named: volumes, or handles of what exists";
            self.events
                .warning(content.reference(self.scope), reason, text);
            return Verdict::Done;
        }
        let patch = add_finalizer(&content);
        match self.writer.change_content(&content, patch).await {
            Ok(_) | Err(ObjectError::Gone(_)) => Verdict::Done,
            Err(error) => Verdict::Retry(error.to_string()),
        }
    }
}
