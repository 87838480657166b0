//! `kill -9` at every step that changes the array: filesystems and snapshots that a call began are found and finished by
//! the same call, and what is deleted afterwards is gone.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use devcluster::isolated;
use serde_json::json;
use stowage_sim::weka::control::{Fault, Trouble};
use tonic::Status;

use crate::cluster::Cluster;
use crate::crash::{HELD, forget_mounts, held, kill, start_with};
use crate::helper::{self, Moment};
use crate::nfs::BY_NFS;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, SNAPSHOTS, eventually, of_snapshot, of_volume};

/// A call whose driver is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    CreateFilesystem,
    DeleteFilesystem,
    CreateSnapshotVolume,
    Snapshot,
    DeleteSnapshot,
    Restore,
    Clone,
    DeleteCopy,
}

/// Where a call can be held: a request of it, and how many like it come before.
type Step = (&'static str, &'static str, u32);

const POST_SNAPSHOT: Step = ("POST", "snapshots", 0);
const RESOLVE: Step = ("GET", "fileSystems/*/resolvePath", 0);
const QUOTA: Step = ("PUT", "fileSystems/*/quota/*", 0);
const TOKEN: Step = ("GET", "fileSystems/*/mountToken", 0);

fn steps() -> Vec<(Call, Step)> {
    let table: [(Call, &[Step]); 8] = [
        (
            Call::CreateFilesystem,
            &[
                ("GET", "cluster", 0),
                ("POST", "fileSystems", 0),
                ("GET", "fileSystems", 2),
                TOKEN,
                RESOLVE,
                QUOTA,
            ],
        ),
        (
            Call::DeleteFilesystem,
            &[("GET", "snapshots", 0), ("DELETE", "fileSystems/*", 0)],
        ),
        // The first snapshot is the seed.
        (
            Call::CreateSnapshotVolume,
            &[POST_SNAPSHOT, ("POST", "snapshots", 1), RESOLVE, QUOTA],
        ),
        (Call::Snapshot, &[("GET", "snapshots", 1), POST_SNAPSHOT]),
        (Call::DeleteSnapshot, &[("DELETE", "snapshots/*", 0)]),
        (Call::Restore, &[POST_SNAPSHOT, QUOTA]),
        (Call::Clone, &[POST_SNAPSHOT, QUOTA]),
        (Call::DeleteCopy, &[("DELETE", "snapshots/*", 0)]),
    ];
    let each = |(call, steps): (Call, &'static [Step])| steps.iter().map(move |step| (call, *step));
    table.into_iter().flat_map(each).collect()
}

/// What exists before a call, and is there again after what it made was deleted.
#[derive(Clone)]
struct Scene {
    volume: String,
    snapshot: String,
    /// The class of both, and of copies of them.
    class: &'static [(&'static str, &'static str)],
    /// Made for a call that deletes it.
    doomed: String,
}

impl Scene {
    async fn prepare(&mut self, rig: &Rig, call: Call) {
        self.doomed = match call {
            Call::DeleteFilesystem => {
                rig.create("doomed", GIB, &FILESYSTEMS)
                    .await
                    .unwrap()
                    .volume_id
            }
            Call::DeleteSnapshot => {
                rig.snapshot("doomed", &self.volume)
                    .await
                    .unwrap()
                    .snapshot_id
            }
            Call::DeleteCopy => {
                let copy = rig
                    .copy("doomed", GIB, of_volume(&self.volume), self.class)
                    .await;
                copy.unwrap().volume_id
            }
            _ => String::new(),
        };
    }

    /// The call; returns what it made.
    async fn perform(&self, rig: &Rig, call: Call) -> Result<String, Status> {
        let volume = match call {
            Call::CreateFilesystem => rig.create("filesystem", GIB, &FILESYSTEMS).await?,
            Call::CreateSnapshotVolume => rig.create("snapshot", GIB / 2, &SNAPSHOTS).await?,
            Call::Restore => {
                let source = of_snapshot(&self.snapshot);
                rig.copy("restored", 2 * GIB, source, self.class).await?
            }
            Call::Clone => {
                rig.copy("clone", 2 * GIB, of_volume(&self.volume), self.class)
                    .await?
            }
            Call::Snapshot => return Ok(rig.snapshot("taken", &self.volume).await?.snapshot_id),
            Call::DeleteSnapshot => {
                rig.delete_snapshot(&self.doomed).await?;
                return Ok(String::new());
            }
            Call::DeleteFilesystem | Call::DeleteCopy => {
                rig.delete(&self.doomed).await?;
                return Ok(String::new());
            }
        };
        Ok(volume.volume_id)
    }

    async fn clean_up(&self, rig: &Rig, call: Call, made: &str) {
        match call {
            Call::Snapshot => rig.delete_snapshot(made).await.unwrap(),
            _ if made.is_empty() => {}
            _ => {
                rig.expand(made, 3 * GIB).await.unwrap();
                rig.delete(made).await.unwrap();
            }
        }
    }
}

/// A driver that is killed at steps of calls, and what must be left each time: what was there before.
struct Kills<'a> {
    directory: &'a Path,
    cluster: &'a Cluster,
    flags: &'a [&'static str],
    scene: Scene,
}

