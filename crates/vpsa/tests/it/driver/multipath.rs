//! Disks of an array with two portals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_csi::proto::csi::{NodeGetVolumeStatsRequest, VolumeCondition};
use stowage_sim::vpsa::state::{Controller, Object};

use crate::driver::calls::{GIB, Used};
use crate::driver::life::{size, write};
use crate::driver::rig::{Rig, Setting, own_address};

/// The portals of the array.
const PORTALS: [u8; 2] = [1, 3];

fn two_portals(setting: &mut Setting) {
    setting.array.address = PORTALS.map(own_address).to_vec();
}

impl Rig {
    /// Both controllers of the array work, each with an address of its own.
    async fn both_controllers_work(&self) {
        let controllers = self.array.control().objects().await.unwrap().controllers;
        for controller in controllers.into_values() {
            let active = Controller {
                state: "active".to_owned(),
                ..controller
            };
            let control = self.array.control();
            control.put(Object::Controller(active)).await.unwrap();
        }
        let has_both = |it: &Value| {
            it["status"]["portals"]
                .as_array()
                .is_some_and(|it| it.len() == 2)
        };
        self.until("vpsa", "one", has_both).await;
    }

    async fn portal(&self, number: u8, up: bool) {
        let control = self.array.control();
        control
            .set_data_at(Some(own_address(number)), up)
            .await
            .unwrap();
    }

    /// Links to disks with several paths.
    fn maps(&self) -> Vec<PathBuf> {
        let links = fs::read_dir(self.path("mapper")).into_iter().flatten();
        links.map(|link| link.unwrap().path()).collect()
    }

    async fn condition(&mut self, used: &Used) -> VolumeCondition {
        let request = NodeGetVolumeStatsRequest {
            volume_id: used.id.clone(),
            volume_path: self.target(used).display().to_string(),
            ..NodeGetVolumeStatsRequest::default()
        };
        let stats = self.node.node_get_volume_stats(request).await.unwrap();
        stats.into_inner().volume_condition.unwrap()
    }

    /// Nothing is left of sessions on the node, settings with secrets included.
    async fn has_no_session(&self) {
        assert_eq!(self.sessions().await, 0);
        assert!(self.maps().is_empty());
        for directory in ["nodes", "ifaces", "by-path"] {
            let left: Vec<_> = fs::read_dir(self.path(directory)).unwrap().collect();
            assert!(left.is_empty(), "{directory}: {left:?}");
        }
    }
}

isolated! {
    async fn a_disk_with_two_paths_outlives_either_and_is_let_go_in_order(directory: &Path) {
        let mut rig = Rig::with(directory, json!({"volumeType": "Block"}), two_portals).await;
        rig.both_controllers_work().await;
        let mut files = rig.create("pvc-1", 1, false, None).await.unwrap();
        let place = rig.publish(&mut files).await.unwrap();
        assert_eq!(rig.sessions().await, 2);
        let map = rig.maps();
        assert_eq!(map.len(), 1);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let device = fs::canonicalize(&map[0]).unwrap();
        let mounted = format!(" - xfs {} ", device.display());
        assert!(mounts.contains(&mounted), "{mounts}");
        assert!(!rig.condition(&files).await.abnormal);

        for portal in PORTALS {
            rig.portal(portal, false).await;
            let start = Instant::now();
            write(&place.join("file"), "by the other path");
            // Sooner than the two minutes for which a single path is waited for.
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
            let condition = rig.condition(&files).await;
            assert!(condition.abnormal && condition.message.contains("1 of 2 paths"), "{condition:?}");
            rig.portal(portal, true).await;
            assert!(!rig.condition(&files).await.abnormal);
        }
        rig.grow(&files, 2).await;
        assert!(size(&place) > GIB as u64 + GIB as u64 / 2, "{}", size(&place));

        let mut raw = rig.create("pvc-2", 1, true, None).await.unwrap();
        rig.publish(&mut raw).await.unwrap();
        assert_eq!((rig.sessions().await, rig.maps().len()), (2, 2));
        rig.grow(&raw, 3).await;
        rig.unpublish(&files).await.unwrap();
        assert_eq!((rig.sessions().await, rig.maps().len()), (2, 1), "the other disk is in use");
        let place = rig.publish(&mut files).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "by the other path");
        for used in [files, raw] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        rig.has_no_session().await;
        rig.stop_driver().await;
    }

    async fn a_path_that_is_missing_holds_up_nobody_and_is_found_later(directory: &Path) {
        let mut rig = Rig::with(directory, json!({"volumeType": "Block"}), two_portals).await;
        // As people write them, whatever the array tells.
        let both = PORTALS.map(|number| own_address(number).to_string());
        let patch = json!({"spec": {"portals": both}}).to_string();
        let vpsa = "vpsas.storage.zadara.com";
        rig.server.kubectl(&["patch", vpsa, "one", "--type=merge", "-p", &patch]).unwrap();
        rig.until("vpsa", "one", |it| it["status"]["portals"] == json!(both)).await;
        for number in PORTALS {
            rig.portal(number, false).await;
        }
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let none = rig.publish(&mut used).await.unwrap_err();
        for portal in &both {
            assert!(none.message().contains(&format!("cannot log in at {portal}:3260")), "{none}");
        }
        rig.portal(PORTALS[1], true).await;
        let place = rig.publish(&mut used).await.unwrap();
        write(&place.join("file"), "by one path");
        assert_eq!((rig.sessions().await, rig.maps().len()), (1, 0));
        rig.portal(PORTALS[0], true).await;
        let mut other = rig.create("pvc-2", 1, false, None).await.unwrap();
        rig.publish(&mut other).await.unwrap();
        assert_eq!(rig.sessions().await, 2, "who comes next logs in where nobody has");
        for used in [used, other] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        rig.has_no_session().await;
        rig.stop_driver().await;
    }

    async fn without_multipathd_one_path_is_used_whichever_works(directory: &Path) {
        let mut rig = Rig::with(directory, json!({"volumeType": "Block"}), |setting| {
            two_portals(setting);
            setting.has_multipathd = false;
        })
        .await;
        rig.both_controllers_work().await;
        rig.portal(PORTALS[0], false).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        rig.portal(PORTALS[0], true).await;
        let mut other = rig.create("pvc-2", 1, false, None).await.unwrap();
        rig.publish(&mut other).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        for used in [used, other] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        rig.has_no_session().await;
        rig.stop_driver().await;
    }

    async fn an_unstage_that_did_not_come_to_its_end_leaves_no_map_beside_a_disk_in_use(directory: &Path) {
        let mut rig = Rig::with(directory, json!({"volumeType": "Block"}), two_portals).await;
        rig.both_controllers_work().await;
        let mut volumes = Vec::new();
        for name in ["pvc-1", "pvc-2"] {
            let mut used = rig.create(name, 1, false, None).await.unwrap();
            rig.publish(&mut used).await.unwrap();
            volumes.push(used);
        }
        assert_eq!((rig.sessions().await, rig.maps().len()), (2, 2));
        // As far as the call came.
        rig.unmount_by_hand(&volumes[0]);
        for (used, left) in volumes.iter().zip([(2, 1), (0, 0)]) {
            rig.unpublish(used).await.unwrap();
            assert_eq!((rig.sessions().await, rig.maps().len()), left, "{} was unstaged", used.id);
        }
        for used in volumes {
            rig.delete(used).await;
        }
        rig.has_no_session().await;
        rig.stop_driver().await;
    }
}
