//! The patches of volumes and attachments. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use stowage_kubernetes::events::cut;
use stowage_kubernetes::json_patch::ObjectPatch;

use crate::cluster::attachment::{Attachment, NODE_ID};
use crate::cluster::volume::Volume;

/// The API server takes no longer messages, and refuses the whole status otherwise.
const LONGEST_MESSAGE: usize = 1024;

/// An error in the status of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeError {
    pub(super) message: String,
    /// The gRPC code, for servers with a field for it.
    pub(super) code: Option<i32>,
}

impl VolumeError {
    pub(super) fn new(mut message: String, code: Option<i32>) -> Self {
        if message.len() > LONGEST_MESSAGE {
            cut(&mut message, LONGEST_MESSAGE - "...".len());
            message.push_str("...");
        }
        Self { message, code }
    }
}

/// Adds the finalizer to a volume that lacks it.
pub(super) fn mark_volume(volume: &Volume, finalizer: &str) -> ObjectPatch {
    ObjectPatch::of(&volume.uid).add_finalizer(&volume.finalizers, finalizer)
}

pub(super) fn unmark_volume(volume: &Volume, finalizer: &str) -> ObjectPatch {
    ObjectPatch::of(&volume.uid).remove_finalizer(&volume.finalizers, finalizer)
}

/// Adds the finalizer and the node's id in one go.
pub(super) fn mark_attachment(
    attachment: &Attachment,
    finalizer: &str,
    node_id: &str,
) -> ObjectPatch {
    let mut patch = ObjectPatch::of(&attachment.uid);
    if !attachment.has_finalizer(finalizer) {
        patch = patch.add_finalizer(&attachment.finalizers, finalizer);
    }
    if attachment.node_id.as_deref() != Some(node_id) {
        patch = patch.set_annotation(attachment.annotated, NODE_ID, node_id);
    }
    patch
}

pub(super) fn unmark_attachment(attachment: &Attachment, finalizer: &str) -> ObjectPatch {
    ObjectPatch::of(&attachment.uid).remove_finalizer(&attachment.finalizers, finalizer)
}

/// The status of what is attached. The context replaces one of an earlier attempt as a whole.
pub(super) fn attached(attachment: &Attachment, context: &BTreeMap<String, String>) -> ObjectPatch {
    ObjectPatch::of(&attachment.uid)
        .set(["status", "attached"], json!(true))
        .set(["status", "attachmentMetadata"], json!(context))
        .set(["status", "attachError"], Value::Null)
}

/// The status of what is detached, and exists only because somebody else still holds it.
pub(super) fn detached(attachment: &Attachment) -> ObjectPatch {
    ObjectPatch::of(&attachment.uid)
        .set(["status", "attached"], json!(false))
        .set(["status", "attachmentMetadata"], Value::Null)
        .set(["status", "detachError"], Value::Null)
}

/// The status of what failed: to attach, or to detach if it is being deleted.
pub(super) fn error(attachment: &Attachment, error: &VolumeError) -> ObjectPatch {
    let field = if attachment.deleting {
        "detachError"
    } else {
        "attachError"
    };
    ObjectPatch::of(&attachment.uid).set(["status", field], error_value(error))
}

fn error_value(error: &VolumeError) -> Value {
    let mut value = json!({ "time": Time(Timestamp::now()), "message": error.message });
    if let Some(code) = error.code {
        value["errorCode"] = json!(code);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_code_where_there_is_a_field_for_it() {
        for code in [Some(8), None] {
            let value = error_value(&VolumeError::new("full".to_owned(), code));
            assert_eq!(value["message"], "full");
            assert_eq!(value.get("errorCode"), code.map(Value::from).as_ref());
        }
    }

    #[test]
    fn a_message_that_the_server_would_refuse_is_cut_between_letters() {
        let short = "no".repeat(512);
        assert_eq!(VolumeError::new(short.clone(), None).message, short);
        let long = VolumeError::new("é".repeat(600), None).message;
        assert!(long.len() <= LONGEST_MESSAGE && long.ends_with("é..."));
    }
}
