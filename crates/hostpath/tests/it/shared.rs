//! Two processes on one state directory, as nodes of one machine (`--shared-statedir`). Each has mounts of its own that
//! the other one does not see.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;

use stowage_csi::proto::csi::VolumeCapability;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::crash::{entries, kill, start_apart, wait_until};
use crate::lifecycle::may_grow_ext4;
use crate::rig::{Rig, block, filesystem, from_snapshot, mount};
use crate::support::{MIB, isolated, noise};

/// A node: its driver, and clients of it.
struct Node {
    driver: Child,
    rig: Rig,
}

impl Node {
    /// Both have the state directory and nothing else in common.
    fn two(directory: &Path) -> [Self; 2] {
        ["node-1", "node-2"].map(|name| Self::start(directory, name))
    }

    fn start(directory: &Path, name: &str) -> Self {
        let (home, state) = (directory.join(name), directory.join("state"));
        fs::create_dir(&home).unwrap();
        let (name, shared) = (
            format!("--nodeid={name}"),
            format!("--statedir={}", state.display()),
        );
        Self {
            driver: start_apart(&home, &[&name, &shared, "--shared-statedir"]),
            rig: Rig::of_process(&home, state),
        }
    }

    /// A path as this node sees it.
    fn sees(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.driver.id()));
        root.join(path.strip_prefix("/").unwrap())
    }

    /// Stages a volume and publishes it for one pod; returns the target as the test reaches it.
    async fn use_volume(&self, id: &str, capability: &VolumeCapability) -> PathBuf {
        self.rig.stage(id, capability).await.unwrap();
        let target = self.rig.publish(id, "pod", capability).await.unwrap();
        self.sees(&target)
    }

    async fn leave_volume(&self, id: &str) {
        self.rig.unpublish(id, "pod").await.unwrap();
        self.rig.unstage(id).await.unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        kill(&mut self.driver);
    }
}

/// The first bytes of a device. A device that was taken away has none.
fn first_bytes(device: &Path) -> [u8; 4] {
    let mut bytes = [0; 4];
    let mut file = fs::File::open(device).unwrap();
    file.read_exact(&mut bytes).unwrap();
    bytes
}

