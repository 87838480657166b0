//! The forms that can be called twice, on mounts that exist only in a table; real ones are in `tests/host_real`.

use std::fs;

use rustix::io::Errno;

use super::*;
use crate::Outcome;

struct Place {
    directory: tempfile::TempDir,
    mounter: FakeMounter,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("source")).unwrap();
        Self {
            directory,
            mounter: FakeMounter::new(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn bind(&self) -> Bind {
        let source = BindSource::Path(self.at("source"));
        Bind {
            source,
            target: self.at("target"),
            read_only: false,
        }
    }

    fn mount(&self) -> FsMount {
        let (kind, source) = ("nfs".to_owned(), "server:/export".into());
        let timeout = Duration::from_secs(1);
        FsMount {
            kind,
            source,
            target: self.at("target"),
            options: Vec::new(),
            timeout,
        }
    }

    /// What was done, without the paths.
    fn done(&self) -> Vec<String> {
        let calls = self.mounter.calls();
        calls
            .iter()
            .map(|call| call.split(' ').next().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn a_bind_is_made_once() {
    let place = Place::new();
    assert_eq!(
        ensure_bind(&place.mounter, &place.bind()).await.unwrap(),
        Outcome::Done
    );
    assert!(place.at("target").is_dir(), "the mount point is made");
    assert_eq!(
        ensure_bind(&place.mounter, &place.bind()).await.unwrap(),
        Outcome::Already
    );
    assert_eq!(place.done(), ["bind"]);
}

#[tokio::test]
async fn a_bind_is_made_read_only_if_it_is_not() {
    let place = Place::new();
    ensure_bind(&place.mounter, &place.bind()).await.unwrap();
    let wanted = Bind {
        read_only: true,
        ..place.bind()
    };
    assert_eq!(
        ensure_bind(&place.mounter, &wanted).await.unwrap(),
        Outcome::Done
    );
    assert_eq!(
        ensure_bind(&place.mounter, &wanted).await.unwrap(),
        Outcome::Already
    );
    assert_eq!(place.done(), ["bind", "remount"]);
}

#[tokio::test]
async fn a_filesystem_is_mounted_once_and_again_when_it_is_dead() {
    let place = Place::new();
    assert_eq!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .unwrap(),
        Outcome::Done
    );
    assert_eq!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .unwrap(),
        Outcome::Already
    );
    place.mounter.set_health(&place.at("target"), Health::Hung);
    assert_eq!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .unwrap(),
        Outcome::Already
    );
    place
        .mounter
        .set_health(&place.at("target"), Health::Corrupted(Errno::STALE));
    assert_eq!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .unwrap(),
        Outcome::Done
    );
    assert_eq!(place.done(), ["mount", "unmount", "mount"]);
}

#[tokio::test]
async fn a_dead_mount_that_refuses_is_forced_and_a_live_one_is_not() {
    let place = Place::new();
    ensure_mounted(&place.mounter, &place.mount())
        .await
        .unwrap();
    place.mounter.refuse_next("unmount", Errno::PERM);
    assert!(
        ensure_unmounted(&place.mounter, &place.at("target"), Unmount::Normal)
            .await
            .is_err()
    );
    place.mounter.refuse_next("unmount", Errno::STALE);
    let unmounted = ensure_unmounted(&place.mounter, &place.at("target"), Unmount::Normal).await;
    assert_eq!(unmounted.unwrap(), Outcome::Done);
    assert_eq!(
        place.done(),
        ["mount", "unmount", "unmount", "force-unmount"]
    );
}

#[tokio::test]
async fn a_busy_mount_stays() {
    let place = Place::new();
    ensure_mounted(&place.mounter, &place.mount())
        .await
        .unwrap();
    place.mounter.refuse_next("unmount", Errno::BUSY);
    let error = ensure_unmounted(&place.mounter, &place.at("target"), Unmount::Normal)
        .await
        .unwrap_err();
    assert!(matches!(error, MountError::Busy { .. }), "{error:?}");
    assert_eq!(place.done(), ["mount", "unmount"]);
}

#[tokio::test]
async fn a_refused_mount_is_no_mount() {
    let place = Place::new();
    place.mounter.refuse_next("mount", Errno::ACCESS);
    assert!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .is_err()
    );
    assert!(
        place
            .mounter
            .look(&place.at("target"))
            .await
            .unwrap()
            .mount()
            .is_none()
    );
    assert_eq!(
        ensure_mounted(&place.mounter, &place.mount())
            .await
            .unwrap(),
        Outcome::Done
    );
}

#[test]
fn the_last_word_on_writing_counts() {
    let options = |words: &[&str]| {
        let options = words.iter().map(|word| (*word).to_owned()).collect();
        FsMount {
            options,
            ..Place::new().mount()
        }
        .read_only()
    };
    assert!(!options(&[]));
    assert!(options(&["noatime,ro"]));
    assert!(!options(&["ro", "rw"]));
    assert!(!options(&["errors=remount-ro"]));
}

/// The kernel's NFS client shows `/` as the root of all of its mounts: the path is in the source.
#[tokio::test]
async fn directories_of_one_export_are_told_apart() {
    let place = Place::new();
    let export = FsMount {
        target: place.at("source"),
        ..place.mount()
    };
    place.mounter.mount(&export).await.unwrap();
    let bind = |name: &str| {
        let directory = place.at("source").join(name);
        fs::create_dir_all(&directory).unwrap();
        Bind {
            source: BindSource::Path(directory),
            ..place.bind()
        }
    };
    let done = ensure_bind(&place.mounter, &bind("one")).await.unwrap();
    assert_eq!(done, Outcome::Done);
    let view = place.mounter.look(&place.at("target")).await.unwrap();
    let mount = view.mount().unwrap();
    assert_eq!(
        (mount.root(), mount.source()),
        (Path::new("/"), std::ffi::OsStr::new("server:/export/one"))
    );
    let again = ensure_bind(&place.mounter, &bind("one")).await.unwrap();
    assert_eq!(again, Outcome::Already);
    let other = ensure_bind(&place.mounter, &bind("two")).await;
    assert!(
        matches!(other, Err(MountError::Occupied { .. })),
        "{other:?}"
    );
}