impl Kills<'_> {
    /// Kills the driver at each of these steps.
    async fn at(mut self, steps: Vec<(Call, Step)>) {
        let (directory, cluster) = (self.directory, self.cluster);
        let control = cluster.array.control();
        let (mut child, mut rig) = start_with(directory, cluster, self.flags);
        let before = [cluster.filesystems().await, cluster.snapshots().await];
        for (call, (method, path, after)) in steps {
            // What is done before the answer makes no difference to those who only ask.
            let troubles = [Trouble::DoneButDelayed(HELD), Trouble::Delay(HELD)];
            for trouble in &troubles[..if method == "GET" { 1 } else { 2 }] {
                let step = format!("{call:?} {method} {path} {after} {trouble:?}");
                self.scene.prepare(&rig, call).await;
                forget_mounts(&rig);
                let fault = Fault {
                    method: Some(method.to_owned()),
                    path: Some(path.to_owned()),
                    after,
                    times: Some(1),
                    trouble: trouble.clone(),
                    ..Fault::default()
                };
                control.add_fault(fault).await.unwrap();
                let held_call = {
                    let (scene, rig) = (self.scene.clone(), Rig::of_process(directory, cluster));
                    tokio::spawn(async move { scene.perform(&rig, call).await })
                };
                held(cluster, &step).await;
                kill(child);
                assert!(held_call.await.unwrap().is_err(), "{step}");
                control.clear_faults().await.unwrap();
                (child, rig) = self.finish(call, &before, &step).await;
            }
        }
        kill(child);
    }

    /// Kills the driver in the middle of a mount: before the kernel has it, and afterwards.
    async fn while_mounting(self, calls: &[Call]) {
        let (directory, cluster) = (self.directory, self.cluster);
        let (mut child, mut rig) = start_with(directory, cluster, self.flags);
        let before = [cluster.filesystems().await, cluster.snapshots().await];
        for &call in calls {
            for moment in [Moment::Before, Moment::After] {
                let step = format!("{call:?} {moment:?} the mount");
                forget_mounts(&rig);
                helper::hold(directory, moment);
                let held_call = {
                    let (scene, rig) = (self.scene.clone(), Rig::of_process(directory, cluster));
                    tokio::spawn(async move { scene.perform(&rig, call).await })
                };
                eventually("the mount", || helper::is_held(directory)).await;
                kill(child);
                helper::kill(directory, moment);
                assert!(held_call.await.unwrap().is_err(), "{step}");
                (child, rig) = self.finish(call, &before, &step).await;
            }
        }
        kill(child);
    }

    /// Another driver ends what one began that was killed.
    async fn finish(&self, call: Call, before: &[Vec<String>; 2], step: &str) -> (Child, Rig) {
        let (child, rig) = start_with(self.directory, self.cluster, self.flags);
        let made = self.scene.perform(&rig, call).await;
        let made = made.unwrap_or_else(|error| panic!("{step}: {error}"));
        let again = self.scene.perform(&rig, call).await;
        assert_eq!(again.unwrap(), made, "{step}: called twice");
        self.scene.clean_up(&rig, call, &made).await;
        self.assert_left(before, step).await;
        (child, rig)
    }

    async fn assert_left(&self, [filesystems, snapshots]: &[Vec<String>; 2], step: &str) {
        let cluster = self.cluster;
        assert_eq!(cluster.filesystems().await, *filesystems, "{step}");
        let mut left = cluster.snapshots().await;
        let is_seed = |name: &mut String| name.starts_with("csisnp-seed-");
        let seeds: Vec<_> = left.extract_if(.., is_seed).collect();
        let mut snapshots = snapshots.clone();
        snapshots.retain(|name| !name.starts_with("csisnp-seed-"));
        assert_eq!(left, snapshots, "{step}");
        let permissions = cluster.call("GET", "nfs/permissions", None).await;
        for permission in permissions.as_array().unwrap() {
            let of = permission["filesystem"].as_str().unwrap();
            let is_there = filesystems.iter().any(|name| name == of);
            assert!(is_there, "{step}: {permission}");
        }
        forget_seeds(cluster, &seeds).await;
    }
}

