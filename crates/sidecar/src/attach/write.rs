//! Reads and writes of single objects, and what the API server's answers mean. Upstream's roles allow `get` and
//! `patch`, so nothing else is used.

use std::collections::BTreeMap;

use kube::{Api, Client};
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use super::patch::{self, Shown};
use crate::cluster::attachment::Attachment;
use crate::cluster::volume::Volume;
use crate::cluster::wire::{WireAttachment, WireVolume};

const ATTACHMENTS: &str = "volumeattachments";
const STATUS: &str = "volumeattachments/status";
const VOLUMES: &str = "persistentvolumes";

/// Why something was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("the attachment is gone")]
    AttachmentGone,
    #[error("the volume's object is gone")]
    VolumeGone,
    /// It is another object, or has other finalizers, or the server does not take the new value.
    #[error("the API server refuses a change of {0}: {1}")]
    Refused(&'static str, String),
    #[error(
        "the service account may not {verb} {kind}: add `{verb}` on `{kind}` to its ClusterRole"
    )]
    Forbidden {
        verb: &'static str,
        kind: &'static str,
    },
    #[error("the API server: {0}")]
    Failed(#[source] Box<kube::Error>),
}

/// Reads and writes volumes and attachments.
#[derive(Clone)]
pub(super) struct Writer {
    finalizer: String,
    attachments: Api<WireAttachment>,
    volumes: Api<WireVolume>,
}

impl Writer {
    pub(super) fn new(client: &Client, finalizer: &str) -> Self {
        Self {
            finalizer: finalizer.to_owned(),
            attachments: Api::all(client.clone()),
            volumes: Api::all(client.clone()),
        }
    }

    pub(super) async fn read_attachment(
        &self,
        name: &str,
    ) -> Result<Option<WireAttachment>, WriteError> {
        let found = self.attachments.get_opt(name).await;
        found.map_err(|error| explain("get", ATTACHMENTS, error))
    }

    pub(super) async fn read_volume(&self, name: &str) -> Result<Option<WireVolume>, WriteError> {
        let found = self.volumes.get_opt(name).await;
        found.map_err(|error| explain("get", VOLUMES, error))
    }

    pub(super) async fn mark_volume(&self, volume: &Volume) -> Result<(), WriteError> {
        let operations = patch::mark_volume(volume, &self.finalizer);
        self.patch_volume(volume, operations).await
    }

    pub(super) async fn unmark_volume(&self, volume: &Volume) -> Result<(), WriteError> {
        let operations = patch::unmark_volume(volume, &self.finalizer);
        self.patch_volume(volume, operations).await
    }

    pub(super) async fn mark_attachment(
        &self,
        attachment: &Attachment,
        node_id: &str,
    ) -> Result<(), WriteError> {
        let operations = patch::mark_attachment(attachment, &self.finalizer, node_id);
        self.patch_attachment(attachment, operations).await?;
        Ok(())
    }

    /// Says whether somebody else still holds the attachment: if not, it is gone now.
    pub(super) async fn unmark_attachment(
        &self,
        attachment: &Attachment,
    ) -> Result<bool, WriteError> {
        let operations = patch::unmark_attachment(attachment, &self.finalizer);
        let left = self.patch_attachment(attachment, operations).await?;
        Ok(!left.metadata.finalizers.unwrap_or_default().is_empty())
    }

    pub(super) async fn set_attached(
        &self,
        attachment: &Attachment,
        context: &BTreeMap<String, String>,
    ) -> Result<(), WriteError> {
        let operations = patch::attached(attachment, context);
        self.patch_status(attachment, operations).await
    }

    pub(super) async fn set_detached(&self, attachment: &Attachment) -> Result<(), WriteError> {
        let operations = patch::detached(attachment);
        self.patch_status(attachment, operations).await
    }

    pub(super) async fn set_error(
        &self,
        attachment: &Attachment,
        shown: &Shown,
    ) -> Result<(), WriteError> {
        let operations = patch::error(attachment, shown);
        self.patch_status(attachment, operations).await
    }

    async fn patch_volume(&self, volume: &Volume, patch: ObjectPatch) -> Result<(), WriteError> {
        let done = self
            .volumes
            .patch(&volume.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(|error| explain("patch", VOLUMES, error))?;
        Ok(())
    }

    async fn patch_attachment(
        &self,
        attachment: &Attachment,
        patch: ObjectPatch,
    ) -> Result<WireAttachment, WriteError> {
        let api = &self.attachments;
        let done = api
            .patch(&attachment.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(|error| explain("patch", ATTACHMENTS, error))
    }

    async fn patch_status(
        &self,
        attachment: &Attachment,
        patch: ObjectPatch,
    ) -> Result<(), WriteError> {
        let api = &self.attachments;
        let done = api
            .patch_status(&attachment.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(|error| explain("patch", STATUS, error))?;
        Ok(())
    }
}

fn explain(verb: &'static str, kind: &'static str, error: kube::Error) -> WriteError {
    match Answer::of(&error) {
        Answer::Gone if kind == VOLUMES => WriteError::VolumeGone,
        Answer::Gone => WriteError::AttachmentGone,
        Answer::Forbidden(_) => WriteError::Forbidden { verb, kind },
        Answer::Conflict | Answer::Refused(_) => WriteError::Refused(kind, answer::chain(&error)),
        _ => WriteError::Failed(Box::new(error)),
    }
}
