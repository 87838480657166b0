//! `kill -9` in the middle: what was acknowledged is there, nothing else is, and nothing stays frozen.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::Shutdown;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::copies::Writer;
use crate::rig::{self, Rig, filesystem, flags, from_volume};
use crate::support::{MIB, isolated, noise};

/// The flags of a driver that a test wants as a process.
const FLAGS: &str = "STOWAGE_TEST_DRIVER_FLAGS";

/// Not a test: the driver itself, when a test starts this program again to have it as a process.
#[test]
fn driver_process() {
    let Ok(flags) = std::env::var(FLAGS) else {
        return;
    };
    // A test that fails cannot stop it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let _ = tracing_subscriber::fmt().with_ansi(false).try_init();
    let args = rig::Command::parse_from(flags.split('\n')).args;
    let shutdown = Shutdown {
        token: CancellationToken::new(),
        grace: Duration::ZERO,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(stowage_hostpath::run(
            args,
            ServerMetrics::default(),
            shutdown,
        ))
        .unwrap();
}

/// A driver that can be killed, with clients.
fn start(directory: &Path) -> (Child, Rig) {
    let child = start_with(directory, &[]);
    (child, Rig::of_process(directory, directory.join("state")))
}

/// A driver that can be killed.
pub fn start_with(directory: &Path, more: &[&str]) -> Child {
    let program = std::env::current_exe().unwrap();
    spawn(Command::new(program), directory, more)
}

/// A driver that can be killed and has none of the pods' mounts, as in a pod without the kubelet's directory.
pub fn start_apart(directory: &Path, more: &[&str]) -> Child {
    const FORGET_AND_RUN: &str = r#"
        for place in "$PODS"/pods/* "$PODS"/staging/*; do
            umount "$place" 2> /dev/null
        done
        exec "$@"
    "#;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "--"])
        .args(["sh", "-c", FORGET_AND_RUN, "sh"])
        .env("PODS", directory.parent().unwrap())
        .arg(std::env::current_exe().unwrap());
    spawn(command, directory, more)
}

fn spawn(mut command: Command, directory: &Path, more: &[&str]) -> Child {
    command
        .args(["--exact", "crash::driver_process", "--nocapture"])
        .env(FLAGS, flags(directory, more).join("\n"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{what} does not come"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Whether a snapshot is being taken of what is frozen: the record comes first, the freeze next, the data after that.
fn is_copying(state: &Path) -> bool {
    let has_data = |path: &PathBuf| fs::metadata(path).unwrap().blocks() > 0;
    let is_frozen = !entries(&state.join("frozen")).is_empty();
    is_frozen && entries(&state.join("snapshots")).iter().any(has_data)
}

isolated! {
    async fn a_driver_that_dies_while_a_filesystem_is_frozen_thaws_it_at_its_next_start(directory: &Path) {
        for (kind, bytes) in [("ext4", 512), ("xfs", 512), ("btrfs", 600)] {
            let (mut child, rig) = start(directory);
            let (id, target) = rig.in_use(kind, bytes * MIB, &filesystem(kind)).await;
            // Enough for the copy to take a while.
            fs::write(target.join("file"), noise(300 * MIB as usize, 11)).unwrap();
            let call = { let (rig, id) = (Rig::of_process(directory, rig.state.clone()), id.clone()); tokio::spawn(async move { rig.snapshot("snap", &id).await }) };
            wait_until("the copy", || is_copying(&rig.state));
            kill(&mut child);
            assert!(call.await.unwrap().is_err(), "the snapshot was not acknowledged");

            let writer = Writer::start(&target);
            wait_until("the first write begins", || writer.is_held_by_the_kernel());
            assert!(!target.join("beat").exists(), "{kind}: the filesystem is frozen");

            let (mut child, rig) = start(directory);
            assert_eq!(rig.volumes().await.len(), 1);
            wait_until("the first write", || target.join("beat").exists());
            println!("{kind}: frozen for {:?}", writer.stop());
            assert!(entries(&rig.state.join("frozen")).is_empty());
            assert!(entries(&rig.state.join("scratch")).is_empty());
            assert!(entries(&rig.state.join("snapshots")).is_empty(), "no half snapshot");

            let snapshot = rig.snapshot("snap", &id).await.unwrap();
            rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
            rig.put_away(&id, kind).await;
            kill(&mut child);
        }
    }

    async fn a_controller_that_sees_no_mounts_freezes_and_thaws_all_the_same(directory: &Path) {
        let state = directory.join("state");
        let shared = format!("--statedir={}", state.display());
        let apart = directory.join("controller");
        fs::create_dir(&apart).unwrap();
        let controller_flags = [shared.as_str(), "--mode=controller"];
        let mut controller = start_apart(&apart, &controller_flags);
        let rig = Rig::of_process(&apart, state.clone());
        let id = rig.create("pvc", 512 * MIB, &filesystem("")).await.unwrap().volume_id;

        let mut node = start_with(directory, &[&shared, "--mode=node"]);
        let on_node = Rig::of_process(directory, state.clone());
        on_node.stage(&id, &filesystem("")).await.unwrap();
        let target = on_node.publish(&id, "pod", &filesystem("")).await.unwrap();
        fs::write(target.join("file"), noise(300 * MIB as usize, 29)).unwrap();
        assert_eq!(rig.delete(&id).await.unwrap_err().code(), Code::FailedPrecondition);

        let call = {
            let (rig, id) = (Rig::of_process(&apart, state.clone()), id.clone());
            tokio::spawn(async move { rig.snapshot("snap", &id).await })
        };
        wait_until("the freeze", || !entries(&state.join("frozen")).is_empty());
        // The other process must not touch it meanwhile.
        let status = on_node.unstage(&id).await.unwrap_err();
        assert_eq!(status.code(), Code::Aborted, "{status}");
        wait_until("the copy", || is_copying(&state));
        kill(&mut controller);
        assert!(call.await.unwrap().is_err());
        let writer = Writer::start(&target);
        wait_until("the first write begins", || writer.is_held_by_the_kernel());
        assert!(!target.join("beat").exists(), "the filesystem is frozen");

        controller = start_apart(&apart, &controller_flags);
        // The old connection may learn of its end by a call that fails.
        let rig = Rig::of_process(&apart, state.clone());
        wait_until("the first write", || target.join("beat").exists());
        writer.stop();
        let snapshot = rig.snapshot("snap", &id).await.unwrap();
        rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        on_node.unpublish(&id, "pod").await.unwrap();
        on_node.unstage(&id).await.unwrap();
        rig.delete(&id).await.unwrap();
        assert!(rig.files().is_empty());
        kill(&mut controller);
        kill(&mut node);
    }

    async fn a_driver_that_dies_at_any_moment_loses_nothing_it_acknowledged(directory: &Path) {
        let (mut child, mut rig) = start(directory);
        let source = rig.create("source", 64 * MIB, &filesystem("")).await.unwrap().volume_id;
        let image = entries(&rig.state.join("volumes")).into_iter().find(|path| path.extension().unwrap() == "img").unwrap();
        fs::write(&image, noise(64 * MIB as usize, 13)).unwrap();
        let mut acknowledged = vec![source.clone()];
        for round in 0..12_u64 {
            let calls: Vec<_> = (0..4).map(|number| {
                let (rig, source) = (Rig::of_process(directory, rig.state.clone()), source.clone());
                tokio::spawn(async move {
                    let from = (number == 0).then(|| from_volume(&source));
                    rig.create_from(&format!("pvc-{round}-{number}"), 64 * MIB, &filesystem(""), from).await
                })
            }).collect();
            tokio::time::sleep(Duration::from_millis(round * 7)).await;
            kill(&mut child);
            for call in calls {
                acknowledged.extend(call.await.unwrap().map(|volume| volume.volume_id));
            }
            (child, rig) = start(directory);
            let mut found: Vec<_> = rig.volumes().await.into_iter().map(|entry| {
                assert!(!entry.status.unwrap().volume_condition.unwrap().abnormal);
                entry.volume.unwrap().volume_id
            }).collect();
            for id in &acknowledged {
                assert!(found.contains(id), "{id} was acknowledged and is gone");
            }
            assert_eq!(rig.files().len(), 2 * found.len(), "each volume has an image and a record, and there is nothing else");
            // What was made but not acknowledged would be found by the repeated call.
            acknowledged.append(&mut found);
            acknowledged.sort();
            acknowledged.dedup();
        }
        println!("{} volumes", acknowledged.len());
        for id in acknowledged {
            rig.delete(&id).await.unwrap();
        }
        assert!(rig.files().is_empty());
        kill(&mut child);
    }
}
