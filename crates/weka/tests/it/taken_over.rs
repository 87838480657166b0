//! Volumes that WEKA's own plugin made and published, as this driver finds them.

use std::fs;
use std::path::Path;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::cluster::Cluster;
use crate::rig::{GIB, Rig, eventually};

isolated! {
    async fn a_volume_below_an_earlier_dynamic_path_is_used_and_deleted(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let before = Rig::start(directory, &cluster, &["--dynamic-path=old/volumes"]);
        let id = before.create("kept", GIB, &[]).await.unwrap().volume_id;
        assert!(id.starts_with("dir/v1/default/old/volumes/kept-"), "{id}");
        before.stop().await;
        let place = cluster.files.join(id.strip_prefix("dir/v1/default/").unwrap());
        fs::create_dir(cluster.files.join("old/volumes/by-hand")).unwrap();

        let unaware = Rig::start(directory, &cluster, &[]);
        let refused = unaware.delete(&id).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("--earlier-dynamic-path"), "the remedy: {refused}");
        unaware.stop().await;
        assert!(place.exists());

        let rig = Rig::start(directory, &cluster, &["--earlier-dynamic-path=/old/volumes/"]);
        let target = rig.publish(&id, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        fs::write(target.join("file"), "data").unwrap();
        assert_eq!(rig.expand(&id, 2 * GIB).await.unwrap(), 2 << 30);
        rig.unpublish(&id, "pod").await.unwrap();
        let new = rig.create("new", GIB, &[]).await.unwrap().volume_id;
        assert!(new.starts_with("dir/v1/default/csi-volumes/new-"), "{new}");
        rig.delete(&id).await.unwrap();
        rig.delete(&id).await.unwrap();
        assert!(!place.exists());
        eventually("the removal of the data", || cluster.trash().is_empty()).await;
        let by_hand = "dir/v1/default/old/volumes/by-hand";
        assert_eq!(rig.delete(by_hand).await.unwrap_err().code(), Code::FailedPrecondition);
        rig.stop().await;
    }

    async fn a_volume_of_readers_that_was_published_writable_becomes_read_only(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let plugin = Rig::start(directory, &cluster, &[]);
        let id = plugin.create("shared", GIB, &[]).await.unwrap().volume_id;
        // As the plugin does it, whatever the access mode.
        let target = plugin.publish(&id, "reader", Mode::MultiNodeMultiWriter).await.unwrap();
        fs::write(target.join("file"), "data").unwrap();
        // What a container has: a mount of its own.
        let container = directory.join("container");
        fs::create_dir(&container).unwrap();
        let bound = std::process::Command::new("mount").arg("--bind").args([&target, &container]).status();
        assert!(bound.unwrap().success());
        let mut open = fs::File::create(container.join("open")).unwrap();
        plugin.stop().await;

        let rig = Rig::start(directory, &cluster, &[]);
        for _ in 0..2 {
            rig.publish(&id, "reader", Mode::MultiNodeReaderOnly).await.unwrap();
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "data");
            let refused = fs::write(target.join("more"), "").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        std::io::Write::write_all(&mut open, b"a pod that runs is not disturbed").unwrap();
        drop(open);
        assert_eq!(rig.mounts("pods").len(), 1, "it is the same mount");
        let writer = rig.publish(&id, "reader", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(writer.code(), Code::AlreadyExists, "{writer}");
        rig.unpublish(&id, "reader").await.unwrap();
        assert!(std::process::Command::new("umount").arg(&container).status().unwrap().success());
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}
