//! Who needs a VPSA, a class or a node right now. Watches may be behind, and whoever is let go of is never asked again.

use stowage_api::vpsa::{Snapshot, Volume, VolumeAttachment, Vpsa};
use stowage_kubernetes::object_error::ObjectError;

use super::Writer;
use crate::vsc::cluster::is_own;

impl Writer {
    /// Whether volumes or snapshots of ours are on an array.
    pub async fn is_array_used(&self, name: &str) -> Result<bool, ObjectError> {
        let is_on_it = |it: &Volume| it.status.as_ref().is_some_and(|it| it.vpsa_id == name);
        if self.list().await?.iter().any(is_on_it) {
            return Ok(true);
        }
        let is_on_it = |it: &Snapshot| {
            let array = it.status.as_ref().and_then(|it| it.vpsa_id.as_deref());
            array == Some(name) && is_own(it)
        };
        Ok(self.list().await?.iter().any(is_on_it))
    }

    /// Whether a class has members or volumes.
    pub async fn is_class_used(&self, name: &str) -> Result<bool, ObjectError> {
        let is_in_it = |it: &Vpsa| it.spec.vsc_storage_class_name == name;
        if self.list().await?.iter().any(is_in_it) {
            return Ok(true);
        }
        let is_in_it = |it: &Volume| it.spec.vsc_storage_class_name == name;
        Ok(self.list().await?.iter().any(is_in_it))
    }

    /// Whether volumes are attached to a node.
    pub async fn is_node_used(&self, name: &str) -> Result<bool, ObjectError> {
        let is_on_it = |it: &VolumeAttachment| it.spec.vsc_node_name == name;
        Ok(self.list().await?.iter().any(is_on_it))
    }
}
