//! Mounts that answer with errors, and mounts that do not answer.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use stowage_host::Outcome;
use stowage_host::filesystem::{FsKind, sync};
use stowage_host::mount::{
    MountError, Mounter, Unmount, ensure_bind, ensure_mounted, ensure_unmounted, remove_mount_point,
};
use stowage_host::stat::{Health, StatError, Stats};
use tokio::time::{sleep, timeout};

use super::formats::{format, mount_at, unmount};
use super::support::{
    Attached, MIB, SilentFuse, bind, directories, isolated, mounter, stats, tmpfs,
};

isolated! {
    async fn a_dead_mount_is_replaced(directory: &Path) {
        let [source, target] = directories(directory, ["source", "target"]);
        let mounter = mounter();
        SilentFuse::mount(&target).die();
        SilentFuse::mount(&directory.join("staged")).die();
        assert_eq!(fs::metadata(&target).unwrap_err().raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
        assert_eq!(mounter.health(&target).await, Health::Corrupted(Errno::NOTCONN));
        assert_eq!(ensure_bind(&mounter, &bind(&source, &target)).await.unwrap(), Outcome::Done);
        assert_eq!(mounter.table().await.unwrap().all_at(&target).count(), 1);
        let staged = tmpfs(&directory.join("staged"), &[]);
        assert_eq!(ensure_mounted(&mounter, &staged).await.unwrap(), Outcome::Done);
        assert_eq!(mounter.health(&target).await, Health::Alive);
    }

    async fn a_mount_that_dies_while_it_is_looked_at_is_dead(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let fuse = SilentFuse::mount(&target);
        fuse.greet();
        let stats = Arc::new(Stats::new(Duration::from_secs(60)));
        let looking = tokio::spawn(async move { stats.health(&target).await });
        let dying = tokio::task::spawn_blocking(move || {
            fuse.next_request();
            fuse.die();
        });
        dying.await.unwrap();
        assert_eq!(looking.await.unwrap(), Health::Corrupted(Errno::CONNABORTED));
    }

    async fn a_filesystem_that_shut_itself_down_is_mounted_again(directory: &Path) {
        let [point] = directories(directory, ["point"]);
        let attached = Attached::new(directory, "image", 300 * MIB);
        format(&attached, FsKind::Xfs).await.unwrap();
        mount_at(&attached, FsKind::Xfs, &point).await;
        fs::write(point.join("file"), "content").unwrap();
        sync(&point).unwrap();
        let shut_down = Command::new("xfs_io").args(["-x", "-c", "shutdown -f"]).arg(&point).status().unwrap();
        assert!(shut_down.success());
        assert_eq!(mounter().health(&point).await, Health::Corrupted(Errno::IO));
        mount_at(&attached, FsKind::Xfs, &point).await;
        assert_eq!(mounter().health(&point).await, Health::Alive);
        assert_eq!(fs::read_to_string(point.join("file")).unwrap(), "content");
        assert_eq!(mounter().table().await.unwrap().all_at(&point).count(), 1);
        unmount(&point).await;
    }

    async fn a_dead_mount_is_unmounted(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        SilentFuse::mount(&target).die();
        assert_eq!(ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap(), Outcome::Done);
        assert_eq!(remove_mount_point(&target).await.unwrap(), Outcome::Done);
    }

    async fn a_hung_mount_hangs_nobody(directory: &Path) {
        let [target, other] = directories(directory, ["target", "other"]);
        let fuse = SilentFuse::mount(&target);
        let (mounter, stats) = (mounter(), stats());
        assert!(mounter.is_mounted(&target).await.unwrap());
        assert!(mounter.look(&target).await.unwrap().mount().is_some());
        assert_eq!(threads_named("host-call"), 0, "the look-up touched the mount");

        let hung = stats.usage(&target).await.unwrap_err();
        assert!(matches!(hung, StatError::Hung { .. }), "{hung:?}");
        for _ in 0..100 {
            let at_once = timeout(Duration::ZERO, stats.usage(&target)).await;
            assert!(at_once.expect("callers after the first waited again").is_err());
        }
        assert_eq!(threads_named("host-call"), 1, "hung threads pile up");
        stats.usage(&other).await.unwrap();
        ensure_bind(&mounter, &bind(&other, &directory.join("bound"))).await.unwrap();

        let patient = mounter.patience(Duration::from_millis(300));
        let below = bind(&target.join("below"), &directory.join("another"));
        let hung = ensure_bind(&patient, &below).await.unwrap_err();
        assert!(matches!(hung, MountError::Hung { .. }), "{hung:?}");
        let mounter = patient;

        let occupied = ensure_bind(&mounter, &bind(&other, &target)).await.unwrap_err();
        assert!(matches!(occupied, MountError::Occupied { .. }), "{occupied:?}");
        assert!(remove_mount_point(&target).await.is_err(), "refused, while the mount still hangs");
        fuse.die();
        // The threads end with the hang.
        while threads_named("host-call") > 0 {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(stats.health(&target).await, Health::Corrupted(Errno::NOTCONN));
    }

    async fn a_hung_mount_can_be_unmounted(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let fuse = SilentFuse::mount(&target);
        let mounter = mounter();
        assert_eq!(mounter.health(&target).await, Health::Hung);
        // The hung health check still uses it.
        let busy = ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap_err();
        assert!(matches!(busy, MountError::Busy { .. }), "{busy:?}");
        assert_eq!(ensure_unmounted(&mounter, &target, Unmount::Force).await.unwrap(), Outcome::Done);
        assert_eq!(remove_mount_point(&target).await.unwrap(), Outcome::Done);
        drop(fuse);
    }
}

fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path().join("comm"));
    tasks
        .filter(|comm| fs::read_to_string(comm).is_ok_and(|comm| comm.trim() == name))
        .count()
}
