//! A node on which there are no links to disks, although there are disks: udev does not run, or the driver looks elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use devcluster::isolated;
use serde_json::json;
use tonic::Code;

use crate::driver::life::write;
use crate::driver::rig::Rig;
use crate::driver::sessions::alone;

impl Rig {
    /// Takes the links away; what brings them back.
    fn hide_links(&self) -> impl Fn() + use<> {
        let (links, elsewhere) = (self.path("by-path"), self.path("elsewhere"));
        fs::rename(&links, &elsewhere).unwrap();
        move || fs::rename(&elsewhere, &links).unwrap()
    }

    fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let links = fs::read_dir(self.path("by-path")).unwrap();
        let links = links.map(|link| link.unwrap().path());
        links
            .map(|link| (fs::read_link(&link).unwrap(), link))
            .collect()
    }
}

isolated! {
    async fn a_session_whose_disk_is_mounted_stays_although_there_is_no_link_to_the_disk(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        let other = {
            let mut other = rig.create("pvc-2", 1, false, None).await.unwrap();
            rig.publish(&mut other).await.unwrap();
            other
        };
        let show = rig.hide_links();
        // It looks through all sessions.
        rig.stop_driver().await;
        rig.start_driver();
        let refused = rig.unpublish(&other).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains("has no link to it"), "{refused}");
        assert_eq!(rig.sessions().await, 1, "a disk of it is mounted");
        write(&place.join("file"), "text");

        show();
        rig.unpublish(&other).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "text");
        rig.unpublish(&used).await.unwrap();
        assert_eq!(rig.sessions().await, 0);
        for used in [used, other] {
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn a_session_is_not_ended_while_one_of_its_disks_has_no_link(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let mut other = rig.create("pvc-2", 1, true, None).await.unwrap();
        rig.attach(&mut other).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        // Of the disk that nobody has staged.
        let device = rig.device(&other.context["lun"]);
        let (to, link) = rig.links().into_iter().find(|(to, _)| *to == device).unwrap();
        fs::remove_file(&link).unwrap();
        let refused = rig.unpublish(&used).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        for name in [device.to_str().unwrap(), rig.path("by-path").to_str().unwrap()] {
            assert!(refused.message().contains(name), "{refused}");
        }
        assert_eq!(rig.sessions().await, 1);
        // Whoever has it keeps the session, and that is no error.
        let held = alone(&device);
        rig.unpublish(&used).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        drop(held);

        symlink(to, link).unwrap();
        rig.publish(&mut other).await.unwrap();
        rig.unpublish(&other).await.unwrap();
        assert_eq!(rig.sessions().await, 0);
        for used in [used, other] {
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn links_that_cannot_be_read_are_named_before_anybody_logs_in(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.attach(&mut used).await.unwrap();
        let links = rig.path("by-path");
        fs::remove_dir(&links).unwrap();
        fs::write(&links, "no directory").unwrap();
        let refused = rig.stage(&used).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains(links.to_str().unwrap()), "{refused}");
        assert_eq!(rig.sessions().await, 0);
        fs::remove_file(&links).unwrap();
        fs::create_dir(&links).unwrap();
        rig.publish(&mut used).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
