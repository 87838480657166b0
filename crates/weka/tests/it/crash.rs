//! `kill -9` at every step of a call: what it began is found and finished by the same call, and nothing else stays.
//!
//! A step is held by the array: its answer, or the work itself, takes so long that the driver can be killed meanwhile.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_service::Health;
use stowage_sim::weka::control::Trouble;
use stowage_sim::weka::state::access::Role;
use stowage_weka::Metrics;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::cluster::Cluster;
use crate::helper::{self, Moment};
use crate::rig::{GIB, Rig, drive, eventually, flags};

/// What a test tells the driver that it wants as a process.
const FLAGS: &str = "STOWAGE_TEST_DRIVER_FLAGS";
/// Where it writes everything it could ever log.
const LOG: &str = "STOWAGE_TEST_DRIVER_LOG";

/// Longer than any test takes: what is done only afterwards would come back when everything is thought to be gone.
pub const HELD: u64 = 600_000;

/// Not a test: the driver itself, when a test starts this program again to have it as a process.
#[test]
fn driver_process() {
    let Ok(flags) = std::env::var(FLAGS) else {
        return;
    };
    // A test that fails cannot stop it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    if let Some(log) = std::env::var_os(LOG) {
        let file = std::fs::File::create(log).unwrap();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(std::sync::Arc::new(file))
            .init();
    }
    let flags = flags.split('\n').map(str::to_owned).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(drive(
            flags,
            Metrics::default(),
            Health::default(),
            CancellationToken::new(),
        ))
        .unwrap();
}

/// A driver that can be killed, with clients. It leaves the trash alone, so that each call to the array is one of its
/// RPC's steps.
fn start(directory: &Path, cluster: &Cluster) -> (Child, Rig) {
    start_with(directory, cluster, &["--skipgarbagecollection"])
}

/// What an earlier process had mounted for itself would save a step.
pub fn forget_mounts(rig: &Rig) {
    for mount in rig.mounts("mounts").into_iter().rev() {
        assert!(
            Command::new("umount")
                .arg(mount)
                .status()
                .unwrap()
                .success()
        );
    }
}