isolated! {
    async fn a_filesystem_is_used_on_one_node_and_then_on_another(directory: &Path) {
        let [one, other] = Node::two(directory);
        let shared = mount("", Mode::MultiNodeMultiWriter);
        let id = one.rig.create("pvc", 64 * MIB, &shared).await.unwrap().volume_id;

        let far = other.use_volume(&id, &shared).await;
        fs::write(far.join("file"), "from node-2").unwrap();
        let status = one.rig.delete(&id).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");

        // On both at once: what one leaves stays with the other.
        let near = one.use_volume(&id, &shared).await;
        assert_eq!(fs::read(near.join("file")).unwrap(), b"from node-2");
        other.leave_volume(&id).await;
        fs::write(near.join("file"), "from node-1").unwrap();
        let status = other.rig.delete(&id).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        one.leave_volume(&id).await;

        let far = other.use_volume(&id, &shared).await;
        assert_eq!(fs::read(far.join("file")).unwrap(), b"from node-1");
        other.leave_volume(&id).await;
        one.rig.delete(&id).await.unwrap();
        assert_eq!(other.rig.files(), Vec::<PathBuf>::new());
    }

    async fn a_device_stays_with_the_node_that_still_uses_it(directory: &Path) {
        let [one, other] = Node::two(directory);
        let mut shared = block();
        shared.access_mode.as_mut().unwrap().mode = Mode::MultiNodeMultiWriter.into();
        let id = one.rig.create("pvc", 4 * MIB, &shared).await.unwrap().volume_id;
        let near = one.use_volume(&id, &shared).await;
        let far = other.use_volume(&id, &shared).await;
        let mut writer = fs::OpenOptions::new().write(true).open(&near).unwrap();
        writer.write_all(b"near").unwrap();
        writer.sync_all().unwrap();
        drop(writer);

        // A pod that only reads has a device of its own.
        let mut readers = Vec::new();
        for node in [&one, &other] {
            let mut request = node.rig.publication(&id, "reader", &shared);
            request.readonly = true;
            node.rig.node.clone().node_publish_volume(request).await.unwrap();
            readers.push(node.sees(&node.rig.target("reader")));
        }
        one.rig.unpublish(&id, "reader").await.unwrap();
        assert_eq!(&first_bytes(&readers[1]), b"near");

        one.leave_volume(&id).await;
        assert_eq!(&first_bytes(&far), b"near");
        assert_eq!(&first_bytes(&readers[1]), b"near");
        other.rig.unpublish(&id, "reader").await.unwrap();
        let status = one.rig.delete(&id).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        other.leave_volume(&id).await;
        one.rig.delete(&id).await.unwrap();
        assert_eq!(one.rig.files(), Vec::<PathBuf>::new());
    }

    async fn a_volume_grows_by_one_node_while_another_uses_it(directory: &Path) {
        let [one, other] = Node::two(directory);
        for (kind, bytes, more) in [("ext4", 64 * MIB, 128 * MIB), ("xfs", 300 * MIB, 400 * MIB)] {
            let id = one.rig.create(kind, bytes, &filesystem(kind)).await.unwrap().volume_id;
            let far = other.use_volume(&id, &filesystem(kind)).await;
            fs::write(far.join("file"), "kept").unwrap();
            assert_eq!(one.rig.expand(&id, more).await.unwrap(), more as i64);
            let target = other.rig.target("pod");
            if kind != "ext4" || may_grow_ext4() {
                other.rig.node_expand(&id, &target, more).await.unwrap();
            }
            other.leave_volume(&id).await;

            let near = one.use_volume(&id, &filesystem(kind)).await;
            let size = rustix::fs::statvfs(&near).unwrap();
            let size = size.f_blocks * size.f_frsize;
            assert!(size > bytes, "{kind}: {size}");
            assert_eq!(fs::read(near.join("file")).unwrap(), b"kept");
            one.leave_volume(&id).await;
            other.rig.delete(&id).await.unwrap();
        }
        assert_eq!(one.rig.files(), Vec::<PathBuf>::new());
    }

    async fn a_snapshot_by_one_node_keeps_another_from_changing_the_volume(directory: &Path) {
        let [one, other] = Node::two(directory);
        let id = other.rig.create("pvc", 512 * MIB, &filesystem("")).await.unwrap().volume_id;
        let far = other.use_volume(&id, &filesystem("")).await;
        let content = noise(300 * MIB as usize, 37);
        fs::write(far.join("file"), &content).unwrap();

        let call = {
            let (rig, id) = (Rig::of_process(&one.rig.directory, one.rig.state.clone()), id.clone());
            tokio::spawn(async move { rig.snapshot("snap", &id).await })
        };
        wait_until("the freeze", || !entries(&one.rig.state.join("frozen")).is_empty());
        for status in [
            other.rig.unpublish(&id, "pod").await.unwrap_err(),
            other.rig.unstage(&id).await.unwrap_err(),
            other.rig.expand(&id, 600 * MIB).await.unwrap_err(),
            other.rig.snapshot("other", &id).await.unwrap_err(),
            other.rig.delete(&id).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::Aborted, "{status}");
        }
        let snapshot = call.await.unwrap().unwrap();

        // The pod writes again, and the other node has the copy as it was before.
        fs::write(far.join("file"), "changed").unwrap();
        let copy = other.rig.create_from("copy", 512 * MIB, &filesystem(""), from_snapshot(&snapshot.snapshot_id)).await.unwrap().volume_id;
        other.leave_volume(&id).await;
        let restored = other.use_volume(&copy, &filesystem("")).await;
        assert!(fs::read(restored.join("file")).unwrap() == content);
        other.leave_volume(&copy).await;
        for id in [&id, &copy] {
            one.rig.delete(id).await.unwrap();
        }
        other.rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        assert_eq!(one.rig.files(), Vec::<PathBuf>::new());
    }
}
