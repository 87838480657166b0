//! Inline volumes: they come and go with a pod.

use std::fs;
use std::path::Path;

use stowage_csi::proto::csi::NodePublishVolumeRequest;
use tonic::Code;

use crate::rig::{Rig, block, filesystem, text};
use crate::support::{MIB, isolated};

/// As the kubelet makes them up.
const ID: &str = "csi-2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

fn inline(rig: &Rig, id: &str, size: &str, kind: &str) -> NodePublishVolumeRequest {
    let context = [("csi.storage.k8s.io/ephemeral", "true"), ("size", size)];
    let context = context.map(|(key, value)| (key.to_owned(), value.to_owned()));
    NodePublishVolumeRequest {
        staging_target_path: String::new(),
        volume_context: context
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect(),
        ..rig.publication(id, "pod", &filesystem(kind))
    }
}

isolated! {
    async fn an_inline_volume_lives_as_long_as_its_pod(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        for (kind, size, bytes) in [("", "64Mi", 64 * MIB), ("xfs", "300Mi", 300 * MIB), ("btrfs", "", 1024 * MIB)] {
            let request = inline(&rig, ID, size, kind);
            for _ in 0..2 {
                rig.node.node_publish_volume(request.clone()).await.unwrap();
            }
            let target = rig.target("pod");
            fs::write(target.join("file"), "content").unwrap();
            let total = rig.stats(ID, &text(&target)).await.unwrap().usage[0].total as u64;
            assert!(total <= bytes && total > bytes / 2, "{kind}: {total}");
            assert_eq!(rig.volumes().await.len(), 0, "the controller does not know of it");

            let read_only = NodePublishVolumeRequest { readonly: true, ..request.clone() };
            let status = rig.node.node_publish_volume(read_only).await.unwrap_err();
            assert_eq!(status.code(), Code::AlreadyExists, "{status}");
            for _ in 0..2 {
                rig.unpublish(ID, "pod").await.unwrap();
                assert!(!target.exists());
            }
            assert_eq!(rig.files().len(), 0);
        }
        rig.stop().await;
    }

    async fn an_inline_volume_survives_the_driver_and_the_machine(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let request = inline(&rig, ID, "64Mi", "");
        rig.node.node_publish_volume(request.clone()).await.unwrap();
        fs::write(rig.target("pod").join("file"), "content").unwrap();
        rig.stop().await;
        // What a restart of the machine does to mounts.
        crate::support::unmount(&directory.join("pods/pod"));

        let mut rig = Rig::start(directory, &[]);
        rig.node.node_publish_volume(request).await.unwrap();
        assert_eq!(fs::read_to_string(rig.target("pod").join("file")).unwrap(), "content");
        rig.unpublish(ID, "pod").await.unwrap();
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn an_inline_volume_is_as_large_as_its_filesystem_must_be(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let request = inline(&rig, ID, "1Mi", "");
        rig.node.node_publish_volume(request).await.unwrap();
        fs::write(rig.target("pod").join("file"), "content").unwrap();
        rig.unpublish(ID, "pod").await.unwrap();
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn an_inline_volume_that_makes_no_sense_is_refused(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let key = "0".repeat(32);
        for (request, code) in [
            (inline(&rig, ID, "much", ""), Code::InvalidArgument),
            (inline(&rig, ID, "2Ti", ""), Code::OutOfRange),
            (inline(&rig, ID, "64Mi", "ntfs"), Code::InvalidArgument),
            (inline(&rig, &format!("vol-{key}-node-1"), "64Mi", ""), Code::InvalidArgument),
            (NodePublishVolumeRequest { volume_capability: Some(block()), ..inline(&rig, ID, "64Mi", "") }, Code::InvalidArgument),
            (NodePublishVolumeRequest { volume_context: [].into(), ..inline(&rig, ID, "64Mi", "") }, Code::FailedPrecondition),
        ] {
            let status = rig.node.node_publish_volume(request.clone()).await.unwrap_err();
            assert_eq!(status.code(), code, "{request:?}: {status}");
        }
        // The target cannot be mounted on: nothing is kept.
        fs::write(rig.target("pod"), "data").unwrap();
        let request = inline(&rig, ID, "64Mi", "");
        rig.node.node_publish_volume(request).await.unwrap_err();
        assert_eq!(rig.files().len(), 0);
        assert_eq!(fs::read_to_string(rig.target("pod")).unwrap(), "data");
        rig.stop().await;
    }
}
