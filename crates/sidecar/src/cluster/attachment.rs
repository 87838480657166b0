//! VolumeAttachments that this driver answers.

use stowage_kubernetes::store::Cached;

use super::wire::WireAttachment;

/// The node's name on the storage side, kept on the attachment: it can be detached when the node is long gone.
pub(crate) const NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";

/// A VolumeAttachment of this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    /// The volume. `None`: an in-tree volume given inline, which no CSI driver can know.
    pub(crate) volume: Option<String>,
    pub(crate) attached: bool,
    pub(crate) attach_error: Option<String>,
    pub(crate) detach_error: Option<String>,
    pub(crate) node_id: Option<String>,
    /// It has annotations, whatever they are: a patch that adds one must know.
    pub(crate) annotated: bool,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
}

impl Attachment {
    /// Reads an attachment. `None`: it is another driver's.
    pub(crate) fn read(wire: WireAttachment, driver: &str) -> Option<Self> {
        let WireAttachment {
            metadata,
            spec,
            status,
        } = wire;
        if spec.attacher != driver {
            return None;
        }
        Some(Self {
            name: metadata.name?,
            uid: metadata.uid?,
            node: spec.node_name,
            volume: spec.source.persistent_volume_name,
            attached: status.attached,
            annotated: metadata
                .annotations
                .as_ref()
                .is_some_and(|annotations| !annotations.is_empty()),
            attach_error: status.attach_error.and_then(|error| error.message),
            detach_error: status.detach_error.and_then(|error| error.message),
            node_id: metadata
                .annotations
                .and_then(|mut annotations| annotations.remove(NODE_ID)),
            finalizers: metadata.finalizers.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }
}

impl Cached for Attachment {
    fn key(&self) -> &str {
        &self.name
    }

    /// By volume: a volume is not deleted while it is attached anywhere.
    fn group(&self) -> Option<String> {
        self.volume.clone()
    }
}
