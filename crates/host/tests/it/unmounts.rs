//! Unmounts of what is mounted once, often, not at all, or in use; filesystems by `mount(8)`; removal of trees.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit};
use stowage_host::beneath::{BeneathError, Root};
use stowage_host::mount::{
    MountError, Mounter, Unmount, ensure_bind, ensure_mounted, ensure_unmounted,
};
use stowage_host::{Calls, Outcome};

use super::support::{bind, directories, filesystem, isolated, mounter, tmpfs};

isolated! {
    async fn what_is_not_mounted_is_unmounted_already(directory: &Path) {
        let [plain] = directories(directory, ["plain"]);
        fs::write(plain.join("file"), "").unwrap();
        symlink("/proc", plain.join("link-to-a-mount")).unwrap();
        for name in ["", "missing", "missing/deeper", "file", "file/below", "link-to-a-mount"] {
            let target = &plain.join(name);
            for calls in [Calls::Best, Calls::Old] {
                assert!(!mounter().calls(calls).is_mounted(target).await.unwrap(), "{name} {calls:?}");
            }
            assert_eq!(ensure_unmounted(&mounter(), target, Unmount::Normal).await.unwrap(), Outcome::Already);
        }
    }

    async fn a_stack_of_mounts_is_taken_down(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        for _ in 0..5 {
            mounter.mount(&tmpfs(&target, &[])).await.unwrap();
        }
        assert_eq!(ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap(), Outcome::Done);
        assert!(mounter.table().await.unwrap().at(&target).is_none());
        assert_eq!(ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap(), Outcome::Already);
    }

    async fn a_mount_is_found_through_a_linked_parent(directory: &Path) {
        let [real] = directories(directory, ["real/target"]);
        symlink(directory.join("real"), directory.join("link")).unwrap();
        let linked = directory.join("link/target");
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&linked, &[])).await.unwrap();
        assert_eq!(ensure_mounted(&mounter, &tmpfs(&linked, &[])).await.unwrap(), Outcome::Already);
        assert!(mounter.is_mounted(&linked).await.unwrap());
        assert!(mounter.look(&linked).await.unwrap().mount().is_some());
        assert_eq!(ensure_unmounted(&mounter, &linked, Unmount::Normal).await.unwrap(), Outcome::Done);
        assert!(mounter.table().await.unwrap().at(&real).is_none());
    }

    async fn a_busy_mount_goes_only_lazily(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&target, &[])).await.unwrap();
        let user = File::create(target.join("file")).unwrap();
        let error = ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap_err();
        assert!(matches!(error, MountError::Busy { .. }), "{error:?}");
        assert!(mounter.look(&target).await.unwrap().mount().is_some());
        assert_eq!(ensure_unmounted(&mounter, &target, Unmount::Lazy).await.unwrap(), Outcome::Done);
        assert!(!target.join("file").exists());
        drop(user);
    }

    async fn a_short_use_does_not_make_a_mount_busy(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&target, &[])).await.unwrap();
        let user = File::create(target.join("file")).unwrap();
        let (unmounted, ()) = tokio::join!(ensure_unmounted(&mounter, &target, Unmount::Normal), async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            drop(user);
        });
        assert_eq!(unmounted.unwrap(), Outcome::Done);
    }

    async fn a_mount_below_is_named(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&target, &[])).await.unwrap();
        ensure_mounted(&mounter, &tmpfs(&target.join("below"), &[])).await.unwrap();
        let error = ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap_err();
        let wanted = format!("{0} is in use: 1 mounts below it, the first at {0}/below", target.display());
        assert_eq!(error.to_string(), wanted);
    }

    async fn eight_callers_unmount_one_target(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&target, &[])).await.unwrap();
        let all = std::iter::repeat_with(|| ensure_unmounted(&mounter, &target, Unmount::Normal)).take(8);
        for unmounted in futures_of(all).await {
            unmounted.unwrap();
        }
        assert!(mounter.table().await.unwrap().at(&target).is_none());
    }

    async fn a_filesystem_is_mounted_with_its_options_and_once(directory: &Path) {
        let mounter = mounter();
        let wanted = tmpfs(&directory.join("target"), &["size=64k,mode=711", "ro"]);
        assert_eq!(ensure_mounted(&mounter, &wanted).await.unwrap(), Outcome::Done);
        assert_eq!(ensure_mounted(&mounter, &wanted).await.unwrap(), Outcome::Already);
        let table = mounter.table().await.unwrap();
        let mount = table.at(&wanted.target).unwrap();
        assert!(mount.read_only() && mount.has_super_option("size=64k"), "{:?}", mount.super_options());
        let writable = tmpfs(&wanted.target, &["size=64k"]);
        assert!(matches!(ensure_mounted(&mounter, &writable).await, Err(MountError::Occupied { .. })));
    }

    async fn what_mount_says_is_in_the_error(directory: &Path) {
        let [target] = directories(directory, ["target"]);
        let wanted = filesystem("ext4", Path::new("/no/such/device"), &target, &[]);
        let error = ensure_mounted(&mounter(), &wanted).await.unwrap_err();
        let reason = std::error::Error::source(&error).unwrap().to_string();
        assert!(reason.contains("special device /no/such/device does not exist"), "{reason}");
    }

    async fn a_tree_deeper_than_there_are_descriptors_is_removed(directory: &Path) {
        let limit = Rlimit { current: Some(128), maximum: Some(128) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let name = "n".repeat(100);
        for calls in [Calls::Best, Calls::Old] {
            let root = Root::open(directory).unwrap().calls(calls);
            let mut level = root.create_directory(Path::new("deep"), 0o755).unwrap().0;
            for _ in 0..1000 {
                level.create_file(Path::new("file"), 0o600).unwrap();
                level = level.create_directory(Path::new(&name), 0o755).unwrap().0;
            }
            let removed = root.remove_tree(Path::new("deep"), |_| ControlFlow::Continue(()));
            assert_eq!(removed.unwrap(), Outcome::Done);
            assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "{calls:?}");
        }
    }

    async fn a_removed_tree_does_not_take_mounts_along(directory: &Path) {
        let [volume, outside] = directories(directory, ["volume", "outside"]);
        fs::write(outside.join("precious"), "").unwrap();
        let mounter = mounter();
        for calls in [Calls::Best, Calls::Old] {
            // A bind of the same filesystem: the device number is the same.
            ensure_bind(&mounter, &bind(&outside, &volume.join("inner"))).await.unwrap();
            let root = Root::open(directory).unwrap().calls(calls);
            let error = root.remove_tree(Path::new("volume"), |_| ControlFlow::Continue(())).unwrap_err();
            assert!(matches!(error, BeneathError::Mounted { .. }), "{calls:?}: {error:?}");
            assert!(outside.join("precious").exists());
            ensure_unmounted(&mounter, &volume.join("inner"), Unmount::Normal).await.unwrap();
            let removed = root.remove_tree(Path::new("volume"), |_| ControlFlow::Continue(()));
            assert_eq!(removed.unwrap(), Outcome::Done);
            fs::create_dir(&volume).unwrap();
        }
    }
}

/// Runs all at the same time.
async fn futures_of<T>(all: impl Iterator<Item: Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut pending {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if pending.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending.into_iter().map(|(_, done)| done.unwrap()).collect()
}
