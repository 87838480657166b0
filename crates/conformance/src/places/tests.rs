use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn options(folder: &TempDir) -> PlaceOptions {
    PlaceOptions {
        staging_dir: folder.path().to_owned(),
        target_dir: folder.path().to_owned(),
        create_staging: None,
        remove_staging: None,
        create_target: None,
        remove_target: None,
        check_path: None,
        timeout: Duration::from_secs(10),
    }
}

/// A command of these lines. Another process writes it: a file that this one has open for writing, if only for a
/// moment, may be inherited by a child that a test beside us starts, and then cannot be run ("Text file busy").
fn command(folder: &TempDir, name: &str, lines: &str) -> PathBuf {
    let path = folder.path().join(name);
    let written = std::process::Command::new("sh")
        .args([
            "-c",
            r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 700 "$1""#,
        ])
        .args(["sh".as_ref(), path.as_os_str(), lines.as_ref()])
        .status()
        .unwrap();
    assert!(written.success(), "{written}");
    path
}

#[tokio::test]
async fn directories_are_made_once_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut places = Places::new(options(&folder), "case-1".to_owned());
    let staging = places.staging().await.unwrap();
    assert_eq!(places.staging().await.unwrap(), staging);
    let target = places.target("target").await.unwrap();
    assert_eq!(places.look(&staging).await, Ok(Found::Directory));
    assert_eq!(places.look(&target).await, Ok(Found::Nothing));

    assert_eq!(places.remove().await, []);
    assert_eq!(places.look(&staging).await, Ok(Found::Nothing));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_a_driver_left_behind_is_reported_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut places = Places::new(options(&folder), "case-1".to_owned());
    let target = places.target("target").await.unwrap();
    std::fs::write(&target, "data").unwrap();

    let failures = places.remove().await;
    assert_eq!(failures.len(), 1);
    assert!(failures[0].expected.starts_with("an empty directory"));
    assert_eq!(places.look(&target).await, Ok(Found::File));
}

#[tokio::test]
async fn commands_take_the_place_of_our_own_hands() {
    let folder = tempfile::tempdir().unwrap();
    let commands = tempfile::tempdir().unwrap();
    let mut options = options(&folder);
    options.create_staging = Some(command(
        &commands,
        "create",
        r#"mkdir "$1-there"; echo "$1-there""#,
    ));
    options.remove_staging = Some(command(&commands, "remove", r#"rmdir "$1""#));
    options.check_path = Some(command(&commands, "check", "echo other"));
    let mut places = Places::new(options, "case-1".to_owned());

    let staging = places.staging().await.unwrap();
    assert!(staging.ends_with("case-1-staging-there"), "{staging}");
    assert!(Path::new(&staging).is_dir());
    assert_eq!(places.look(&staging).await, Ok(Found::Other));
    assert_eq!(places.remove().await, []);
    assert!(!Path::new(&staging).exists());
}

#[tokio::test]
async fn a_command_that_does_not_work_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let commands = tempfile::tempdir().unwrap();
    let mut options = options(&folder);
    options.timeout = Duration::from_millis(200);
    options.create_staging = Some(command(&commands, "create", "echo no room >&2; exit 3"));
    options.create_target = Some(command(&commands, "slow", "exec sleep 60"));
    options.check_path = Some(command(&commands, "check", "echo folder"));
    let mut places = Places::new(options, "case-1".to_owned());

    let failure = places.staging().await.unwrap_err();
    assert!(
        failure.got.contains("exit status: 3: no room"),
        "{failure:?}"
    );
    let failure = places.target("target").await.unwrap_err();
    assert!(
        failure.got.contains("took longer than 200ms"),
        "{failure:?}"
    );
    let failure = places.look("/").await.unwrap_err();
    assert!(failure.got.contains("printed `folder`"), "{failure:?}");
    assert_eq!(places.remove().await, []);
}
