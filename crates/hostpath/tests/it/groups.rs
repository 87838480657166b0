//! Snapshots of several volumes at one moment: all of them, or none.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stowage_csi::proto::csi::{Snapshot, VolumeGroupSnapshot};
use tonic::Code;

use crate::copies::Writer;
use crate::crash;
use crate::rig::{Rig, block, filesystem, from_snapshot};
use crate::support::{MIB, disk, isolated, noise, unmount};

fn ids(group: &VolumeGroupSnapshot) -> Vec<String> {
    let members = group.snapshots.iter();
    members.map(|member| member.snapshot_id.clone()).collect()
}

fn member<'a>(group: &'a VolumeGroupSnapshot, volume: &str) -> &'a Snapshot {
    let mut members = group.snapshots.iter();
    members
        .find(|member| member.source_volume_id == volume)
        .unwrap()
}

/// What `file` holds in a volume made from this member.
async fn restored(rig: &Rig, name: &str, member: &Snapshot, kind: &str) -> Vec<u8> {
    let capability = filesystem(kind);
    let source = from_snapshot(&member.snapshot_id);
    let volume = rig.create_from(name, 0, &capability, source).await.unwrap();
    rig.stage(&volume.volume_id, &capability).await.unwrap();
    let target = rig
        .publish(&volume.volume_id, name, &capability)
        .await
        .unwrap();
    let content = fs::read(target.join("file")).unwrap();
    rig.put_away(&volume.volume_id, name).await;
    content
}

