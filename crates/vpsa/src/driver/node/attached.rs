//! How a disk is attached to this node by now. What the controller said when it published the volume may be old: an array hands
//! out numbers anew when a disk is attached again, as for a node that got another initiator, and Kubernetes keeps what it was
//! told first. Under the old number there may be a disk of another volume.

use std::time::Duration;

use stowage_api::causes::chain;
use stowage_api::vpsa::{AttachType, AttachmentState, VolumeAttachment};
use tokio::time::timeout;

use super::NodeServices;
use crate::driver::error::Error;
use crate::driver::names::attachment_name;
use crate::vsc::write::Writer;

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a disk is attached to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The target it is at.
    pub target: String,
    /// Its number there.
    pub lun: u64,
    /// The array takes nothing that is written.
    pub read_only: bool,
    /// For which initiator, if that is known.
    pub initiator: Option<String>,
}

impl NodeServices {
    /// How the disk of a volume is attached to this node. An error if it is not, or nobody can say.
    pub(super) async fn attached(&self, volume: &str) -> Result<Attached, Error> {
        let name = attachment_name(volume, &self.node);
        let found = self.attachment(&name).await?;
        judge(&name, found)
    }

    /// Where the disk of a volume was attached to this node when that was last written down. Not known without an API server:
    /// nothing waits for one, since a session too many does no harm.
    pub(super) async fn last_place(&self, volume: &str) -> Option<(String, u64)> {
        let name = attachment_name(volume, &self.node);
        let found = self.attachment(&name).await.unwrap_or_else(|error| {
            let error = chain(&error);
            tracing::warn!(volume, error, "A session with its VPSA may be left.");
            None
        });
        place(&found?)
    }

    pub(super) async fn attachment(&self, name: &str) -> Result<Option<VolumeAttachment>, Error> {
        let writer = Writer {
            client: self.registration.client.clone(),
        };
        match timeout(PATIENCE, writer.read(name)).await {
            Ok(read) => Ok(read?),
            Err(_) => Err(Error::Unattached(format!(
                "the API server does not answer, so nobody can say how the disk is attached (VolumeAttachment `{name}`)"
            ))),
        }
    }
}

/// Whether this is an attachment by which a disk can be found.
fn judge(name: &str, found: Option<VolumeAttachment>) -> Result<Attached, Error> {
    let gone = |how: &str| {
        let text =
            format!("the volume is not attached to this node: VolumeAttachment `{name}` {how}");
        Err(Error::Precondition(text))
    };
    let Some(found) = found else {
        return gone("does not exist");
    };
    if found.metadata.deletion_timestamp.is_some() {
        return gone("is being deleted");
    }
    if found.spec.attach_type != AttachType::Iscsi {
        return gone("is not one of a disk");
    }
    let state = found.status.as_ref().map(|status| &status.state);
    let is_attached = matches!(
        state,
        Some(AttachmentState::Ready | AttachmentState::IscsiLoginPending)
    );
    match place(&found).filter(|_| is_attached) {
        Some((target, lun)) => Ok(Attached {
            target,
            lun,
            read_only: found.spec.read_only,
            initiator: found.status.and_then(|it| it.block?.initiator),
        }),
        None => Err(Error::Unattached(format!(
            "the volume is not attached to this node yet: wait until VolumeAttachment `{name}` is ready"
        ))),
    }
}

fn place(attachment: &VolumeAttachment) -> Option<(String, u64)> {
    let block = attachment.status.as_ref()?.block.as_ref()?;
    let lun = u64::try_from(block.lun).ok()?;
    (!block.target.is_empty()).then(|| (block.target.clone(), lun))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tonic::{Code, Status};

    use super::*;

    fn attachment(metadata: &Value, state: &str, block: &Value) -> VolumeAttachment {
        let object = json!({
            "apiVersion": "storage.zadara.com/v1", "kind": "VolumeAttachment", "metadata": metadata,
            "spec": {"volumeName": "v", "VSCNodeName": "n", "attachType": "ISCSI", "readOnly": true},
            "status": {"state": state, "Block": block},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_an_attachment_that_is_there_to_stay_says_where_its_disk_is() {
        let (there, here) = (
            json!({"name": "v.n"}),
            json!({"lun": 3, "target": "iqn.t", "initiator": "iqn.n"}),
        );
        let going = json!({"name": "v.n", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let expected = Attached {
            target: "iqn.t".to_owned(),
            lun: 3,
            read_only: true,
            initiator: Some("iqn.n".to_owned()),
        };
        for state in ["Ready", "ISCSILoginPending"] {
            let found = attachment(&there, state, &here);
            assert_eq!(judge("v.n", Some(found)).unwrap(), expected, "{state}");
        }
        for (found, code) in [
            (None, Code::FailedPrecondition),
            (
                Some(attachment(&going, "Ready", &here)),
                Code::FailedPrecondition,
            ),
            (
                Some(attachment(&there, "Attaching", &here)),
                Code::Unavailable,
            ),
            (Some(attachment(&there, "Failed", &here)), Code::Unavailable),
            (
                Some(attachment(
                    &there,
                    "Ready",
                    &json!({"lun": 0, "target": ""}),
                )),
                Code::Unavailable,
            ),
        ] {
            let refused = Status::from(judge("v.n", found).unwrap_err());
            assert_eq!(refused.code(), code, "{refused}");
            assert!(refused.message().contains("`v.n`"), "{refused}");
        }
    }
}
