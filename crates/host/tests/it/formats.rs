//! Filesystems on loop devices, by the real tools.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::gettid;
use stowage_host::Outcome;
use stowage_host::exec::HostExec;
use stowage_host::filesystem::{
    Checked, Content, FsError, FsKind, Grown, check, ensure_formatted, freeze, grow,
    grow_unmounted, probe, sync, thaw,
};
use stowage_host::mount::{Unmount, ensure_mounted, ensure_unmounted};

use super::support::{Attached, MIB, directories, filesystem, isolated, mounter, stats};

pub(crate) async fn format(attached: &Attached, kind: FsKind) -> Result<Outcome, FsError> {
    ensure_formatted(&HostExec, &stats(), &attached.path, kind, &[]).await
}

pub(crate) async fn mount_at(attached: &Attached, kind: FsKind, point: &Path) {
    ensure_mounted(
        &mounter(),
        &filesystem(kind.name(), &attached.path, point, &[]),
    )
    .await
    .unwrap();
}

pub(crate) async fn unmount(point: &Path) {
    ensure_unmounted(&mounter(), point, Unmount::Normal)
        .await
        .unwrap();
}

fn run(tool: &str, args: &[&str], device: &Path) {
    let output = Command::new(tool).args(args).arg(device).output().unwrap();
    assert!(output.status.success(), "{tool}: {output:?}");
}

