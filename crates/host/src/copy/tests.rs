use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::{fs, thread};

use super::*;

const MIB: u64 = 1024 * 1024;

fn temporary() -> File {
    tempfile::tempfile().unwrap()
}

/// 100 MiB with two islands of data, one of them at the end.
fn sparse() -> File {
    let file = temporary();
    file.set_len(100 * MIB).unwrap();
    file.write_all_at(&vec![7; 300_000], 20 * MIB + 123)
        .unwrap();
    file.write_all_at(b"end", 100 * MIB - 3).unwrap();
    file
}

fn content(file: &File) -> Vec<u8> {
    let mut file = file.try_clone().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn run(copy: &mut FileCopy) -> usize {
    (1..1000).find(|_| copy.step().unwrap().is_some()).unwrap()
}

#[test]
fn holes_stay_holes() {
    for in_kernel in [true, false] {
        let (from, to) = (sparse(), temporary());
        let mut copy = FileCopy::start(from.try_clone().unwrap(), to.try_clone().unwrap()).unwrap();
        copy.in_kernel = in_kernel;
        run(&mut copy);
        assert!(content(&from) == content(&to), "in kernel: {in_kernel}");
        assert!(
            to.metadata().unwrap().blocks() * 512 < MIB,
            "in kernel: {in_kernel}"
        );
        assert_eq!(
            copy.progress(),
            Progress {
                done: 100 * MIB,
                total: 100 * MIB
            }
        );
    }
}

#[test]
fn zeros_that_take_space_become_holes_by_hand() {
    let (from, to) = (temporary(), temporary());
    from.write_all_at(&vec![0; 4 * BUFFER], 0).unwrap();
    let mut copy = FileCopy::start(from, to.try_clone().unwrap()).unwrap();
    copy.in_kernel = false;
    run(&mut copy);
    assert_eq!(to.metadata().unwrap().len(), 4 * BUFFER as u64);
    assert_eq!(to.metadata().unwrap().blocks(), 0);
}

#[test]
fn what_the_target_held_before_is_gone() {
    let (from, to) = (sparse(), temporary());
    to.write_all_at(&vec![9; 30 * BUFFER], 0).unwrap();
    run(&mut FileCopy::start(from.try_clone().unwrap(), to.try_clone().unwrap()).unwrap());
    assert!(content(&from) == content(&to));
}

#[test]
fn an_empty_file_is_copied() {
    let mut copy = FileCopy::start(temporary(), temporary()).unwrap();
    assert!(copy.step().unwrap().is_some());
}

#[test]
fn a_large_file_takes_several_steps() {
    let (from, to) = (temporary(), temporary());
    from.write_all_at(&vec![5; usize::try_from(2 * STEP + 1).unwrap()], 0)
        .unwrap();
    let mut copy = FileCopy::start(from, to).unwrap();
    if copy.method == Method::Data {
        assert!(copy.step().unwrap().is_none());
        assert_eq!(copy.progress().done, STEP);
        assert_eq!(run(&mut copy), 3);
    }
}

#[test]
fn an_original_that_shrinks_is_an_error_and_not_zeros() {
    let (from, to) = (temporary(), temporary());
    from.write_all_at(&[1; 1000], 0).unwrap();
    let mut copy = FileCopy::start(from.try_clone().unwrap(), to).unwrap();
    if copy.method == Method::Data {
        from.set_len(10).unwrap();
        copy.done = 10;
        assert!(matches!(
            copy.copy_some(990),
            Err(CopyError::Shrunk {
                at: 10,
                total: 1000
            })
        ));
    }
}

#[tokio::test]
async fn progress_is_told_and_a_dropped_copy_stops() {
    let (from, to) = (temporary(), temporary());
    from.write_all_at(&vec![5; usize::try_from(3 * STEP).unwrap()], 0)
        .unwrap();
    let mut told = Vec::new();
    let copied = copy_file(from.try_clone().unwrap(), to, |progress| {
        told.push(progress.done);
    })
    .await
    .unwrap();
    assert_eq!(
        (told.first().copied(), told.last().copied()),
        (
            Some(if copied == Method::Data { 0 } else { 3 * STEP }),
            Some(3 * STEP)
        )
    );

    let to = temporary();
    let copy = copy_file(from, to.try_clone().unwrap(), |_| ());
    assert!(
        tokio::time::timeout(std::time::Duration::ZERO, copy)
            .await
            .is_err()
    );
}

#[test]
fn an_atomic_write_replaces_the_whole_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    atomic_write(&path, b"a long first content", 0o600).unwrap();
    atomic_write(&path, b"second", 0o600).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
    assert!(atomic_write(Path::new("/no/such/directory/x"), b"", 0o600).is_err());
}

#[test]
fn a_reader_sees_the_old_or_the_new_content_whoever_sweeps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    atomic_write(&path, &vec![0; 50_000], 0o600).unwrap();
    thread::scope(|scope| {
        let write = |n| atomic_write(&path, &vec![n; 50_000], 0o600).unwrap();
        let writer = scope.spawn(move || (1..200).for_each(write));
        while !writer.is_finished() {
            let content = fs::read(&path).unwrap();
            let whole = content.len() == 50_000 && content.iter().all(|byte| *byte == content[0]);
            assert!(whole, "{} bytes", content.len());
            sweep_unfinished(directory.path()).unwrap();
        }
    });
    assert_eq!(fs::read(&path).unwrap()[0], 199);
}

#[test]
fn only_dead_writers_files_are_swept() {
    let directory = tempfile::tempdir().unwrap();
    let (dead, alive) = (
        directory.path().join(".unfinished-1"),
        directory.path().join(".unfinished-2"),
    );
    fs::write(&dead, "half").unwrap();
    let mut writer = File::create(&alive).unwrap();
    rustix::fs::flock(&writer, rustix::fs::FlockOperation::LockExclusive).unwrap();
    writer.write_all(b"half").unwrap();
    fs::write(directory.path().join("state"), "whole").unwrap();
    assert_eq!(sweep_unfinished(directory.path()).unwrap(), 1);
    assert!(!dead.exists() && alive.exists() && directory.path().join("state").exists());
    drop(writer);
    assert_eq!(sweep_unfinished(directory.path()).unwrap(), 1);
}
