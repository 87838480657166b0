//! Handles that anybody may send, and links that pods may plant: nothing outside of a volume's directory is reached.

use std::os::unix::fs::symlink;
use std::path::Path;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::cluster::Cluster;
use crate::rig::{GIB, Rig};

isolated! {
    async fn hostile_handles_and_planted_links_lead_nowhere(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let outside = directory.join("outside");
        std::fs::create_dir_all(outside.join("etc")).unwrap();
        std::fs::write(outside.join("etc/shadow"), "secret").unwrap();
        let volume = rig.create("victim", GIB, &[]).await.unwrap().volume_id;
        let name = volume.rsplit('/').next().unwrap().to_owned();
        let volumes = cluster.files.join("csi-volumes");

        for way in ["..", "../..", "../../../../../../etc", "a/../../..", "./../.."] {
            let id = format!("weka/v2/default/{way}/outside/etc");
            let refused = rig.publish(&id, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{id}: {refused}");
            assert_eq!(rig.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition, "{id}");
        }
        // A static path is confined to its filesystem, also over links.
        symlink("/", cluster.files.join("up")).unwrap();
        symlink(&outside, cluster.files.join("away")).unwrap();
        for id in ["weka/v2/default/away/etc".to_owned(), format!("weka/v2/default/up{}/etc", outside.display())] {
            let refused = rig.publish(&id, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{id}: {refused}");
        }
        // A dynamic volume has no links on its way at all.
        std::fs::rename(volumes.join(&name), volumes.join("moved")).unwrap();
        symlink(&outside, volumes.join(&name)).unwrap();
        let refused = rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(rig.delete(&volume).await.is_err());
        assert!(rig.create("victim", GIB, &[]).await.is_err());
        assert!(outside.join("etc/shadow").exists() && volumes.join("moved").exists());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(rig.mounts("pods"), Vec::<String>::new());

        for id in ["weka/v2/default/csi-volumes", "dir/v1/default/csi-volumes/moved", "weka/v2/default/.__internal__wekafs-async-delete/x"] {
            assert_eq!(rig.delete(id).await.unwrap_err().code(), Code::FailedPrecondition, "{id}");
        }
        for id in ["x", "/etc/passwd", "../..", "dir/v1"] {
            rig.delete(id).await.unwrap();
            let refused = rig.publish(id, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{id}");
        }
        rig.stop().await;
    }

    async fn a_foreign_mount_at_the_target_is_left_alone(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let target = rig.target("pod");
        std::fs::create_dir_all(&target).unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&target).status().unwrap();
        assert!(mounted.success());
        let refused = rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert_eq!(rig.unpublish(&volume, "pod").await.unwrap_err().code(), Code::FailedPrecondition);
        assert_eq!(rig.mounts("pods").len(), 1);
        rig.stop().await;
    }
}
