//! Damaged state, full disks, missing tools.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use stowage_host::loopdev::{LoopOptions, Loops};
use tonic::Code;

use crate::rig::{Command, Rig, block, filesystem, flags, from_volume};
use crate::support::{MIB, disk, isolated, noise, small_disk, tool, unmount};

fn with_extension(rig: &Rig, extension: &str) -> Vec<PathBuf> {
    let files = rig.files().into_iter();
    files
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

isolated! {
    async fn a_damaged_state_file_fences_its_volume_and_no_other(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, _) = rig.in_use("damaged", 32 * MIB, &filesystem("")).await;
        let records = with_extension(&rig, "json");
        let good = rig.create("good", 32 * MIB, &filesystem("")).await.unwrap().volume_id;
        rig.stop().await;
        fs::write(&records[0], "{\"version\": 1, \"id\": \"vo").unwrap();

        let rig = Rig::start(directory, &[]);
        for status in [
            rig.create("damaged", 32 * MIB, &filesystem("")).await.unwrap_err(),
            rig.delete(&id).await.unwrap_err(),
            rig.expand(&id, 64 * MIB).await.unwrap_err(),
            rig.snapshot("snap", &id).await.unwrap_err(),
            rig.create_from("copy", 0, &filesystem(""), from_volume(&id)).await.unwrap_err(),
            rig.publish(&id, "pod", &filesystem("")).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::DataLoss, "{status}");
            assert!(status.message().contains(records[0].to_str().unwrap()), "{status}");
        }
        let listed = rig.volumes().await;
        assert_eq!(listed.len(), 2);
        for entry in listed {
            let damaged = entry.volume.unwrap().volume_id == id;
            assert_eq!(entry.status.unwrap().volume_condition.unwrap().abnormal, damaged);
        }
        // The pod that uses it can go away.
        rig.unpublish(&id, "damaged").await.unwrap();
        rig.unstage(&id).await.unwrap();
        rig.delete(&good).await.unwrap();
        assert_eq!(rig.files().len(), 2, "the data of the fenced volume is still there");
        rig.stop().await;
    }

    async fn data_whose_record_is_gone_is_never_overwritten_or_removed(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("pvc", 8 * MIB, &block()).await.unwrap().volume_id;
        fs::remove_file(&with_extension(&rig, "json")[0]).unwrap();
        let status = rig.create("pvc", 8 * MIB, &block()).await.unwrap_err();
        assert_eq!(status.code(), Code::DataLoss, "{status}");
        rig.delete(&id).await.unwrap();
        rig.stop().await;
        let rig = Rig::start(directory, &[]);
        assert_eq!(rig.volumes().await.len(), 0);
        assert_eq!(with_extension(&rig, "img").len(), 1);
        rig.stop().await;
    }

    async fn a_volume_whose_data_is_gone_is_told_and_can_be_removed(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("pvc", 8 * MIB, &block()).await.unwrap().volume_id;
        fs::remove_file(&with_extension(&rig, "img")[0]).unwrap();
        assert_eq!(rig.stage(&id, &block()).await.unwrap_err().code(), Code::DataLoss);
        assert!(rig.volumes().await[0].status.clone().unwrap().volume_condition.unwrap().abnormal);
        rig.delete(&id).await.unwrap();
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn a_full_disk_leaves_nothing_half_made(directory: &Path) {
        // 64 MiB in all: room for 40 MiB of data, not for their copy.
        let state = small_disk(directory, 64 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display()), "--allow-volatile-statedir"]);
        let (id, target) = rig.in_use("pvc", 60 * MIB, &filesystem("")).await;
        fs::write(target.join("file"), noise(40 * MIB as usize, 17)).unwrap();
        tool("sync", &["-f", target.to_str().unwrap()]);
        let before = rig.files().len();

        let status = rig.snapshot("snap", &id).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        fs::write(target.join("alive"), "not frozen").unwrap();
        for capability in [filesystem(""), filesystem("ext4")] {
            let status = rig.create_from("copy", 0, &capability, from_volume(&id)).await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        }
        // Not a byte is left: neither for an image nor for a record.
        fs::write(state.join("filler"), noise(64 * MIB as usize, 19)).unwrap_err();
        let status = rig.create("other", 0, &block()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(rig.files().len(), before);
        fs::remove_file(state.join("filler")).unwrap();
        rig.put_away(&id, "pvc").await;
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
        unmount(&state);
    }

    async fn a_disk_without_inodes_makes_no_volume(directory: &Path) {
        let point = directory.join("disk");
        fs::create_dir(&point).unwrap();
        tool("mount", &["-t", "tmpfs", "-o", "size=64m,nr_inodes=12", "small", point.to_str().unwrap()]);
        let rig = Rig::start(directory, &[&format!("--statedir={}", point.display()), "--allow-volatile-statedir"]);
        let mut made = Vec::new();
        let status = loop {
            match rig.create(&format!("pvc-{}", made.len()), 8 * MIB, &block()).await {
                Ok(volume) => made.push(volume.volume_id),
                Err(status) => break status,
            }
            assert!(made.len() < 20, "the disk has 12 inodes");
        };
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(rig.files().len(), 2 * made.len());
        for id in made {
            rig.delete(&id).await.unwrap();
        }
        rig.stop().await;
        unmount(&point);
    }

    async fn a_missing_tool_is_named(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("pvc", 300 * MIB, &filesystem("xfs")).await.unwrap().volume_id;
        // An empty directory over the search path, in the mounts of this test only.
        let empty = directory.join("empty");
        fs::create_dir(&empty).unwrap();
        let mkfs = fs::canonicalize("/usr/sbin/mkfs.xfs").unwrap();
        let bin = mkfs.parent().unwrap().to_path_buf();
        for name in ["blkid", "mount", "umount"] {
            if let Ok(found) = fs::canonicalize(bin.join(name)) {
                fs::copy(found, empty.join(name)).unwrap();
            }
        }
        tool("mount", &["--bind", empty.to_str().unwrap(), bin.to_str().unwrap()]);
        let status = rig.stage(&id, &filesystem("xfs")).await.unwrap_err();
        rustix::mount::unmount(&bin, rustix::mount::UnmountFlags::empty()).unwrap();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert_eq!(status.message(), "host tool `mkfs.xfs` is missing: install Debian package `xfsprogs`");
        rig.stage(&id, &filesystem("xfs")).await.unwrap();
        rig.unstage(&id).await.unwrap();
        rig.stop().await;
    }

    async fn what_is_on_a_volume_is_never_formatted(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let raw = rig.create("raw", 300 * MIB, &block()).await.unwrap().volume_id;
        let image = with_extension(&rig, "img")[0].clone();
        tool("mkfs.xfs", &["-q", image.to_str().unwrap()]);
        // A copy of a raw block volume for use as a filesystem: what is on it decides.
        let copy = rig.create_from("copy", 0, &filesystem("ext4"), from_volume(&raw)).await.unwrap().volume_id;
        let status = rig.stage(&copy, &filesystem("ext4")).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("holds xfs"), "{status}");
        let right = rig.create_from("right", 0, &filesystem("xfs"), from_volume(&raw)).await.unwrap().volume_id;
        rig.stage(&right, &filesystem("xfs")).await.unwrap();
        rig.unstage(&right).await.unwrap();
        rig.stop().await;
    }

    async fn a_device_of_somebody_else_is_left_alone(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let id = rig.create("pvc", 8 * MIB, &block()).await.unwrap().volume_id;
        let foreign = directory.join("foreign");
        fs::write(&foreign, noise(MIB as usize, 23)).unwrap();
        let file = File::options().read(true).write(true).open(&foreign).unwrap();
        let device = Loops::default().attach(&file, LoopOptions::default()).unwrap();
        rig.stage(&id, &block()).await.unwrap();
        rig.unstage(&id).await.unwrap();
        rig.delete(&id).await.unwrap();
        assert!(device.status().unwrap().is_some());
        device.detach(&Loops::default()).unwrap();
        rig.stop().await;
    }

    async fn a_driver_that_cannot_start_says_why(directory: &Path) {
        use clap::Parser;
        use stowage_csi::server::Shutdown;
        let run = async |more: &[&str]| {
            let args = Command::parse_from(flags(directory, more)).args;
            let shutdown = Shutdown { token: Default::default(), grace: std::time::Duration::ZERO };
            stowage_hostpath::run(args, Default::default(), shutdown).await.unwrap_err().to_string()
        };
        let file = directory.join("file");
        fs::write(&file, "data").unwrap();
        let said = run(&[&format!("--statedir={}", file.join("state").display())]).await;
        assert!(said.contains("cannot be used") && said.contains("--statedir"), "{said}");
        let read_only = disk(directory, "ext4", 16 * MIB);
        tool("mount", &["-o", "remount,ro", read_only.to_str().unwrap()]);
        let said = run(&[&format!("--statedir={}", read_only.display())]).await;
        assert!(said.contains("Read-only file system") && said.contains("--statedir"), "{said}");
        unmount(&read_only);
        fs::write(directory.join("csi.sock"), "data").unwrap();
        let said = run(&[]).await;
        assert!(said.contains("is not a socket: remove it"), "{said}");
    }
}
