//! Nodes whose Node is gone and that are barred: they are let go when somebody says that their machines do not come back.

use std::time::Instant;

use kube::ResourceExt as _;
use stowage_api::causes::chain;
use stowage_api::vpsa::{FORGET, VscNode};
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;

use super::Nodes;
use crate::rest::ApiError;
use crate::vsc::attachment::server::{Host, is_named_after};
use crate::vsc::error::StepError;

impl Nodes {
    /// Removes the node's Server records from all arrays, and then the VSCNode with what bars it: a machine that comes back all the
    /// same reaches nothing of before. Called twice: the rest of it is done.
    pub(super) async fn dismiss(&self, node: &VscNode, name: &str) -> Result<(), StepError> {
        let host = Host::of(&node.spec);
        for array in self.context.cluster.arrays.store().all() {
            let array = array.object.name_any();
            match self.remove_records(&array, host).await {
                Ok(0) => {}
                // Whether it is gone the next look tells.
                Ok(_) => return Ok(()),
                Err(error) => {
                    self.not_yet(node, name, &array, &error);
                    return Err(error);
                }
            }
        }
        self.reminders.remove(name);
        let message =
            "its Server records are gone from all VPSAs: it is let go, as its annotation asks";
        self.tell(node, "Dismissed", message);
        Ok(self.forget(node).await?)
    }

    /// Removes the Server records that were made for a node; how many there were. Those of other names were made by others.
    async fn remove_records(&self, array: &str, host: Host<'_>) -> Result<usize, StepError> {
        let api = self.context.api(array).await?;
        let mut records = api.servers().await?;
        records.retain(|it| host.is(it) && is_named_after(it, host.name));
        for record in &records {
            api.delete_server(&record.id)
                .await
                .map(drop)
                .map_err(|error: ApiError| StepError::Record {
                    name: record.display_name.clone(),
                    id: record.id.to_string(),
                    source: Box::new(error),
                })?;
        }
        Ok(records.len())
    }

    /// Tells people why it is not let go yet, less and less often.
    fn not_yet(&self, node: &VscNode, name: &str, array: &str, error: &StepError) {
        if self.reminders.is(name, Instant::now()) {
            return;
        }
        self.reminders.add(name, Instant::now());
        let message = format!(
            "VPSA `{array}` must not have a Server record of the node before it is let go: {}",
            chain(error)
        );
        self.tell(node, "NotDismissed", &message);
    }

    /// Takes the word of a person back whose Node is there: whenever it goes again, somebody has to say it again. Called twice: it
    /// is taken back.
    pub(super) async fn keep_back(&self, node: &VscNode) -> Result<(), ObjectError> {
        let patch = ObjectPatch::new().remove_annotation(FORGET);
        self.context.writer.change(node, patch).await?;
        let message = format!(
            "the cluster has a Node of this name, so it is not let go: delete the Node first, and then annotate again with `{FORGET}`"
        );
        self.tell(node, "NotDismissed", &message);
        Ok(())
    }
}