/// A volume of a class and a snapshot of it.
async fn scene(
    directory: &Path,
    cluster: &Cluster,
    flags: &[&'static str],
    class: &'static [(&'static str, &'static str)],
) -> Scene {
    let rig = Rig::start(directory, cluster, flags);
    let volume = rig.create("volume", GIB, class).await.unwrap().volume_id;
    let snapshot = rig.snapshot("snapshot", &volume).await.unwrap().snapshot_id;
    rig.stop().await;
    Scene {
        volume,
        snapshot,
        class,
        doomed: String::new(),
    }
}

isolated! {
    async fn a_driver_killed_at_any_step_leaves_no_filesystem_and_no_snapshot(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({})).await;
        let scene = scene(directory, &cluster, &ALLOWED, &[]).await;
        let kills = Kills { directory, cluster: &cluster, flags: &ALLOWED, scene };
        kills.at(steps()).await;
    }

    async fn so_it_is_with_snapshots_and_copies_of_filesystems_and_of_snapshots(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        let sources: [&[(&str, &str)]; 2] = [&FILESYSTEMS, &SNAPSHOTS];
        for class in sources {
            let scene = scene(directory, &cluster, &ALLOWED, class).await;
            let (volume, snapshot) = (scene.volume.clone(), scene.snapshot.clone());
            let kills = Kills { directory, cluster: &cluster, flags: &ALLOWED, scene };
            let of_copies = |(call, _): &(Call, Step)| {
                use Call::{Clone, DeleteCopy, DeleteSnapshot, Restore, Snapshot};
                matches!(call, Snapshot | DeleteSnapshot | Restore | Clone | DeleteCopy)
            };
            kills.at(steps().into_iter().filter(of_copies).collect()).await;
            let rig = Rig::start(directory, &cluster, &ALLOWED);
            rig.delete_snapshot(&snapshot).await.unwrap();
            rig.delete(&volume).await.unwrap();
            rig.stop().await;
        }
    }

    async fn so_it_is_in_the_middle_of_a_mount(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({})).await;
        let scene = scene(directory, &cluster, &ALLOWED, &[]).await;
        let kills = Kills { directory, cluster: &cluster, flags: &ALLOWED, scene };
        kills.while_mounting(&[Call::CreateFilesystem, Call::CreateSnapshotVolume]).await;
    }

    async fn so_it_is_with_permissions_for_nfs(directory: &Path) {
        let (cluster, _host) = crate::nfs::start(directory, None).await;
        crate::nfs::add_interface_group(&cluster, "first").await;
        let scene = scene(directory, &cluster, &BY_NFS, &[]).await;
        let kills = Kills { directory, cluster: &cluster, flags: &BY_NFS, scene };
        kills.at(vec![
            (Call::CreateFilesystem, ("POST", "nfs/permissions", 0)),
            (Call::CreateFilesystem, QUOTA),
            (Call::DeleteFilesystem, ("DELETE", "nfs/permissions/*", 0)),
            (Call::DeleteFilesystem, ("DELETE", "fileSystems/*", 0)),
        ])
        .await;
    }
}

/// The next volume is to need a new one.
async fn forget_seeds(cluster: &Cluster, seeds: &[String]) {
    let all = cluster.call("GET", "snapshots", None).await;
    let all = all.as_array().unwrap().iter();
    for seed in all.filter(|one| seeds.iter().any(|name| one["name"] == name.as_str())) {
        let path = format!("snapshots/{}", seed["uid"].as_str().unwrap());
        cluster.call("DELETE", &path, None).await;
    }
    // What is on its way out is in the way of another of its name.
    for (path, field) in [("snapshots", "isRemoving"), ("fileSystems", "is_removing")] {
        loop {
            let all = cluster.call("GET", path, None).await;
            if all.as_array().unwrap().iter().all(|one| one[field] != true) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
