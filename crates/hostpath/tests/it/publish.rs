//! Which second call is fine and which is not.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use futures::future::join_all;
use rustix::io::Errno;
use stowage_csi::proto::csi::volume_capability::AccessMode;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{NodePublishVolumeRequest, VolumeCapability};
use tonic::Code;

use crate::rig::{Rig, block, filesystem, mount, text};
use crate::support::{MIB, isolated};

isolated! {
    async fn a_read_only_target_cannot_be_written_and_others_can(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let (id, writable) = rig.in_use("pvc", 32 * MIB, &filesystem("")).await;
        let request = NodePublishVolumeRequest { readonly: true, ..rig.publication(&id, "reader", &filesystem("")) };
        for _ in 0..2 {
            rig.node.node_publish_volume(request.clone()).await.unwrap();
        }
        fs::write(writable.join("file"), "content").unwrap();
        let reader = rig.target("reader");
        assert_eq!(fs::read_to_string(reader.join("file")).unwrap(), "content");
        let refused = fs::write(reader.join("file"), "no").unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::ROFS));

        for (pod, readonly) in [("reader", false), ("pvc", true)] {
            let request = NodePublishVolumeRequest { readonly, ..rig.publication(&id, pod, &filesystem("")) };
            let status = rig.node.node_publish_volume(request).await.unwrap_err();
            assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        }
        rig.unpublish(&id, "reader").await.unwrap();
        rig.put_away(&id, "pvc").await;
        rig.stop().await;
    }

    async fn a_volume_for_readers_is_staged_read_only(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        for kind in ["ext4", "xfs", "btrfs"] {
            let id = rig.create(kind, 300 * MIB, &filesystem(kind)).await.unwrap().volume_id;
            let readers = mount(kind, Mode::MultiNodeReaderOnly);
            rig.stage(&id, &readers).await.unwrap();
            rig.stage(&id, &readers).await.unwrap();
            let target = rig.publish(&id, "pod", &readers).await.unwrap();
            let refused = fs::write(target.join("file"), "no").unwrap_err();
            assert_eq!(Errno::from_io_error(&refused), Some(Errno::ROFS), "{kind}");
            let status = rig.stage(&id, &filesystem(kind)).await.unwrap_err();
            assert_eq!(status.code(), Code::AlreadyExists, "{status}");
            // A copy of what is mounted for reading.
            let snapshot = rig.snapshot(kind, &id).await.unwrap();
            rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
            rig.put_away(&id, "pod").await;
        }
        rig.stop().await;
    }

    async fn a_single_writer_has_a_single_target(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let raw = VolumeCapability { access_mode: Some(AccessMode { mode: Mode::SingleNodeSingleWriter.into() }), ..block() };
        for (name, capability) in [("fs", mount("", Mode::SingleNodeSingleWriter)), ("raw", raw)] {
            let (id, _) = rig.in_use(name, 32 * MIB, &capability).await;
            rig.publish(&id, name, &capability).await.unwrap();
            let status = rig.publish(&id, "second", &capability).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(status.message().contains(&format!("/pods/{name}`")), "{status}");
            rig.unpublish(&id, name).await.unwrap();
            rig.publish(&id, "second", &capability).await.unwrap();
            rig.put_away(&id, "second").await;
        }
        rig.stop().await;
    }

    async fn a_raw_block_volume_is_published_for_reading_only(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let (id, _) = rig.in_use("disk", 8 * MIB, &block()).await;
        let request = NodePublishVolumeRequest { readonly: true, ..rig.publication(&id, "reader", &block()) };
        for _ in 0..2 {
            rig.node.node_publish_volume(request.clone()).await.unwrap();
        }
        let reader = File::options().write(true).open(rig.target("reader"));
        let refused = reader.and_then(|mut device| device.write_all(b"no").and_then(|()| device.sync_all()));
        assert!(refused.is_err(), "the device refuses writes, not only its mount");
        File::options().write(true).open(rig.target("disk")).unwrap().write_all(b"yes").unwrap();
        rig.unpublish(&id, "reader").await.unwrap();
        rig.put_away(&id, "disk").await;
        rig.stop().await;
    }

    async fn what_is_not_staged_is_not_published(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        for (name, capability) in [("fs", filesystem("")), ("raw", block())] {
            let id = rig.create(name, 32 * MIB, &capability).await.unwrap().volume_id;
            let status = rig.publish(&id, "pod", &capability).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            let other = if name == "raw" { filesystem("") } else { block() };
            let status = rig.stage(&id, &other).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        }
        let id = rig.create("fs", 32 * MIB, &filesystem("")).await.unwrap().volume_id;
        let status = rig.stage(&id, &filesystem("xfs")).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        for path in ["some/path", "/", "/nowhere", &text(directory)] {
            let status = rig.stats(&id, path).await.unwrap_err();
            assert_eq!(status.code(), Code::NotFound, "{status}");
            let status = rig.node_expand(&id, Path::new(path), 32 * MIB).await.unwrap_err();
            assert_eq!(status.code(), Code::NotFound, "{status}");
        }
        rig.stop().await;
    }

    async fn a_mount_of_somebody_else_is_left_alone(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, _) = rig.in_use("pvc", 32 * MIB, &filesystem("")).await;
        let foreign = rig.target("foreign");
        fs::create_dir_all(&foreign).unwrap();
        crate::support::tool("mount", &["-t", "tmpfs", "foreign", &text(&foreign)]);
        fs::write(foreign.join("file"), "content").unwrap();
        let status = rig.unpublish(&id, "foreign").await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
        let status = rig.unpublish("unknown", "foreign").await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
        let status = rig.publish(&id, "foreign", &filesystem("")).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        assert_eq!(fs::read_to_string(foreign.join("file")).unwrap(), "content");
        rig.put_away(&id, "pvc").await;
        rig.stop().await;
    }

    /// A tool that is being started for one volume has copies of all descriptors for a moment; another volume's lock
    /// must not live on in them.
    async fn volumes_that_are_used_at_the_same_time_do_not_disturb_each_other(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let lives = (0..24).map(|number| {
            let rig = &rig;
            async move {
                let name = format!("pvc-{number}");
                for _ in 0..2 {
                    let (id, _) = rig.in_use(&name, 16 * MIB, &filesystem("")).await;
                    rig.put_away(&id, &name).await;
                }
            }
        });
        join_all(lives).await;
        assert_eq!(rig.volumes().await.len(), 0);
        rig.stop().await;
    }
}