pub fn start_with(directory: &Path, cluster: &Cluster, more: &[&str]) -> (Child, Rig) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::driver_process", "--nocapture"])
        .env(FLAGS, flags(directory, more).join("\n"))
        .env(LOG, directory.join("driver.log"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    (child, Rig::of_process(directory, cluster))
}

pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Waits until the array holds a call: then the driver has come to that step.
pub async fn held(cluster: &Cluster, path: &str) {
    let faults = format!("{}/faults", cluster.array.control().url());
    for _ in 0..4800 {
        let left: Vec<serde_json::Value> =
            reqwest::get(&faults).await.unwrap().json().await.unwrap();
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the step {path} does not come");
}

/// The calls at which creation and deletion can be held, and whether the work itself is done before.
fn steps() -> Vec<(&'static str, &'static str, Trouble)> {
    let mut steps = Vec::new();
    for (method, path) in [
        ("POST", "login"),
        ("GET", "cluster"),
        ("GET", "users/whoami"),
        ("GET", "fileSystems"),
        ("GET", "fileSystems/*/mountToken"),
        ("GET", "fileSystems/*/resolvePath"),
        ("PUT", "fileSystems/*/quota/*"),
        ("GET", "fileSystems/*/quota/*"),
    ] {
        steps.push((method, path, Trouble::Delay(HELD)));
        steps.push((method, path, Trouble::DoneButDelayed(HELD)));
    }
    steps
}

isolated! {
    async fn a_driver_killed_at_any_step_of_a_creation_leaves_one_volume(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        for (number, (method, path, trouble)) in steps().into_iter().enumerate() {
            let name = format!("pvc-{number}");
            let (child, rig) = start(directory, &cluster);
            forget_mounts(&rig);
            cluster.fault(method, path, 1, trouble).await;
            let call = { let request = rig.request(&name, GIB, &[]); let controller = rig.controller.clone(); tokio::spawn(async move { controller.clone().create_volume(request).await }) };
            held(&cluster, path).await;
            kill(child);
            assert!(call.await.unwrap().is_err());
            cluster.array.control().clear_faults().await.unwrap();
            let (child, rig) = start(directory, &cluster);
            let volume = rig.create(&name, GIB, &[]).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
            assert_eq!(cluster.volumes().len(), 1, "{method} {path}");
            rig.expand(&volume.volume_id, 2 * GIB).await.unwrap();
            rig.delete(&volume.volume_id).await.unwrap();
            assert_eq!(cluster.volumes().len(), 0, "{method} {path}");
            kill(child);
        }
        let (child, rig) = start_with(directory, &cluster, &[]);
        rig.create("last", GIB, &[]).await.unwrap();
        eventually("the sweep", || cluster.trash().is_empty()).await;
        kill(child);
    }

    async fn a_driver_killed_at_any_step_of_a_publication_or_deletion_is_followed_by_one_that_finishes(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        for (method, path) in [("POST", "login"), ("GET", "fileSystems"), ("GET", "fileSystems/*/mountToken")] {
            let (child, rig) = start(directory, &cluster);
            let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
            kill(child);
            for deletes in [false, true] {
                forget_mounts(&rig);
                let (child, rig) = start(directory, &cluster);
                cluster.fault(method, path, 1, Trouble::Delay(HELD)).await;
                let call = {
                    let (rig, volume) = (Rig::of_process(directory, &cluster), volume.clone());
                    tokio::spawn(async move {
                        if deletes { rig.delete(&volume).await } else { rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.map(drop) }
                    })
                };
                held(&cluster, path).await;
                kill(child);
                assert!(call.await.unwrap().is_err());
                cluster.array.control().clear_faults().await.unwrap();
                assert_eq!(rig.mounts("pods").len(), 0, "{path}");
                let (child, rig) = start(directory, &cluster);
                if deletes {
                    rig.delete(&volume).await.unwrap();
                    assert_eq!(cluster.volumes().len(), 0);
                } else {
                    rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
                    assert_eq!(rig.mounts("pods").len(), 1, "never stacked");
                    assert!(rig.mounts("mounts").len() <= 1, "never stacked");
                    kill(child);
                    // Adopted by the next one.
                    let (child, rig) = start(directory, &cluster);
                    rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
                    rig.unpublish(&volume, "pod").await.unwrap();
                    assert_eq!(rig.mounts("pods").len(), 0);
                    kill(child);
                    continue;
                }
                kill(child);
            }
        }
    }

    async fn a_driver_killed_in_the_middle_of_a_mount_is_followed_by_one_that_adopts_or_repeats_it(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        for moment in [Moment::Before, Moment::After] {
            let mut volume = String::new();
            for step in ["create", "publish", "delete"] {
                let (child, rig) = start(directory, &cluster);
                forget_mounts(&rig);
                helper::hold(directory, moment);
                let call = {
                    let (rig, volume) = (Rig::of_process(directory, &cluster), volume.clone());
                    tokio::spawn(async move { perform(&rig, step, &volume).await })
                };
                eventually("the mount", || helper::is_held(directory)).await;
                kill(child);
                helper::kill(directory, moment);
                assert!(call.await.unwrap().is_err(), "{moment:?} {step}");
                let (child, rig) = start(directory, &cluster);
                volume = perform(&rig, step, &volume).await.unwrap_or_else(|error| panic!("{moment:?} {step}: {error}"));
                assert!(rig.mounts("mounts").len() <= 1, "{moment:?} {step}: {:?}", rig.mounts("mounts"));
                if step == "publish" {
                    assert_eq!(rig.mounts("pods").len(), 1);
                    rig.unpublish(&volume, "pod").await.unwrap();
                }
                assert_eq!(rig.mounts("pods").len(), 0);
                kill(child);
            }
            assert_eq!(cluster.volumes().len(), 0, "{moment:?}");
        }
    }

    async fn nothing_secret_is_ever_logged(directory: &Path) {
        const PASSWORD: &str = "correct-horse-battery";
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("guarded", &serde_json::json!({ "auth_required": true })).await;
        let control = cluster.array.control();
        control.add_user(0, "quiet-user", PASSWORD, Role::ClusterAdmin).await.unwrap();
        let (child, rig) = start_with(directory, &cluster, &[]);
        let user = cluster.secret_with(&[("username", "quiet-user"), ("password", PASSWORD)]);
        let wrong = cluster.secret_with(&[("username", "quiet-user"), ("password", "wrong-horse-battery")]);
        let rig = rig.with_secret(user);
        let guarded = [("filesystemName", "guarded")];
        let volume = rig.create("volume", GIB / 2, &guarded).await.unwrap().volume_id;
        rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        let refused = Rig::of_process(directory, &cluster).with_secret(wrong).create("other", GIB, &[]).await.unwrap_err();
        control.revoke_tokens(true).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();
        rig.delete(&volume).await.unwrap();
        kill(child);
        let log = std::fs::read_to_string(directory.join("driver.log")).unwrap();
        assert!(log.contains("CreateVolume"), "everything is logged");
        for secret in ["horse-battery", "quiet-user", "token=", "access_token", "refresh_token", "Bearer "] {
            let line = log.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret}");
            assert!(!refused.message().contains(secret), "{refused}");
        }
    }
}

/// One call about one volume; returns its handle.
async fn perform(rig: &Rig, step: &str, volume: &str) -> Result<String, Status> {
    match step {
        "create" => return Ok(rig.create("mounted", GIB, &[]).await?.volume_id),
        "publish" => drop(
            rig.publish(volume, "pod", Mode::MultiNodeMultiWriter)
                .await?,
        ),
        _ => rig.delete(volume).await?,
    }
    Ok(volume.to_owned())
}
