//! A node that was fenced, or whose initiator has another name: what it says about itself while disks are in use there.

use std::path::Path;

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_api::vpsa::{CLEAN, FENCED, RELEASED};
use tonic::Code;

use crate::driver::calls::Used;
use crate::driver::rig::{NODE, Rig};

/// An address that the node does not have.
const ELSEWHERE: &str = "192.0.2.1";

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

    /// As if the node had another address: its next look at itself begins with writing down the right one.
    fn mislay(&self) {
        let address = json!({"spec": {"NAS": {"IP": ELSEWHERE}}}).to_string();
        let words = [
            "patch",
            "vscnode",
            NODE,
            "--type=merge",
            "--patch",
            &address,
        ];
        self.server.kubectl(&words).unwrap();
    }

    /// What the node says of itself once it has found that out.
    async fn found_again(&self) -> Value {
        let is_found = |it: &Value| it["spec"]["NAS"]["IP"] != ELSEWHERE;
        self.until("vscnode", NODE, is_found).await
    }

    /// The node does not say that nothing is left there.
    async fn stays_fenced(&self) {
        // The second look begins when the first one has come to its end.
        for _ in 0..2 {
            self.mislay();
            self.found_again().await;
        }
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
        rig.mislay();
        rig.start_driver();
        // Both would be written at the same moment.
        let now = name(&rig.found_again().await);
        assert_eq!(now, before, "its disks are in use under that name");
        rig.publish(&mut used).await.unwrap();
        assert_eq!(rig.sessions().await, 1);

        rig.unpublish(&used).await.unwrap();
        rig.stop_driver().await;
        rig.start_driver();
        rig.until("vscnode", NODE, |it| name(it) == "iqn.2026-01.test:renamed").await;
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
