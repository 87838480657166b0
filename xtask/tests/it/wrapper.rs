//! `./x` on a machine that has not built anything yet.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// `./x` with nothing built and so much free disk.
fn x(verb: &str, megabytes: u32) -> Output {
    let scratch = tempfile::tempdir().unwrap();
    let programs = scratch.path().join("bin");
    fs::create_dir(&programs).unwrap();
    program(&programs, "df", &format!("echo Avail; echo ' {megabytes}'"));
    // It tells that the wrapper has come so far.
    program(
        &programs,
        "cargo",
        "[ \"$1\" = --version ] && echo cargo 1.99.0 || { echo builds; exit 3; }",
    );
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../x"))
        .arg(verb)
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", scratch.path().join("not/there/yet"))
        .output()
        .unwrap()
}

fn program(directory: &Path, name: &str, script: &str) {
    let file = directory.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_disk_that_is_too_small_is_told_before_anything_is_built() {
    let refused = x("test", 14_000);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.starts_with("14000 MB of disk are free at `"), "{said}");
    assert!(said.contains("takes 15000 the first time"), "{said}");
    assert!(
        !String::from_utf8(refused.stdout)
            .unwrap()
            .contains("builds")
    );
    // What takes less is not refused.
    for (verb, megabytes) in [("demo", 14_000), ("test", 15_000)] {
        let built = x(verb, megabytes);
        assert_eq!(built.status.code(), Some(3), "{built:?}");
        assert!(String::from_utf8(built.stdout).unwrap().contains("builds"));
    }
}
