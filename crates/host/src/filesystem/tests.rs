//! Exit codes and orders of calls, against tools that only answer; the real tools are in `tests/host_filesystem.rs`.

use std::io::Write;
use std::path::Path;

use super::*;
use crate::exec::{FakeExec, Invocation, Output, Tool, tools};
use crate::mount::FakeMounter;
use crate::stat::Stats;

fn said(tool: Tool, code: i32, stdout: &str, stderr: &str) -> Output {
    let mut output = Output::exited(tool, code);
    (output.stdout, output.stderr) = (stdout.into(), stderr.into());
    output
}

fn blkid(code: i32, stdout: &'static str) -> FakeExec {
    FakeExec::new().with_answer(tools::BLKID, move |_| {
        Ok(said(tools::BLKID, code, stdout, ""))
    })
}

fn device(bytes: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(bytes).unwrap();
    file
}

#[tokio::test]
async fn every_exit_code_of_blkid_has_its_meaning() {
    let device = device(1 << 20);
    let content = async |exec: FakeExec| probe(&exec, device.path()).await;
    assert_eq!(content(blkid(2, "")).await.unwrap(), Content::Empty);
    assert_eq!(content(blkid(8, "")).await.unwrap(), Content::Ambivalent);
    let ext4 = Content::Filesystem {
        kind: "ext4".into(),
        uuid: Some("1-2".into()),
    };
    assert_eq!(
        content(blkid(0, "UUID=1-2\nTYPE=ext4\nUSAGE=filesystem\n"))
            .await
            .unwrap(),
        ext4
    );
    for (text, kind) in [
        ("TYPE=crypto_LUKS\nUSAGE=crypto\n", "crypto_LUKS"),
        ("TYPE=linux_raid_member\nUSAGE=raid\n", "linux_raid_member"),
        ("PTTYPE=gpt\nPTUUID=x\n", "a partition table (gpt)"),
        ("LABEL=x\n", "something unknown"),
        ("", "something unknown"),
    ] {
        assert_eq!(
            content(blkid(0, text)).await.unwrap(),
            Content::Other { kind: kind.into() },
            "{text}"
        );
    }
    for code in [1, 4, 127] {
        assert!(
            matches!(
                content(blkid(code, "")).await,
                Err(FsError::Tool(ExecError::Failure { .. }))
            ),
            "{code}"
        );
    }
    let complaint = FakeExec::new().with_answer(tools::BLKID, |_| {
        Ok(said(tools::BLKID, 2, "", "error: I/O error"))
    });
    assert!(
        content(complaint).await.is_err(),
        "a complaint with code 2 is not emptiness"
    );
}

#[tokio::test]
async fn a_device_that_cannot_be_read_is_not_empty() {
    let exec = blkid(2, "");
    let error = probe(&exec, Path::new("/no/such/device"))
        .await
        .unwrap_err();
    assert!(matches!(error, FsError::Unreadable { .. }), "{error:?}");
    assert!(
        probe(&exec, Path::new("/tmp")).await.is_err(),
        "a directory"
    );
}

#[tokio::test]
async fn what_holds_something_is_never_formatted() {
    let device = device(XFS_MINIMUM_BYTES);
    for (code, text) in [
        (0, "TYPE=btrfs\nUSAGE=filesystem\n"),
        (0, "TYPE=ext4_external_journal\nUSAGE=other\n"),
        (0, "PTTYPE=dos\n"),
        (0, ""),
        (8, ""),
        (4, ""),
        (1, ""),
    ] {
        let exec = blkid(code, text)
            .with(tools::MKFS_XFS)
            .with(tools::MKFS_EXT4);
        for kind in [FsKind::Xfs, FsKind::Ext4] {
            let result = ensure_formatted(&exec, &Stats::default(), device.path(), kind, &[]).await;
            assert!(result.is_err(), "{code} {text:?}: {result:?}");
        }
        assert!(
            exec.calls().iter().all(|call| call.starts_with("blkid")),
            "{:?}",
            exec.calls()
        );
    }
}

