//! What the driver is told of its volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, SecretReference};

/// The part of a volume's `spec.csi` that a controller reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CsiSource {
    pub(crate) volume_handle: String,
    pub(crate) fs_type: Option<String>,
    pub(crate) read_only: bool,
    /// Pairs rather than a map: a node of a map has room for eleven.
    attributes: Box<[(String, String)]>,
    pub(crate) controller_publish_secret: Option<Box<SecretReference>>,
    pub(crate) controller_expand_secret: Option<Box<SecretReference>>,
}

impl CsiSource {
    /// The volume's attributes, for a call.
    pub(crate) fn attributes(&self) -> BTreeMap<String, String> {
        self.attributes.iter().cloned().collect()
    }
}

impl From<CSIPersistentVolumeSource> for CsiSource {
    fn from(source: CSIPersistentVolumeSource) -> Self {
        let attributes = source.volume_attributes.unwrap_or_default();
        Self {
            volume_handle: source.volume_handle,
            fs_type: source.fs_type.filter(|name| !name.is_empty()),
            read_only: source.read_only.unwrap_or(false),
            attributes: attributes.into_iter().collect(),
            controller_publish_secret: source.controller_publish_secret_ref.map(Box::new),
            controller_expand_secret: source.controller_expand_secret_ref.map(Box::new),
        }
    }
}