isolated! {
    async fn each_kind_is_made_at_its_minimum_mounted_and_grown(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        for kind in FsKind::ALL {
            let attached = Attached::new(directory, kind.name(), kind.minimum_bytes());
            assert_eq!(probe(&HostExec, &attached.path).await.unwrap(), Content::Empty);
            assert_eq!(format(&attached, kind).await.unwrap(), Outcome::Done);
            mount_at(&attached, kind, &point).await;
            fs::write(point.join("file"), "content").unwrap();
            let before = stats().usage(&point).await.unwrap().bytes.total;
            attached.grow((2 * kind.minimum_bytes()).max(kind.growth_minimum_bytes()));
            for _ in 0..2 {
                match grow(&HostExec, &stats(), &attached.path, kind, &point).await {
                    // Some machines lack the right; then it grows while it is not mounted.
                    Err(FsError::GrowthRight { .. }) if kind == FsKind::Ext4 && !may_exceed_limits() => {
                        unmount(&point).await;
                        grow_unmounted(&HostExec, &stats(), &attached.path, kind).await.unwrap();
                        mount_at(&attached, kind, &point).await;
                    }
                    grown => grown.unwrap(),
                }
                let after = stats().usage(&point).await.unwrap().bytes.total;
                assert!(after > before * 3 / 2, "{kind}: {before} -> {after}");
            }
            sync(&point).unwrap();
            unmount(&point).await;
            assert_eq!(format(&attached, kind).await.unwrap(), Outcome::Already);
            assert!(check(&HostExec, &attached.path, kind).await.is_ok());
            mount_at(&attached, kind, &point).await;
            assert_eq!(fs::read_to_string(point.join("file")).unwrap(), "content");
            unmount(&point).await;
        }
    }

    async fn who_has_a_device_for_themselves_is_seen_and_who_only_reads_it_is_not(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        let attached = Attached::new(directory, "ext4", FsKind::Ext4.minimum_bytes());
        let _reader = fs::File::open(&attached.path).unwrap();
        assert!(!stats().is_claimed(&attached.path).await.unwrap());
        format(&attached, FsKind::Ext4).await.unwrap();
        mount_at(&attached, FsKind::Ext4, &point).await;
        assert!(stats().is_claimed(&attached.path).await.unwrap());
        // A process with mounts of its own: this one does not see them.
        let mut elsewhere = Command::new("unshare").args(["--mount", "--propagation", "private", "cat"])
            .stdin(std::process::Stdio::piped()).spawn().unwrap();
        // It becomes that program when it has its own.
        let program = format!("/proc/{}/comm", elsewhere.id());
        while fs::read_to_string(&program).unwrap() != "cat\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        unmount(&point).await;
        assert!(stats().is_claimed(&attached.path).await.unwrap());
        drop(elsewhere.stdin.take());
        elsewhere.wait().unwrap();
        // The kernel lets go of the mounts of a process after it has gone.
        while stats().is_claimed(&attached.path).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn a_small_btrfs_grows_only_to_what_the_kernel_allows(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        let attached = Attached::new(directory, "image", 128 * MIB + 4096);
        format(&attached, FsKind::Btrfs).await.unwrap();
        mount_at(&attached, FsKind::Btrfs, &point).await;
        let grown = async || grow(&HostExec, &stats(), &attached.path, FsKind::Btrfs, &point).await;
        grown().await.expect("there is nothing to do");
        attached.grow(200 * MIB);
        let error = grown().await.unwrap_err();
        assert!(error.to_string().ends_with("has 209715200 bytes, but btrfs can only grow to 268435456 or more"), "{error}");
        attached.grow(256 * MIB);
        grown().await.unwrap();
        assert_eq!(stats().usage(&point).await.unwrap().bytes.total, 256 * MIB);
        unmount(&point).await;
    }

    async fn an_unmounted_ext4_grows_if_there_is_anything_to_gain(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        for (name, options) in [("new", &[][..]), ("old", &["-O", "^64bit,^metadata_csum", "-b", "1024"][..])] {
            let attached = Attached::new(directory, name, 16 * MIB);
            let options: Vec<_> = options.iter().map(|&word| word.to_owned()).collect();
            ensure_formatted(&HostExec, &stats(), &attached.path, FsKind::Ext4, &options).await.unwrap();
            let grown = async || grow_unmounted(&HostExec, &stats(), &attached.path, FsKind::Ext4).await.unwrap();
            assert_eq!(grown().await, Grown::Already, "{name}");
            // Mounted since its last check, by its clock of seconds: then `resize2fs` wants another.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            mount_at(&attached, FsKind::Ext4, &point).await;
            fs::write(point.join("file"), "content").unwrap();
            unmount(&point).await;
            attached.grow(64 * MIB);
            assert_eq!(grown().await, Grown::Done, "{name}");
            assert_eq!(grown().await, Grown::Already, "{name}");
            mount_at(&attached, FsKind::Ext4, &point).await;
            assert!(stats().usage(&point).await.unwrap().bytes.total > 48 * MIB);
            assert_eq!(fs::read_to_string(point.join("file")).unwrap(), "content");
            unmount(&point).await;
        }
        let attached = Attached::new(directory, "xfs", 310 * MIB);
        let grown = grow_unmounted(&HostExec, &stats(), &attached.path, FsKind::Xfs).await.unwrap();
        assert_eq!(grown, Grown::WhenMounted);
    }

    async fn options_reach_mkfs_and_its_complaints_come_back(directory: &Path) {
        let attached = Attached::new(directory, "image", 16 * MIB);
        let options = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let bad = options(&["-b", "77"]);
        let error = ensure_formatted(&HostExec, &stats(), &attached.path, FsKind::Ext4, &bad).await.unwrap_err();
        assert!(error.to_string().contains("invalid block size - 77"), "{error}");
        let label = options(&["-L", "a-label"]);
        ensure_formatted(&HostExec, &stats(), &attached.path, FsKind::Ext4, &label).await.unwrap();
        let output = Command::new("blkid").args(["-p", "-o", "value", "-s", "LABEL"]).arg(&attached.path).output();
        assert_eq!(output.unwrap().stdout, b"a-label\n");
    }

    async fn what_is_there_survives(directory: &Path) {
        for there in FsKind::ALL {
            let attached = Attached::new(directory, there.name(), 310 * MIB);
            format(&attached, there).await.unwrap();
            let before = beginning(&attached);
            for wanted in FsKind::ALL.into_iter().filter(|kind| *kind != there) {
                let error = format(&attached, wanted).await.unwrap_err();
                assert!(matches!(error, FsError::Foreign { .. }), "{wanted} over {there}: {error:?}");
            }
            assert!(beginning(&attached) == before, "{there} was touched");
        }
        let partitioned = Attached::new(directory, "partitioned", 310 * MIB);
        let entry = [0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x38, 0, 0];
        partitioned.file.write_all_at(&entry, 446).unwrap();
        partitioned.file.write_all_at(&[0x55, 0xAA], 510).unwrap();
        let luks = Attached::new(directory, "luks", 310 * MIB);
        luks.file.write_all_at(b"LUKS\xba\xbe\x00\x01", 0).unwrap();
        for attached in [partitioned, luks] {
            for kind in FsKind::ALL {
                let error = format(&attached, kind).await.unwrap_err();
                assert!(matches!(error, FsError::Foreign { found: Content::Other { .. }, .. }), "{kind}: {error:?}");
            }
        }
    }

    async fn a_format_that_was_interrupted_is_repeated(directory: &Path) {
        for kind in FsKind::ALL {
            let attached = Attached::new(directory, kind.name(), 310 * MIB);
            format(&attached, FsKind::Xfs).await.unwrap();
            // As `mkfs.xfs` leaves it when it is killed.
            run("xfs_db", &["-x", "-c", "sb 0", "-c", "write inprogress 1"], &attached.path);
            assert_eq!(probe(&HostExec, &attached.path).await.unwrap(), Content::Unfinished(FsKind::Xfs));
            assert_eq!(format(&attached, kind).await.unwrap(), Outcome::Done, "{kind}");
            let found = probe(&HostExec, &attached.path).await.unwrap();
            assert!(matches!(&found, Content::Filesystem { kind: found, .. } if found == kind.name()), "{found:?}");
        }
    }

    async fn an_ext4_is_repaired_if_it_can_be(directory: &Path) {
        let attached = Attached::new(directory, "image", 16 * MIB);
        format(&attached, FsKind::Ext4).await.unwrap();
        let checked = async || check(&HostExec, &attached.path, FsKind::Ext4).await;
        assert_eq!(checked().await.unwrap(), Checked::Clean);
        run("debugfs", &["-w", "-R", "ssv state 2"], &attached.path);
        run("debugfs", &["-w", "-R", "ssv free_blocks_count 1"], &attached.path);
        assert_eq!(checked().await.unwrap(), Checked::Repaired);
        assert_eq!(checked().await.unwrap(), Checked::Clean);
        run("debugfs", &["-w", "-R", "ssv state 2"], &attached.path);
        run("debugfs", &["-w", "-R", "set_inode_field <2> mode 0100644"], &attached.path);
        let error = checked().await.unwrap_err();
        assert!(matches!(error, FsError::Damaged { .. }), "{error:?}");
    }

    async fn a_mounted_filesystem_is_not_checked(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        let attached = Attached::new(directory, "image", 16 * MIB);
        format(&attached, FsKind::Ext4).await.unwrap();
        mount_at(&attached, FsKind::Ext4, &point).await;
        let error = check(&HostExec, &attached.path, FsKind::Ext4).await.unwrap_err();
        assert!(error.to_string().contains("is mounted"), "{error}");
        unmount(&point).await;
    }

    async fn a_frozen_filesystem_stands_still_until_it_is_thawed(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        for kind in FsKind::ALL {
            let attached = Attached::new(directory, kind.name(), kind.minimum_bytes().max(16 * MIB));
            format(&attached, kind).await.unwrap();
            mount_at(&attached, kind, &point).await;
            let written = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let frozen = freeze(&point).unwrap();
                let refused = freeze(&point).unwrap_err();
                assert!(matches!(refused, FsError::Refusal { doing: "freeze", .. }), "{refused:?}");
                let (begins, begun) = mpsc::channel();
                let (point, written) = (&point, &written);
                scope.spawn(move || {
                    begins.send(gettid()).unwrap();
                    fs::write(point.join("file"), "late").unwrap();
                    written.store(1, Ordering::SeqCst);
                });
                let writer = begun.recv().unwrap();
                while !is_held_by_the_kernel(writer) && written.load(Ordering::SeqCst) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(written.load(Ordering::SeqCst), 0, "{kind} was written to");
                drop(frozen);
            });
            assert_eq!(written.load(Ordering::SeqCst), 1);
            assert_eq!(thaw(&point).unwrap(), Outcome::Already);
            freeze(&point).unwrap().thaw().unwrap();
            // As after a crash: nobody has a guard.
            run("fsfreeze", &["--freeze"], &point);
            assert_eq!(thaw(&point).unwrap(), Outcome::Done);
            unmount(&point).await;
        }
    }
}

/// Whether a thread of this process waits for what no signal interrupts, such as a frozen filesystem.
fn is_held_by_the_kernel(thread: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero()));
    stat.is_ok_and(|stat| {
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.trim_start().starts_with('D')
    })
}

/// Whether this process has the capability `SYS_RESOURCE`.
fn may_exceed_limits() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap()
        .trim();
    u64::from_str_radix(set, 16).unwrap() & (1 << 24) != 0
}

fn beginning(attached: &Attached) -> Vec<u8> {
    let mut bytes = Vec::new();
    fs::File::open(&attached.path)
        .unwrap()
        .take(2 * MIB)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
