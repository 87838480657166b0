//! Reads and writes of single objects. Upstream's roles allow `get` and `patch`, so nothing else is used.

use std::collections::BTreeMap;

use kube::{Api, Client};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};
use stowage_kubernetes::object_error::{ObjectError, explain};

use super::patch::{self, VolumeError};
use crate::cluster::attachment::Attachment;
use crate::cluster::volume::Volume;
use crate::cluster::wire::{WireAttachment, WireVolume};

const ATTACHMENTS: &str = "volumeattachments";
const STATUS: &str = "volumeattachments/status";
pub(super) const VOLUMES: &str = "persistentvolumes";

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
    ) -> Result<Option<WireAttachment>, ObjectError> {
        let found = self.attachments.get_opt(name).await;
        found.map_err(explain("get", ATTACHMENTS))
    }

    pub(super) async fn read_volume(&self, name: &str) -> Result<Option<WireVolume>, ObjectError> {
        let found = self.volumes.get_opt(name).await;
        found.map_err(explain("get", VOLUMES))
    }

    pub(super) async fn mark_volume(&self, volume: &Volume) -> Result<(), ObjectError> {
        let operations = patch::mark_volume(volume, &self.finalizer);
        self.patch_volume(volume, operations).await
    }

    pub(super) async fn unmark_volume(&self, volume: &Volume) -> Result<(), ObjectError> {
        let operations = patch::unmark_volume(volume, &self.finalizer);
        self.patch_volume(volume, operations).await
    }

    pub(super) async fn mark_attachment(
        &self,
        attachment: &Attachment,
        node_id: &str,
    ) -> Result<(), ObjectError> {
        let operations = patch::mark_attachment(attachment, &self.finalizer, node_id);
        self.patch_attachment(attachment, operations).await?;
        Ok(())
    }

    /// Says whether somebody else still holds the attachment: if not, it is gone now.
    pub(super) async fn unmark_attachment(
        &self,
        attachment: &Attachment,
    ) -> Result<bool, ObjectError> {
        let operations = patch::unmark_attachment(attachment, &self.finalizer);
        let left = self.patch_attachment(attachment, operations).await?;
        Ok(!left.metadata.finalizers.unwrap_or_default().is_empty())
    }

    pub(super) async fn set_attached(
        &self,
        attachment: &Attachment,
        context: &BTreeMap<String, String>,
    ) -> Result<(), ObjectError> {
        let operations = patch::attached(attachment, context);
        self.patch_status(attachment, operations).await
    }

    pub(super) async fn set_detached(&self, attachment: &Attachment) -> Result<(), ObjectError> {
        let operations = patch::detached(attachment);
        self.patch_status(attachment, operations).await
    }

    pub(super) async fn set_error(
        &self,
        attachment: &Attachment,
        error: &VolumeError,
    ) -> Result<(), ObjectError> {
        let operations = patch::error(attachment, error);
        self.patch_status(attachment, operations).await
    }

    async fn patch_volume(&self, volume: &Volume, patch: ObjectPatch) -> Result<(), ObjectError> {
        let done = self
            .volumes
            .patch(&volume.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(explain("patch", VOLUMES))?;
        Ok(())
    }

    async fn patch_attachment(
        &self,
        attachment: &Attachment,
        patch: ObjectPatch,
    ) -> Result<WireAttachment, ObjectError> {
        let api = &self.attachments;
        let done = api
            .patch(&attachment.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(explain("patch", ATTACHMENTS))
    }

    async fn patch_status(
        &self,
        attachment: &Attachment,
        patch: ObjectPatch,
    ) -> Result<(), ObjectError> {
        let api = &self.attachments;
        let done = api
            .patch_status(&attachment.name, &PARAMS, &patch.into_patch())
            .await;
        done.map_err(explain("patch", STATUS))?;
        Ok(())
    }
}
