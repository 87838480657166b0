//! Nodes with SELinux, whose mounts need labels.

use std::path::Path;
use std::process::Command;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::cluster::Cluster;
use crate::helper;
use crate::nfs::{add_interface_group, start};
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, expect};

const MODE: Mode = Mode::MultiNodeMultiWriter;

/// Makes a volume, and lets a pod use it.
async fn live(rig: &Rig) {
    let id = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
    let target = rig.publish(&id, "pod", MODE).await.unwrap();
    std::fs::write(target.join("file"), "data").unwrap();
    rig.unpublish(&id, "pod").await.unwrap();
    rig.delete(&id).await.unwrap();
}

/// What `mount` says to a label.
fn mount(directory: &Path, kind: &str, source: &str, label: &str) -> Result<(), String> {
    let target = directory.join("by-hand");
    std::fs::create_dir_all(&target).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", kind, "-o", label, source])
        .arg(&target)
        .output()
        .unwrap();
    if !mounted.status.success() {
        return Err(String::from_utf8(mounted.stderr).unwrap());
    }
    assert!(
        Command::new("umount")
            .arg(&target)
            .status()
            .unwrap()
            .success()
    );
    Ok(())
}

isolated! {
    async fn mounts_have_labels_where_the_driver_is_told_so(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        helper::install_selinux(directory);
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        for class in [&[][..], &FILESYSTEMS] {
            expect(rig.create("volume", GIB, class).await, Code::Internal, &["no SELinux context"]);
        }
        assert_eq!(cluster.filesystems().await, ["default"], "what could not be mounted is gone");
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--selinux-support"]);
        live(&rig).await;
        rig.stop().await;
        for (label, refused) in [
            ("fscontext=system_u:object_r:wekafs_filesystem_t:s0", false),
            ("fscontext=system_u:object_r:container_file_t:s0", true),
            ("fscontext=wekafs_t", true),
        ] {
            let said = mount(directory, "wekafs", "default", label);
            assert_eq!(said.is_err(), refused, "{label}: {said:?}");
        }
    }

    async fn mounts_by_nfs_have_the_label_of_nfs(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        helper::install_selinux(directory);
        let rig = Rig::start(directory, &cluster, &["--usenfs", "--selinux-support=true"]);
        live(&rig).await;
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--usenfs"]);
        expect(rig.create("volume", GIB, &[]).await, Code::Internal, &["no SELinux context"]);
        rig.stop().await;
        let said = mount(directory, "nfs", "127.0.0.1:/default", "vers=4.1,context=system_u:object_r:wekafs_t:s0");
        assert!(said.unwrap_err().contains("not a valid SELinux context"));
    }

    async fn a_container_that_hides_selinux_mounts_nothing(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let filesystems = directory.join("filesystems");
        std::fs::write(&filesystems, "nodev\tselinuxfs\n").unwrap();
        let shown = format!("--proc-filesystems={}", filesystems.display());
        let rig = Rig::start(directory, &cluster, &[ALLOWED[0], "--selinux-support", &shown]);
        for class in [&[][..], &FILESYSTEMS] {
            expect(rig.create("volume", GIB, class).await, Code::FailedPrecondition, &["would lose its label", "`/sys/fs`"]);
        }
        assert_eq!(cluster.volumes(), Vec::<String>::new(), "nothing is half-made");
        assert_eq!(cluster.filesystems().await, ["default"], "nothing is half-made");
        rig.stop().await;
        // Where nothing is labelled, nothing gets lost.
        let rig = Rig::start(directory, &cluster, &[&*shown]);
        live(&rig).await;
        rig.stop().await;
    }
}
