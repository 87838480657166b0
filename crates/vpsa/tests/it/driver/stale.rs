//! Disks that are not what somebody was told, and disks that somebody else uses.

use std::fs;
use std::path::{Path, PathBuf};

use devcluster::isolated;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;
use stowage_csi::proto::csi::NodeExpandVolumeRequest;
use stowage_sim::vpsa::state::{Attachment, Object, Server};
use tonic::Code;

use crate::driver::calls::Used;
use crate::driver::life::write;
use crate::driver::rig::{NODE, Rig};

impl Rig {
    /// Takes a volume away from pod and staging, as a person does who knows no CSI.
    pub fn unmount_by_hand(&self, used: &Used) {
        for place in [self.target(used), self.staging(used).into()] {
            unmount(&place, UnmountFlags::empty()).unwrap();
        }
    }

    /// The device of the disk with this number.
    pub fn device(&self, lun: &str) -> PathBuf {
        let links = fs::read_dir(self.path("by-path")).unwrap();
        let mut links = links.map(|link| link.unwrap().path());
        let end = format!("-lun-{lun}");
        let link = links.find(|link| link.to_str().unwrap().ends_with(&end));
        fs::canonicalize(link.unwrap()).unwrap()
    }
}

isolated! {
    async fn a_disk_is_the_one_that_is_attached_now_whatever_kubernetes_was_told_before(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut volumes = Vec::new();
        for name in ["pvc-1", "pvc-2"] {
            let mut used = rig.create(name, 1, false, None).await.unwrap();
            let place = rig.publish(&mut used).await.unwrap();
            write(&place.join("file"), name);
            volumes.push(used);
        }
        for used in &volumes {
            rig.unpublish(used).await.unwrap();
        }
        for used in &mut volumes {
            rig.attach(used).await.unwrap();
        }
        // Attached to another Server record they would have other numbers, and nobody tells Kubernetes.
        let [mut first, mut second] = <[Used; 2]>::try_from(volumes).ok().unwrap();
        let numbers = [&first, &second].map(|used| used.context["lun"].clone());
        assert_ne!(numbers[0], numbers[1]);
        first.context.insert("lun".to_owned(), numbers[1].clone());
        second.context.insert("target".to_owned(), "iqn.2011-04.com.zadara:old".to_owned());
        second.context.insert("lun".to_owned(), numbers[0].clone());
        for used in [&first, &second] {
            rig.stage(used).await.unwrap();
            let file = Path::new(&rig.staging(used)).join("file");
            assert_eq!(fs::read_to_string(file).unwrap(), used.id);
            rig.unpublish(used).await.unwrap();
        }

        rig.attach(&mut first).await.unwrap();
        let name = format!("{}.{NODE}", first.id);
        rig.server.kubectl(&["delete", "volumeattachments.storage.zadara.com", &name]).unwrap();
        let gone = rig.stage(&first).await.unwrap_err();
        assert_eq!(gone.code(), Code::FailedPrecondition, "{gone}");
        assert!(gone.message().contains(&format!("`{name}` does not exist")), "{gone}");
        for used in [first, second] {
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn a_disk_is_not_looked_for_under_another_name_than_it_is_attached_to(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.attach(&mut used).await.unwrap();
        // The node comes back with another name, and another of its disks is attached to that already.
        let other = rig.create("pvc-2", 1, false, None).await.unwrap();
        let control = rig.array.control();
        let objects = control.objects().await.unwrap();
        let known = objects.servers.into_values().next().unwrap();
        let mut volumes = objects.volumes.into_values();
        let volume = volumes.find(|it| it.display_name == other.id).unwrap().id;
        let server = Server {
            id: "srv-00000099".to_owned(),
            display_name: "renamed".to_owned(),
            iqn: "iqn.2026-01.test:renamed".to_owned(),
            ..known
        };
        let first = Attachment {
            volume,
            server: server.id.clone(),
            lun: used.context["lun"].parse().unwrap(),
            read_only: false,
            ready_at: 0,
        };
        for object in [Object::Server(server), Object::Attachment(first)] {
            control.put(object).await.unwrap();
        }
        fs::write(rig.path("initiatorname.iscsi"), "InitiatorName=iqn.2026-01.test:renamed\n").unwrap();
        let refused = rig.stage(&used).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        for name in ["initiator iqn.2026-01.test:node-1,", "is of iqn.2026-01.test:renamed"] {
            assert!(refused.message().contains(name), "{refused}");
        }
        rig.stop_driver().await;
    }

    async fn a_disk_that_is_mounted_elsewhere_is_nobodys_to_stage(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        rig.stage(&used).await.unwrap();
        rig.unmount_by_hand(&used);
        let (device, elsewhere) = (rig.device(&used.context["lun"]), rig.path("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        mount(&device, &elsewhere, "xfs", MountFlags::empty(), c"nouuid").unwrap();
        let refused = rig.stage(&used).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(elsewhere.to_str().unwrap()), "{refused}");
        unmount(&elsewhere, UnmountFlags::empty()).unwrap();
        rig.publish(&mut used).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn a_disk_that_is_not_recognised_has_not_grown(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        let places = ["by-path", "sysfs/class/iscsi_session"].map(|name| rig.path(name));
        for place in &places {
            fs::rename(place, place.with_extension("elsewhere")).unwrap();
        }
        let request = NodeExpandVolumeRequest {
            volume_id: used.id.clone(),
            volume_path: place.display().to_string(),
            ..NodeExpandVolumeRequest::default()
        };
        let unknown = rig.node.node_expand_volume(request.clone()).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unavailable, "{unknown}");
        assert!(unknown.message().contains(place.to_str().unwrap()), "{unknown}");
        for place in &places {
            fs::rename(place.with_extension("elsewhere"), place).unwrap();
        }
        rig.node.node_expand_volume(request).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
