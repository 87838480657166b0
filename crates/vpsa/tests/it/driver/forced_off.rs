//! A disk that is detached on its array while a pod uses it: what else the node has goes on, and nothing new comes.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_api::vpsa::{DETACHED, FENCED};
use tonic::Code;

use crate::driver::life::write;
use crate::driver::rig::{NODE, Rig};

fn annotation(node: &Value, key: &str) -> Value {
    node["metadata"]["annotations"][key].clone()
}

/// What is written to a raw disk is on the array.
fn write_raw(device: &Path) {
    let mut device = OpenOptions::new().write(true).open(device).unwrap();
    device.write_all(&[7; 4096]).unwrap();
    device.sync_all().unwrap();
}

isolated! {
    async fn a_disk_that_is_forced_off_bars_its_node_for_what_is_new_and_the_others_go_on(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut forced = rig.create("pvc-1", 1, true, None).await.unwrap();
        let mut disk = rig.create("pvc-2", 1, true, None).await.unwrap();
        let mut share = rig.create("pvc-3", 1, false, None).await.unwrap();
        let mut new = rig.create("pvc-4", 1, true, None).await.unwrap();
        rig.publish(&mut forced).await.unwrap();
        let places = [rig.publish(&mut disk).await.unwrap(), rig.publish(&mut share).await.unwrap()];
        let others_write = || {
            write_raw(&places[0]);
            write(&places[1].join("file"), "still here");
        };
        let name = format!("{}.{NODE}", forced.id);
        rig.server.kubectl(&["delete", "volumeattachments.storage.zadara.com", &name]).unwrap();
        let node = rig.until("vscnode", NODE, |it| annotation(it, DETACHED).is_string()).await;
        assert!(annotation(&node, FENCED).is_null(), "{node}");
        others_write();
        let refused = rig.attach(&mut new).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("kubectl annotate vscnode"), "{refused}");
        // What it has already is attached as before.
        rig.attach(&mut disk).await.unwrap();
        others_write();

        rig.unpublish(&forced).await.unwrap();
        rig.until("vscnode", NODE, |it| annotation(it, DETACHED).is_null()).await;
        write_raw(&rig.publish(&mut new).await.unwrap());
        others_write();
        for used in [new, disk, share] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        rig.delete(forced).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }
}