#[tokio::test]
async fn too_small_a_device_is_refused_with_the_minimum() {
    for kind in FsKind::ALL {
        let device = device(kind.minimum_bytes() - 1);
        let error = ensure_formatted(&blkid(2, ""), &Stats::default(), device.path(), kind, &[])
            .await
            .unwrap_err();
        assert!(matches!(error, FsError::TooSmall { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .ends_with(&format!("{kind} needs at least {}", kind.minimum_bytes())),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_missing_mkfs_names_the_package() {
    let device = device(XFS_MINIMUM_BYTES);
    let result = ensure_formatted(
        &blkid(2, ""),
        &Stats::default(),
        device.path(),
        FsKind::Xfs,
        &[],
    )
    .await;
    let error = result.unwrap_err().to_string();
    assert_eq!(
        error,
        "host tool `mkfs.xfs` is missing: install Debian package `xfsprogs`"
    );
}

#[tokio::test]
async fn every_exit_code_of_e2fsck_has_its_meaning() {
    let exit = |code| {
        FakeExec::new().with_answer(tools::E2FSCK, move |_| {
            Ok(said(tools::E2FSCK, code, "", "because"))
        })
    };
    let result = async |code| check(&exit(code), Path::new("/dev/x"), FsKind::Ext4).await;
    assert_eq!(result(0).await.unwrap(), Checked::Clean);
    for code in [1, 2, 3] {
        assert_eq!(result(code).await.unwrap(), Checked::Repaired);
    }
    for code in [4, 5, 12] {
        assert!(
            matches!(result(code).await, Err(FsError::Damaged { .. })),
            "{code}"
        );
    }
    for code in [8, 16, 32, 128] {
        assert!(
            matches!(result(code).await, Err(FsError::Tool(_))),
            "{code}"
        );
    }
    for kind in [FsKind::Xfs, FsKind::Btrfs] {
        assert_eq!(
            check(&FakeExec::new(), Path::new("/dev/x"), kind)
                .await
                .unwrap(),
            Checked::NotNeeded
        );
    }
}

#[tokio::test]
async fn a_tool_that_leaves_the_uuid_as_it_was_is_found_out() {
    let device = device(1 << 20);
    let exec = blkid(0, "UUID=1-2\nTYPE=xfs\nUSAGE=filesystem\n").with(tools::XFS_DB);
    let (mounter, scratch) = (FakeMounter::new(), tempfile::tempdir().unwrap());
    let result = renew_identity(&exec, &mounter, device.path(), FsKind::Xfs, scratch.path()).await;
    assert!(
        matches!(result, Err(FsError::SameIdentity { .. })),
        "{result:?}"
    );
    let point = scratch.path().display();
    assert_eq!(
        mounter.calls(),
        [format!("mount {point}"), format!("unmount {point}")],
        "the log is replayed"
    );
}

#[tokio::test]
async fn a_btrfs_with_a_log_that_cannot_be_replayed_is_left_alone() {
    let mut device = device(1 << 20);
    device.write_all(&vec![0; 64 * 1024 + 64]).unwrap();
    device.write_all(b"_BHRfS_M").unwrap();
    device.write_all(&[1; 64]).unwrap();
    let (mounter, scratch) = (FakeMounter::new(), tempfile::tempdir().unwrap());
    let answer = |_: &Invocation| -> Result<Output, ExecError> {
        unreachable!("btrfstune would destroy it")
    };
    let exec =
        blkid(0, "UUID=1-2\nTYPE=btrfs\nUSAGE=filesystem\n").with_answer(tools::BTRFSTUNE, answer);
    let result = renew_identity(
        &exec,
        &mounter,
        device.path(),
        FsKind::Btrfs,
        scratch.path(),
    )
    .await;
    assert!(
        matches!(result, Err(FsError::PendingLog { source: None, .. })),
        "{result:?}"
    );
    mounter.refuse_next("mount", rustix::io::Errno::EXIST);
    let result = renew_identity(
        &exec,
        &mounter,
        device.path(),
        FsKind::Btrfs,
        scratch.path(),
    )
    .await;
    assert!(
        matches!(
            result,
            Err(FsError::PendingLog {
                source: Some(_),
                ..
            })
        ),
        "{result:?}"
    );
}

#[test]
fn kinds_have_names() {
    for kind in FsKind::ALL {
        assert_eq!(kind.name().parse::<FsKind>().unwrap(), kind);
    }
    assert_eq!(
        "ntfs".parse::<FsKind>().unwrap_err().to_string(),
        "unknown filesystem `ntfs`: use ext4, xfs or btrfs"
    );
}

#[test]
fn a_directory_that_is_not_mounted_is_never_frozen() {
    let directory = tempfile::tempdir().unwrap();
    // Thawing is tried, not freezing: if the check were gone, freezing would stop this machine.
    let error = thaw(directory.path()).unwrap_err();
    assert!(matches!(error, FsError::NotMounted { .. }), "{error:?}");
}
