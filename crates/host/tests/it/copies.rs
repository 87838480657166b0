//! Copies of images: shared or sparse, and with an identity of their own.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use stowage_host::copy::{Method, copy_file};
use stowage_host::exec::HostExec;
use stowage_host::filesystem::{Content, FsKind, freeze, probe, renew_identity, sync};
use stowage_host::loopdev::LoopOptions;

use super::formats::{format, mount_at, unmount};
use super::support::{Attached, MIB, directories, image, isolated, mounter};

async fn uuid(attached: &Attached) -> Option<String> {
    match probe(&HostExec, &attached.path).await.unwrap() {
        Content::Filesystem { uuid, .. } => uuid,
        other => panic!("{other:?}"),
    }
}

async fn copy(directory: &Path, from: &str, to: &str) -> Method {
    copy_file(
        File::open(directory.join(from)).unwrap(),
        image(directory, to, 0),
        |_| (),
    )
    .await
    .unwrap()
}

async fn renew(attached: &Attached, kind: FsKind, scratch: &Path) {
    let before = uuid(attached).await;
    renew_identity(&HostExec, &mounter(), &attached.path, kind, scratch)
        .await
        .unwrap();
    assert_ne!(uuid(attached).await, before, "{kind}");
}

isolated! {
    async fn blocks_are_shared_where_the_filesystem_can(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        for (kind, method) in [(FsKind::Ext4, Method::Data), (FsKind::Xfs, Method::Reflink), (FsKind::Btrfs, Method::Reflink)] {
            let attached = Attached::new(directory, kind.name(), 400 * MIB);
            format(&attached, kind).await.unwrap();
            mount_at(&attached, kind, &point).await;
            fs::write(point.join("original"), vec![3; 3_000_000]).unwrap();
            File::options().write(true).open(point.join("original")).unwrap().set_len(50 * MIB).unwrap();
            assert_eq!(copy(&point, "original", "copy").await, method, "{kind}");
            let copied = fs::metadata(point.join("copy")).unwrap();
            assert!(copied.len() == 50 * MIB && copied.blocks() * 512 < 4 * MIB, "{kind}: {copied:?}");
            assert!(fs::read(point.join("copy")).unwrap() == fs::read(point.join("original")).unwrap());
            // Onto what is there, as when a copy is repeated after a crash.
            assert_eq!(copy(&point, "original", "copy").await, method);
            unmount(&point).await;
        }
    }

    async fn a_device_is_copied_to_a_file(directory: &Path) {
        let original = Attached::new(directory, "original", 8 * MIB);
        original.file.write_all_at(b"in the middle", 4 * MIB).unwrap();
        let from = File::open(&original.path).unwrap();
        assert_eq!(copy_file(from, image(directory, "copy", 0), |_| ()).await.unwrap(), Method::Data);
        let copied = fs::read(directory.join("copy")).unwrap();
        assert!(copied == fs::read(directory.join("original")).unwrap() && copied.len() as u64 == 8 * MIB);
        assert!(fs::metadata(directory.join("copy")).unwrap().blocks() * 512 < MIB, "zeros become holes");
    }

    async fn a_full_disk_is_an_error(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        rustix::mount::mount("small", &point, "tmpfs", rustix::mount::MountFlags::empty(), c"size=1m").unwrap();
        fs::write(directory.join("original"), vec![1; 2_000_000]).unwrap();
        let from = File::open(directory.join("original")).unwrap();
        let error = copy_file(from, image(&point, "copy", 0), |_| ()).await.unwrap_err();
        let reason = std::error::Error::source(&error).unwrap().to_string();
        assert!(reason.contains("No space left"), "{reason}");
    }

    async fn a_frozen_copy_is_mounted_beside_its_original(directory: &Path) {
        let [one, two, three, scratch] = directories(directory, ["one", "two", "three", "scratch"]);
        for kind in FsKind::ALL {
            let original = Attached::new(directory, "original", 320 * MIB);
            format(&original, kind).await.unwrap();
            mount_at(&original, kind, &one).await;
            fs::write(one.join("file"), "before").unwrap();
            let frozen = freeze(&one).unwrap();
            copy(directory, "original", "copy").await;
            frozen.thaw().unwrap();
            fs::write(one.join("file"), "after").unwrap();

            let clone = attach(directory, "copy");
            renew(&clone, kind, &scratch).await;
            mount_at(&clone, kind, &two).await;
            assert_eq!(fs::read_to_string(two.join("file")).unwrap(), "before", "{kind}");

            // And a copy of the copy beside both.
            sync(&two).unwrap();
            let frozen = freeze(&two).unwrap();
            copy(directory, "copy", "copy-of-copy").await;
            drop(frozen);
            let clone_of_clone = attach(directory, "copy-of-copy");
            renew(&clone_of_clone, kind, &scratch).await;
            mount_at(&clone_of_clone, kind, &three).await;
            fs::write(three.join("file"), "third").unwrap();
            assert_eq!(fs::read_to_string(two.join("file")).unwrap(), "before");
            for point in [&one, &two, &three] {
                unmount(point).await;
            }
        }
    }

    async fn a_copy_with_a_log_to_replay_loses_nothing(directory: &Path) {
        let [one, two, scratch] = directories(directory, ["one", "two", "scratch"]);
        for kind in FsKind::ALL {
            let original = Attached::new(directory, "original", 320 * MIB);
            format(&original, kind).await.unwrap();
            mount_at(&original, kind, &one).await;
            sync(&one).unwrap();
            // Synced by file: durable, but only in the log.
            for n in 0..5 {
                fs::write(one.join(format!("file-{n}")), "durable").unwrap();
                File::open(one.join(format!("file-{n}"))).unwrap().sync_all().unwrap();
            }
            copy(directory, "original", "copy").await;
            let clone = attach(directory, "copy");
            renew(&clone, kind, &scratch).await;
            mount_at(&clone, kind, &two).await;
            assert_eq!(fs::read_to_string(two.join("file-4")).unwrap(), "durable", "{kind}");
            unmount(&one).await;
            unmount(&two).await;
        }
    }
}

fn attach(directory: &Path, name: &str) -> Attached {
    let path: PathBuf = directory.join(name);
    let file = File::options().read(true).write(true).open(path).unwrap();
    Attached::of(file, LoopOptions::default())
}
