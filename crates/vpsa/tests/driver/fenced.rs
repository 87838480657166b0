//! A node that was fenced, or whose initiator has another name: what it says about itself while disks are in use there.

use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_api::vpsa::{CLEAN, FENCED, RELEASED};
use tonic::Code;

use crate::calls::Used;
use crate::rig::{NODE, Rig};

fn annotation(node: &Value, key: &str) -> Value {
    node["metadata"]["annotations"][key].clone()
}

impl Rig {
    /// As if the node had been lost, and were back before anything else was done.
    async fn fence(&mut self) {
        self.stop_driver().await;
        let fence = format!("{FENCED}=2026-01-01T00:00:00Z");
        let words = ["annotate", "vscnode", NODE, &fence];
        self.server.kubectl(&words).unwrap();
        self.start_driver();
        self.until("vscnode", NODE, |it| annotation(it, RELEASED).is_string())
            .await;
    }

    /// The node does not say that nothing is left there.
    async fn stays_fenced(&self) {
        tokio::time::sleep(Duration::from_secs(6)).await;
        let node = self.until("vscnode", NODE, Value::is_object).await;
        let (fenced, clean) = (annotation(&node, FENCED), annotation(&node, CLEAN));
        assert!(fenced.is_string() && clean.is_null(), "{node}");
    }

    /// Lets go of the volume; then the node is let in, and can use it again.
    async fn let_go_and_use_again(mut self, mut used: Used) {
        self.unpublish(&used).await.unwrap();
        self.until("vscnode", NODE, |it| annotation(it, FENCED).is_null())
            .await;
        self.publish(&mut used).await.unwrap();
        self.unpublish(&used).await.unwrap();
        self.delete(used).await;
        self.stop_driver().await;
    }
}

isolated! {
    async fn a_node_that_was_fenced_is_let_in_again_once_no_disk_is_in_use_there(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, true, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        rig.fence().await;
        assert_eq!(rig.on_array().await, (1, 0, 0), "it cannot write any more");
        rig.stays_fenced().await;
        let refused = rig.attach(&mut used).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");

        rig.let_go_and_use_again(used).await;
    }

    async fn a_node_that_was_fenced_is_let_in_again_once_no_share_is_mounted_there(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        rig.fence().await;
        rig.stays_fenced().await;

        rig.let_go_and_use_again(used).await;
    }

    async fn an_initiator_with_another_name_is_registered_once_no_disk_is_in_use(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, true, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        let name = |it: &Value| it["spec"]["block"]["IQN"].clone();
        let before = name(&rig.until("vscnode", NODE, Value::is_object).await);
        rig.stop_driver().await;
        let file = rig.path("initiatorname.iscsi");
        std::fs::write(file, "InitiatorName=iqn.2026-01.test:renamed\n").unwrap();
        rig.start_driver();
        rig.publish(&mut used).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let now = name(&rig.until("vscnode", NODE, Value::is_object).await);
        assert_eq!(now, before, "its disks are in use under that name");
        assert_eq!(rig.sessions().await, 1);

        rig.unpublish(&used).await.unwrap();
        rig.stop_driver().await;
        rig.start_driver();
        rig.until("vscnode", NODE, |it| name(it) == "iqn.2026-01.test:renamed").await;
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
