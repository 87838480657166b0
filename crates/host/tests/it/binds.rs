//! Binds: of paths and of descriptors, read-only, by new and by old kernel calls.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;

use stowage_host::beneath::{Links, Root};
use stowage_host::mount::{
    Bind, MountError, Mounter, Propagation, Unmount, ensure_bind, ensure_mounted, ensure_unmounted,
    remove_mount_point,
};
use stowage_host::{Calls, Outcome};

use super::support::{bind, directories, isolated, mounter, tmpfs};

const BOTH: [Calls; 2] = [Calls::Best, Calls::Old];

isolated! {
    async fn a_bind_shows_its_source_and_is_made_once(directory: &Path) {
        let [source] = directories(directory, ["source"]);
        fs::write(source.join("file"), "content").unwrap();
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            let wanted = bind(&source, &directory.join("made on the way"));
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Done);
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Already);
            assert_eq!(fs::read_to_string(wanted.target.join("file")).unwrap(), "content");
            let table = mounter.table().await.unwrap();
            assert_eq!(table.all_at(&wanted.target).count(), 1);
            assert_eq!(ensure_unmounted(&mounter, &wanted.target, Unmount::Normal).await.unwrap(), Outcome::Done);
            assert_eq!(remove_mount_point(&wanted.target).await.unwrap(), Outcome::Done);
            assert_eq!(remove_mount_point(&wanted.target).await.unwrap(), Outcome::Already);
        }
    }

    async fn what_was_opened_is_bound_whatever_its_path_is_by_now(directory: &Path) {
        let [volume, _outside, target] = directories(directory, ["root/volume", "outside", "target"]);
        fs::write(volume.join("mine"), "").unwrap();
        fs::write(directory.join("outside/secret"), "").unwrap();
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            let root = Root::open(&directory.join("root")).unwrap().calls(calls);
            let opened: OwnedFd = root.find(Path::new("volume"), Links::Refused).unwrap();
            fs::rename(&volume, directory.join("root/moved")).unwrap();
            symlink(directory.join("outside"), &volume).unwrap();
            let wanted = Bind { source: opened.into(), target: target.clone(), read_only: false };
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Done);
            assert!(target.join("mine").exists() && !target.join("secret").exists());
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Already);
            ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap();
            fs::remove_file(&volume).unwrap();
            fs::rename(directory.join("root/moved"), &volume).unwrap();
        }
    }

    async fn a_read_only_bind_refuses_writes_and_keeps_its_other_flags(directory: &Path) {
        let [source, target] = directories(directory, ["source", "target"]);
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            ensure_mounted(&mounter, &tmpfs(&source, &["nosuid", "nodev", "noexec", "noatime"])).await.unwrap();
            let wanted = Bind { read_only: true, ..bind(&source, &target) };
            ensure_bind(&mounter, &wanted).await.unwrap();
            let refused = fs::write(target.join("file"), "").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            fs::write(source.join("file"), "").unwrap();
            let table = mounter.table().await.unwrap();
            let mount = table.at(&target).unwrap();
            for option in ["ro", "nosuid", "nodev", "noexec", "noatime"] {
                assert!(mount.has_option(option), "{calls:?}: {option} is missing");
            }
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Already);
            let other_access = ensure_bind(&mounter, &bind(&source, &target)).await.unwrap_err();
            assert!(matches!(other_access, MountError::Occupied { .. }), "{other_access:?}");
            ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap();
            ensure_unmounted(&mounter, &source, Unmount::Normal).await.unwrap();
        }
    }

    async fn a_bind_that_died_before_it_was_read_only_is_completed(directory: &Path) {
        let [source, target] = directories(directory, ["source", "target"]);
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            ensure_bind(&mounter, &bind(&source, &target)).await.unwrap();
            let wanted = Bind { read_only: true, ..bind(&source, &target) };
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Done);
            assert!(fs::write(target.join("file"), "").is_err());
            assert_eq!(mounter.table().await.unwrap().all_at(&target).count(), 1);
            ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap();
        }
    }

    async fn a_target_that_holds_something_else_is_left_alone(directory: &Path) {
        let [one, two, target] = directories(directory, ["one", "two", "target"]);
        let mounter = mounter();
        ensure_bind(&mounter, &bind(&one, &target)).await.unwrap();
        let error = ensure_bind(&mounter, &bind(&two, &target)).await.unwrap_err();
        assert!(matches!(&error, MountError::Occupied { holder, .. } if holder.contains("/one")), "{error}");
        let error = ensure_mounted(&mounter, &tmpfs(&target, &[])).await.unwrap_err();
        assert!(matches!(error, MountError::Occupied { .. }), "{error}");
        assert_eq!(ensure_bind(&mounter, &bind(&one, &target)).await.unwrap(), Outcome::Already);
    }

    async fn a_link_planted_at_the_target_is_refused(directory: &Path) {
        let [source, victim] = directories(directory, ["source", "victim"]);
        let target = directory.join("target");
        symlink(&victim, &target).unwrap();
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            let error = ensure_bind(&mounter, &bind(&source, &target)).await.unwrap_err();
            assert!(matches!(error, MountError::MountPoint { .. }), "{error:?}");
            assert!(mounter.bind(&bind(&source, &target)).await.is_err(), "{calls:?}");
            assert!(mounter.table().await.unwrap().at(&victim).is_none(), "{calls:?}");
        }
        assert!(remove_mount_point(&target).await.is_err());
    }

    async fn a_device_is_bound_to_a_file(directory: &Path) {
        let target = directory.join("block");
        for calls in BOTH {
            let mounter = mounter().calls(calls);
            ensure_bind(&mounter, &bind(Path::new("/dev/loop-control"), &target)).await.unwrap();
            assert!(fs::metadata(&target).unwrap().file_type().is_char_device());
            assert!(remove_mount_point(&target).await.is_err(), "it is mounted");
            ensure_unmounted(&mounter, &target, Unmount::Normal).await.unwrap();
            assert_eq!(fs::metadata(&target).unwrap().len(), 0);
            assert_eq!(remove_mount_point(&target).await.unwrap(), Outcome::Done);
        }
        fs::write(&target, "data").unwrap();
        assert!(remove_mount_point(&target).await.is_err(), "a file with data is no mount point");
    }

    async fn any_name_can_be_a_mount_point(directory: &Path) {
        let [source] = directories(directory, ["source"]);
        let mounter = mounter();
        for name in [b"a b\\c\nd\te#".as_slice(), b"\xff\xfe", b"\\040", "grün".as_bytes()] {
            let wanted = bind(&source, &directory.join(std::ffi::OsStr::from_bytes(name)));
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Done, "{name:?}");
            assert_eq!(ensure_bind(&mounter, &wanted).await.unwrap(), Outcome::Already, "{name:?}");
            assert_eq!(ensure_unmounted(&mounter, &wanted.target, Unmount::Normal).await.unwrap(), Outcome::Done);
        }
    }

    async fn a_source_that_is_gone_is_an_error(directory: &Path) {
        let [source, target] = directories(directory, ["source", "target"]);
        let mounter = mounter();
        let root = Root::open(directory).unwrap();
        let opened = root.find(Path::new("source"), Links::Refused).unwrap();
        fs::remove_dir(&source).unwrap();
        let wanted = Bind { source: opened.into(), target: target.clone(), read_only: false };
        assert!(ensure_bind(&mounter, &wanted).await.is_err());
        assert!(ensure_bind(&mounter, &bind(&source, &target)).await.is_err());
        assert!(mounter.table().await.unwrap().at(&target).is_none());
    }

    async fn a_directory_removed_and_made_again_is_another_one(directory: &Path) {
        let [source, target] = directories(directory, ["source", "target"]);
        let mounter = mounter();
        ensure_bind(&mounter, &bind(&source, &target)).await.unwrap();
        fs::remove_dir(&source).unwrap();
        fs::create_dir(&source).unwrap();
        let error = ensure_bind(&mounter, &bind(&source, &target)).await.unwrap_err();
        assert!(matches!(error, MountError::Occupied { .. }), "{error:?}");
    }

    async fn mounts_below_a_shared_mount_are_seen_by_its_copies(directory: &Path) {
        let [one, two] = directories(directory, ["one", "two"]);
        let mounter = mounter();
        ensure_mounted(&mounter, &tmpfs(&one, &[])).await.unwrap();
        let shared = async |below: &str, propagation| {
            mounter.set_propagation(&one, propagation).await.unwrap();
            mounter.bind(&bind(&one, &two)).await.unwrap();
            let [inner] = directories(&one, [below]);
            mounter.mount(&tmpfs(&inner, &[])).await.unwrap();
            fs::write(inner.join("file"), "").unwrap();
            let seen = two.join(below).join("file").exists();
            mounter.unmount(&inner, Unmount::Normal).await.unwrap();
            mounter.unmount(&two, Unmount::Normal).await.unwrap();
            seen
        };
        assert!(shared("a", Propagation::Shared).await);
        assert!(!shared("b", Propagation::Private).await);
    }
}