/// Writes one number after the other, each to the first file before it writes it to the second.
fn counter(first: PathBuf, second: PathBuf) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let thread = std::thread::spawn(move || {
        for number in 0_u64.. {
            for path in [&first, &second] {
                // Renamed, so that there is never half a number.
                let fresh = path.with_extension("new");
                fs::write(&fresh, number.to_string()).unwrap();
                fs::rename(&fresh, path).unwrap();
            }
            if told.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    (stop, thread)
}

/// A group of two volumes in use, whose writer depends on their order, and one at rest.
async fn the_moment_is_the_same(rig: &Rig) {
    let (first, first_target) = rig.in_use("first", 300 * MIB, &filesystem("ext4")).await;
    let (second, second_target) = rig.in_use("second", 400 * MIB, &filesystem("xfs")).await;
    let idle = rig
        .create("idle", 64 * MIB, &filesystem("ext4"))
        .await
        .unwrap()
        .volume_id;
    let (stop, counting) = counter(first_target.join("file"), second_target.join("file"));
    crash::wait_until("the first numbers", || second_target.join("file").exists());
    for round in 0..4 {
        let name = format!("group-{round}");
        let group = rig
            .take_group(&name, &[&first, &second, &idle])
            .await
            .unwrap();
        assert!(group.ready_to_use && group.snapshots.len() == 3);
        let number = async |volume: &str, kind| {
            let found = restored(rig, "copy", member(&group, volume), kind).await;
            String::from_utf8(found).unwrap().parse::<u64>().unwrap()
        };
        let (a, b) = (number(&first, "ext4").await, number(&second, "xfs").await);
        assert!(
            a == b || a == b + 1,
            "the second volume is of another moment: {a}, {b}"
        );
        rig.delete_group(&group.group_snapshot_id, ids(&group))
            .await
            .unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    counting.join().unwrap();
    rig.put_away(&first, "first").await;
    rig.put_away(&second, "second").await;
    rig.delete(&idle).await.unwrap();
    assert_eq!(rig.files(), Vec::<PathBuf>::new());
}

isolated! {
    async fn a_group_is_of_one_moment_by_freezing(directory: &Path) {
        let state = disk(directory, "ext4", 2048 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        the_moment_is_the_same(&rig).await;
        rig.stop().await;
        unmount(&state);
    }

    async fn a_group_is_of_one_moment_by_reflink(directory: &Path) {
        let state = disk(directory, "btrfs", 2048 * MIB);
        let rig = Rig::start(directory, &[&format!("--statedir={}", state.display())]);
        the_moment_is_the_same(&rig).await;
        rig.stop().await;
        unmount(&state);
    }

    async fn a_group_is_found_by_its_name_and_goes_as_a_whole(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let one = rig.create("one", 64 * MIB, &filesystem("")).await.unwrap().volume_id;
        let two = rig.create("two", 64 * MIB, &block()).await.unwrap().volume_id;
        let group = rig.take_group("group", &[&one, &two]).await.unwrap();
        // Another order, and one named twice: the same volumes.
        assert_eq!(rig.take_group("group", &[&two, &one, &two]).await.unwrap(), group);
        assert_eq!(rig.get_group(&group.group_snapshot_id, ids(&group)).await.unwrap(), group);
        let status = rig.take_group("group", &[&one]).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        let mut listed = rig.snapshots(Default::default()).await;
        listed.sort_by(|a, b| a.source_volume_id.cmp(&b.source_volume_id));
        assert_eq!(listed, group.snapshots, "members are listed, and tell of their group");

        let status = rig.delete_snapshot(&group.snapshots[0].snapshot_id).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        for wrong in [vec![], ids(&group)[..1].to_vec(), vec!["nonsense".to_owned()]] {
            for status in [
                rig.get_group(&group.group_snapshot_id, wrong.clone()).await.unwrap_err(),
                rig.delete_group(&group.group_snapshot_id, wrong.clone()).await.unwrap_err(),
            ] {
                assert_eq!(status.code(), Code::InvalidArgument, "{wrong:?}: {status}");
            }
        }
        rig.delete(&one).await.unwrap();
        assert_eq!(rig.take_group("group", &[&one, &two]).await.unwrap(), group, "it outlives its volumes");
        for _ in 0..2 {
            rig.delete_group(&group.group_snapshot_id, ids(&group)).await.unwrap();
        }
        let status = rig.get_group(&group.group_snapshot_id, ids(&group)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
        rig.delete(&two).await.unwrap();
        assert_eq!(rig.files(), Vec::<PathBuf>::new());
        rig.stop().await;
    }

    async fn a_group_that_cannot_be_taken_leaves_nothing(directory: &Path) {
        let rig = Rig::start(directory, &["--max-group-freeze=0"]);
        let (mounted, target) = rig.in_use("mounted", 64 * MIB, &filesystem("")).await;
        let idle = rig.create("idle", 64 * MIB, &filesystem("")).await.unwrap().volume_id;
        let (disk, _) = rig.in_use("disk", 8 * MIB, &block()).await;
        let (other_disk, _) = rig.in_use("other-disk", 8 * MIB, &block()).await;
        let missing = format!("vol-{}-node-1", "0".repeat(32));
        let elsewhere = idle.replace("node-1", "node-2");
        let before = rig.files().len();
        let writer = Writer::start(&target);
        for (volumes, code, says) in [
            (vec![idle.as_str(), &missing], Code::NotFound, "does not exist"),
            (vec![&missing, &idle], Code::NotFound, "does not exist"),
            (vec![&idle, "nonsense"], Code::NotFound, "does not exist"),
            (vec![&idle, &elsewhere], Code::FailedPrecondition, "is on node `node-2`"),
            (vec![&idle, &disk], Code::FailedPrecondition, "unpublish it first"),
            (vec![&disk, &other_disk], Code::FailedPrecondition, "unpublish all of them but one"),
            (vec![&idle, &mounted], Code::FailedPrecondition, "--max-group-freeze"),
        ] {
            let status = rig.take_group("group", &volumes).await.unwrap_err();
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().contains(says), "{status}");
            assert_eq!(rig.files().len(), before, "{status}");
            // Nothing stays frozen. The first of them may have been under way before.
            let written = writer.written.load(Ordering::Relaxed);
            crash::wait_until("another write", || writer.written.load(Ordering::Relaxed) >= written + 2);
        }
        writer.stop();
        // The name is still free.
        let group = rig.take_group("group", &[&idle]).await.unwrap();
        rig.delete_group(&group.group_snapshot_id, ids(&group)).await.unwrap();
        for (id, pod) in [(&mounted, "mounted"), (&disk, "disk"), (&other_disk, "other-disk")] {
            rig.put_away(id, pod).await;
        }
        rig.stop().await;
    }

    async fn a_driver_that_dies_at_any_moment_leaves_a_whole_group_or_none(directory: &Path) {
        let state = directory.join("state");
        let mut child = crash::start_with(directory, &[]);
        let mut rig = Rig::of_process(directory, state.clone());
        let mut volumes = Vec::new();
        for name in ["first", "second"] {
            let (id, target) = rig.in_use(name, 256 * MIB, &filesystem("")).await;
            fs::write(target.join("file"), noise(100 * MIB as usize, 3)).unwrap();
            volumes.push((id, target));
        }
        let (mut taken, mut frozen) = (0, 0);
        for round in 0..10_u64 {
            let call = {
                let rig = Rig::of_process(directory, state.clone());
                let (one, two) = (volumes[0].0.clone(), volumes[1].0.clone());
                tokio::spawn(async move {
                    let group = rig.take_group("group", &[&one, &two]).await?;
                    rig.delete_group(&group.group_snapshot_id, ids(&group)).await
                })
            };
            tokio::time::sleep(Duration::from_millis(20 + round * 60)).await;
            frozen += crash::entries(&state.join("frozen")).len();
            crash::kill(&mut child);
            let _ = call.await.unwrap();
            child = crash::start_with(directory, &[]);
            rig = Rig::of_process(directory, state.clone());
            let members = rig.snapshots(Default::default()).await;
            let files = rig.files();
            match members.len() {
                0 => assert_eq!(files.len(), 4, "round {round}: {files:?}"),
                2 => assert_eq!(files.len(), 10, "round {round}: {files:?}"),
                some => panic!("round {round}: {some} of 2 members"),
            }
            for (_, target) in &volumes {
                fs::write(target.join("beat"), "not frozen").unwrap();
            }
            if let Some(one) = members.first() {
                taken += 1;
                let all = members.iter().map(|member| member.snapshot_id.clone()).collect();
                rig.delete_group(&one.group_snapshot_id, all).await.unwrap();
            }
        }
        println!("{taken} groups were there after a crash, {frozen} filesystems were frozen at one");
        for ((id, _), pod) in volumes.iter().zip(["first", "second"]) {
            rig.put_away(id, pod).await;
        }
        assert_eq!(rig.files(), Vec::<PathBuf>::new());
        crash::kill(&mut child);
    }
}
