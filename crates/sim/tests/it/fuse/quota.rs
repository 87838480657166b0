//! Limits hold to the byte, whoever writes.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, Barrier};

use crate::fuse::rig::{Rig, errno, fill};

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_hard_quota_ends_in_edquot_and_frees_what_is_deleted() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    std::fs::create_dir_all(mount.join("csi-volumes/pvc")).unwrap();
    let volume = mount.join("csi-volumes/pvc");
    let quota = rig.limit("/csi-volumes/pvc", MIB as u64, MIB as u64).await;

    fill(&volume.join("file"), MIB - 4096).unwrap();
    assert_eq!(rig.used(&quota).await, (MIB - 4096) as u64);
    fill(&volume.join("last"), 4096).unwrap();
    assert_eq!(errno(fill(&volume.join("more"), 1)), Some(libc::EDQUOT));
    assert_eq!(rig.used(&quota).await, MIB as u64);
    // Outside of it there is room.
    fill(&mount.join("outside"), MIB).unwrap();

    std::fs::remove_file(volume.join("file")).unwrap();
    assert_eq!(rig.used(&quota).await, 4096);
    fill(&volume.join("more"), 8192).unwrap();
    OpenOptions::new()
        .write(true)
        .open(volume.join("more"))
        .unwrap()
        .set_len(0)
        .unwrap();
    std::fs::rename(volume.join("more"), volume.join("last")).unwrap();
    assert_eq!(rig.used(&quota).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_frontends_together_write_no_byte_too_many() {
    const LIMIT: u64 = 4 << 20;
    let mut rig = Rig::start(&["a", "b"], |_| {}).await;
    let mounts = [
        rig.mount("default", "a").await,
        rig.mount("default", "b").await,
    ];
    std::fs::create_dir(mounts[0].join("volume")).unwrap();
    let quota = rig.limit("/volume", LIMIT, LIMIT).await;
    let together = Arc::new(Barrier::new(4));
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let path = mounts[number % 2].join(format!("volume/{number}"));
            let together = Arc::clone(&together);
            tokio::task::spawn_blocking(move || {
                let mut file = std::fs::File::create(path).unwrap();
                together.wait();
                let mut written = 0_u64;
                loop {
                    match file.write(&[b'x'; 8192]) {
                        Ok(bytes) => written += bytes as u64,
                        Err(error) => return (written, error.raw_os_error()),
                    }
                }
            })
        })
        .collect();
    let mut total = 0;
    for writer in writers {
        let (written, ended) = writer.await.unwrap();
        assert_eq!(ended, Some(libc::EDQUOT));
        assert!(written > 0);
        total += written;
    }
    assert_eq!(total, LIMIT);
    assert_eq!(rig.used(&quota).await, LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_quota_lets_through_and_raises_an_alert() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    std::fs::create_dir(mount.join("volume")).unwrap();
    rig.limit("/volume", i64::MAX as u64, 4096).await;
    fill(&mount.join("volume/file"), 4096).unwrap();
    assert_eq!(
        rig.call("GET", "alerts", None)
            .await
            .as_array()
            .unwrap()
            .len(),
        0
    );
    fill(&mount.join("volume/file"), 8192).unwrap();
    let alerts = rig.call("GET", "alerts", None).await;
    assert_eq!(alerts[0]["type"], "QuotaSoftLimitExceeded");
    assert_eq!(alerts[0]["params"]["used_bytes"], 8192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_filesystem_is_enospc_and_statfs_shows_the_whole_of_it() {
    let mut rig = Rig::start(&["a"], |options| options.capacity = MIB as u64).await;
    let mount = rig.mount("default", "a").await;
    std::fs::create_dir(mount.join("volume")).unwrap();
    rig.limit("/volume", 8192, 8192).await;
    let shown = rustix::fs::statvfs(mount.join("volume")).unwrap();
    assert_eq!(shown.f_blocks * shown.f_frsize, MIB as u64);
    fill(&mount.join("file"), MIB).unwrap();
    assert_eq!(errno(fill(&mount.join("more"), 1)), Some(libc::ENOSPC));
    assert_eq!(rustix::fs::statvfs(&mount).unwrap().f_bavail, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_into_or_out_of_a_directory_with_a_quota_but_the_directory_itself() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    let volume = mount.join("csi-volumes/pvc");
    std::fs::create_dir_all(volume.join("sub")).unwrap();
    std::fs::create_dir(mount.join("trash")).unwrap();
    std::fs::remove_dir(volume.join("sub")).unwrap();
    let quota = rig.limit("/csi-volumes/pvc", 1 << 30, 1 << 30).await;
    fill(&volume.join("file"), 4096).unwrap();
    let out = mount.join("out");
    assert_eq!(
        errno(std::fs::rename(volume.join("file"), &out)),
        Some(libc::EXDEV)
    );
    assert_eq!(
        errno(std::fs::hard_link(volume.join("file"), &out)),
        Some(libc::EXDEV)
    );
    fill(&out, 1).unwrap();
    assert_eq!(
        errno(std::fs::rename(&out, volume.join("in"))),
        Some(libc::EXDEV)
    );

    std::fs::rename(&volume, mount.join("trash/pvc")).unwrap();
    fill(&mount.join("trash/pvc/more"), 4096).unwrap();
    assert_eq!(rig.used(&quota).await, 8192);
    std::fs::remove_dir_all(mount.join("trash/pvc")).unwrap();
    let url = format!("{}/{quota}", rig.array.url());
    assert_eq!(reqwest::get(url).await.unwrap().status(), 401);
    let uid = rig.uid("default").await;
    let left = rig
        .call("GET", &format!("fileSystems/{uid}/quota"), None)
        .await;
    assert_eq!(left.as_array().unwrap().len(), 0);
}
