//! Each case is tried by the kernel's own resolution and by the walk: they must agree.

use std::fs;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const BOTH: [Calls; 2] = [Calls::Best, Calls::Old];

/// `outside/secret` beside `root`, and in the root files, directories and all kinds of links.
struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        for made in ["outside", "root/a/b", "root/empty"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at("outside/secret"), "secret").unwrap();
        fs::write(at("root/a/file"), "file").unwrap();
        symlink(at("outside"), at("root/out-absolute")).unwrap();
        symlink("../outside", at("root/out-relative")).unwrap();
        symlink("a/file", at("root/in-relative")).unwrap();
        symlink("/a/file", at("root/in-absolute")).unwrap();
        symlink("../a/b/../file", at("root/a/in-dots")).unwrap();
        symlink("loop", at("root/loop")).unwrap();
        Self { directory }
    }

    fn root(&self, calls: Calls) -> Root {
        Root::open(&self.directory.path().join("root"))
            .unwrap()
            .calls(calls)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }
}

fn name(descriptor: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap()
}

#[test]
fn plain_paths_are_found_by_both_ways() {
    let tree = Tree::new();
    for calls in BOTH {
        for links in [Links::Refused, Links::Confined] {
            for (path, real) in [
                ("a", "root/a"),
                ("a/file", "root/a/file"),
                ("./a/./b/../file", "root/a/file"),
                ("a/b/../..", "root"),
                (".", "root"),
                ("", "root"),
            ] {
                let found = tree.root(calls).find(Path::new(path), links).unwrap();
                assert_eq!(
                    name(&found),
                    tree.at(real).canonicalize().unwrap(),
                    "{path} {links:?} {calls:?}"
                );
            }
        }
    }
}

#[test]
fn nothing_leads_out_of_the_root() {
    let tree = Tree::new();
    let absolute = tree.at("outside/secret");
    for calls in BOTH {
        let root = tree.root(calls);
        for path in [
            "..",
            "../outside/secret",
            "a/../../outside/secret",
            "/",
            absolute.to_str().unwrap(),
        ] {
            let error = root.find(Path::new(path), Links::Refused).unwrap_err();
            assert!(
                matches!(error, BeneathError::Escape { .. }),
                "{path} {calls:?}: {error:?}"
            );
        }
        for path in [
            "out-absolute",
            "out-absolute/secret",
            "out-relative/secret",
            "in-relative",
            "a/in-dots",
            "loop",
        ] {
            let error = root.find(Path::new(path), Links::Refused).unwrap_err();
            assert!(
                matches!(error, BeneathError::Link { .. }),
                "{path} {calls:?}: {error:?}"
            );
        }
        // In a confined look-up the root is `/`, and there is no `outside` in it.
        for path in [
            "../outside/secret",
            "out-absolute/secret",
            "out-relative/secret",
            "../../../../etc/passwd",
        ] {
            let error = root.find(Path::new(path), Links::Confined).unwrap_err();
            assert!(error.is_missing(), "{path} {calls:?}: {error:?}");
        }
        let endless = root.find(Path::new("loop"), Links::Confined).unwrap_err();
        assert!(
            matches!(endless, BeneathError::Link { .. }),
            "{calls:?}: {endless:?}"
        );
    }
}

#[test]
fn links_inside_the_root_are_followed_when_confined() {
    let tree = Tree::new();
    for calls in BOTH {
        for path in [
            "in-relative",
            "in-absolute",
            "a/in-dots",
            "/a/file",
            "../a/file",
            "/../a/in-dots",
        ] {
            let found = tree
                .root(calls)
                .find(Path::new(path), Links::Confined)
                .unwrap();
            assert_eq!(
                name(&found),
                tree.at("root/a/file").canonicalize().unwrap(),
                "{path} {calls:?}"
            );
        }
    }
}

#[test]
fn magic_links_are_refused() {
    for calls in BOTH {
        let root = Root::open(Path::new("/proc")).unwrap().calls(calls);
        for links in [Links::Refused, Links::Confined] {
            let error = root
                .find(Path::new(&format!("{}/root", std::process::id())), links)
                .unwrap_err();
            assert!(
                matches!(error, BeneathError::Link { .. }),
                "{links:?} {calls:?}: {error:?}"
            );
        }
    }
}

#[test]
fn hostile_names_are_errors() {
    let tree = Tree::new();
    let long = "x".repeat(300);
    let endless = "a/../".repeat(2000);
    for calls in BOTH {
        let root = tree.root(calls);
        for path in ["a\0b", &long] {
            assert!(
                root.find(Path::new(path), Links::Refused).is_err(),
                "{path:?}"
            );
            assert!(
                root.create_directory(Path::new(path), 0o755).is_err(),
                "{path:?}"
            );
        }
        let _ = root.find(Path::new(&endless), Links::Refused);
        for path in ["", ".", "..", "/", "a/..", "/a", "../x", "out-relative/x"] {
            assert!(
                root.create_directory(Path::new(path), 0o755).is_err(),
                "{path:?}"
            );
            assert!(
                root.create_file(Path::new(path), 0o644).is_err(),
                "{path:?}"
            );
            assert!(root.remove(Path::new(path)).is_err(), "{path:?}");
            assert!(
                root.remove_tree(Path::new(path), |_| ControlFlow::Continue(()))
                    .is_err(),
                "{path:?}"
            );
        }
    }
    assert!(tree.at("outside/secret").exists() && tree.at("root/a/file").exists());
}

