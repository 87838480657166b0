//! What this node says about its sessions, in the VolumeAttachments: an array may give the number of a disk away as soon as the node
//! has said that it does not use it any more. What cannot be written is said again until it is.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_api::causes::chain;
use stowage_api::vpsa::{IscsiStatus, VolumeAttachment};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::object_error::{ObjectError, explain};
use tokio::sync::{Mutex, Notify};

use super::register::Registration;
use crate::driver::error::Error;
use crate::driver::names::attachment_name;

/// What is said about sessions.
#[derive(Default)]
pub struct Words {
    /// The last word about each volume that is not written yet. Held while something is written, so that an older word never
    /// follows a newer one.
    unwritten: Mutex<BTreeMap<String, IscsiStatus>>,
    /// Something was said.
    said: Notify,
}

impl Words {
    /// Returns when something is said.
    pub async fn said(&self) {
        self.said.notified().await;
    }
}

impl Registration {
    /// Says that a disk is going to be in use; an error if that cannot be written. Called twice: it is said.
    pub async fn say_in_use(&self, volume: &str) -> Result<(), Error> {
        let mut unwritten = self.words.unwritten.lock().await;
        unwritten.remove(volume);
        Ok(self.write(volume, &IscsiStatus::Active).await?)
    }

    /// Says whether there is a session for a volume, now or as soon as it can be written. Called twice: it is said.
    pub async fn say(&self, volume: &str, status: IscsiStatus) {
        let mut unwritten = self.words.unwritten.lock().await;
        unwritten.insert(volume.to_owned(), status);
        self.write_all(&mut unwritten).await;
        drop(unwritten);
        self.words.said.notify_one();
    }

    /// Says again what could not be written; whether nothing is left.
    pub async fn say_again(&self) -> bool {
        let mut unwritten = self.words.unwritten.lock().await;
        self.write_all(&mut unwritten).await;
        unwritten.is_empty()
    }

    /// A word stays until it is written: the call that says it may be given up in the middle.
    async fn write_all(&self, unwritten: &mut BTreeMap<String, IscsiStatus>) {
        for (volume, status) in unwritten.clone() {
            match self.write(&volume, &status).await {
                Ok(()) => {
                    unwritten.remove(&volume);
                }
                Err(error) => {
                    let error = chain(&error);
                    tracing::info!(
                        volume,
                        error,
                        "The VolumeAttachment is told of the session later."
                    );
                }
            }
        }
    }

    /// Nobody wants to know it whose VolumeAttachment is gone.
    async fn write(&self, volume: &str, status: &IscsiStatus) -> Result<(), ObjectError> {
        let name = attachment_name(volume, &self.node);
        let patch = Patch::Merge(json!({"status": {"Block": {"ISCSIStatus": status}}}));
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let params = PatchParams::default();
        match attachments.patch_status(&name, &params, &patch).await {
            Err(error) if !matches!(Answer::of(&error), Answer::Gone) => Err(explain(
                "patch",
                "volumeattachments.storage.zadara.com/status",
            )(error)),
            _ => Ok(()),
        }
    }
}