#[test]
fn only_regular_files_are_opened() {
    let tree = Tree::new();
    let pipe = tree.at("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for calls in BOTH {
        let root = tree.root(calls);
        let file = root
            .open_file(Path::new("a/file"), Links::Refused, false)
            .unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "file");
        for path in ["pipe", "a"] {
            let error = root
                .open_file(Path::new(path), Links::Refused, false)
                .unwrap_err();
            assert!(
                matches!(error, BeneathError::Kind { .. }),
                "{path}: {error:?}"
            );
        }
        assert!(matches!(
            root.open_directory(Path::new("a/file"), Links::Refused),
            Err(BeneathError::Kind { .. })
        ));
    }
}

#[test]
fn directories_get_exactly_their_mode_and_are_made_once() {
    let tree = Tree::new();
    for calls in BOTH {
        let root = tree.root(calls);
        let path = format!("new-{calls:?}/x/y");
        let (_, created) = root.create_directories(Path::new(&path), 0o2777).unwrap();
        assert_eq!(created, Outcome::Done);
        let mode = fs::metadata(tree.at("root").join(&path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o2777);
        let (again, created) = root.create_directories(Path::new(&path), 0o700).unwrap();
        assert_eq!(created, Outcome::Already);
        again.create_file(Path::new("file"), 0o600).unwrap();
        assert!(again.create_file(Path::new("file"), 0o600).is_err());
        // A link where the directory should be is not taken for it.
        assert!(matches!(
            root.create_directory(Path::new("out-absolute"), 0o755),
            Err(BeneathError::Link { .. })
        ));
    }
}

#[test]
fn names_change_within_the_root() {
    let tree = Tree::new();
    let root = tree.root(Calls::Best);
    root.rename(Path::new("a/file"), Path::new("empty/moved"))
        .unwrap();
    assert!(tree.at("root/empty/moved").exists());
    assert!(
        root.rename(Path::new("empty/moved"), Path::new("../outside/moved"))
            .is_err()
    );
    assert!(
        root.rename(Path::new("empty/moved"), Path::new("out-relative/moved"))
            .is_err()
    );
    assert_eq!(
        root.remove(Path::new("empty/moved")).unwrap(),
        Outcome::Done
    );
    assert_eq!(
        root.remove(Path::new("empty/moved")).unwrap(),
        Outcome::Already
    );
    assert_eq!(root.remove(Path::new("empty")).unwrap(), Outcome::Done);
    assert!(root.remove(Path::new("a")).is_err(), "not empty");
}

#[test]
fn a_tree_is_removed_and_what_its_links_show_is_not() {
    for calls in BOTH {
        let tree = Tree::new();
        let mut removed = 0;
        let root = Root::open(tree.directory.path()).unwrap().calls(calls);
        let done = root.remove_tree(Path::new("root"), |so_far| {
            removed = so_far;
            ControlFlow::Continue(())
        });
        assert_eq!(done.unwrap(), Outcome::Done);
        assert_eq!(removed, 11, "{calls:?}");
        assert!(!tree.at("root").exists() && tree.at("outside/secret").exists());
        assert_eq!(
            root.remove_tree(Path::new("root"), |_| ControlFlow::Continue(()))
                .unwrap(),
            Outcome::Already
        );
    }
}

#[test]
fn what_may_not_be_removed_is_told_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path()).unwrap();
    fs::create_dir(directory.path().join("tree")).unwrap();
    let file = File::create(directory.path().join("tree/file")).unwrap();
    rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::IMMUTABLE).unwrap();
    let error = root
        .remove_tree(Path::new("tree"), |_| ControlFlow::Continue(()))
        .unwrap_err();
    rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty()).unwrap();
    let BeneathError::Refusal { source, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_stopped_removal_can_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path()).unwrap();
    fs::create_dir(directory.path().join("many")).unwrap();
    (0..100).for_each(|n| fs::write(directory.path().join(format!("many/{n}")), "").unwrap());
    let ten = |removed| {
        if removed < 10 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let stopped = root.remove_tree(Path::new("many"), ten).unwrap_err();
    assert!(
        matches!(stopped, BeneathError::Stopped { .. }),
        "{stopped:?}"
    );
    assert_eq!(
        fs::read_dir(directory.path().join("many")).unwrap().count(),
        90
    );
    assert_eq!(
        root.remove_tree(Path::new("many"), |_| ControlFlow::Continue(()))
            .unwrap(),
        Outcome::Done
    );
}
