//! Snapshots of volumes, and volumes that are made from them or from each other.

use std::path::Path;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::group_controller_client::GroupControllerClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, GroupControllerGetCapabilitiesRequest,
};
use stowage_sim::weka::control::Trouble;
use tonic::Code;

use crate::cluster::Cluster;
use crate::crash::held;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, SNAPSHOTS, expect, of_snapshot, of_volume};

const MODE: Mode = Mode::MultiNodeMultiWriter;

/// Writes a file into a volume, or reads it.
async fn write(rig: &Rig, id: &str, text: &str) {
    let target = rig.publish(id, "writer", MODE).await.unwrap();
    std::fs::write(target.join("file"), text).unwrap();
    rig.unpublish(id, "writer").await.unwrap();
}

async fn read(rig: &Rig, id: &str) -> String {
    let target = rig.publish(id, "reader", MODE).await.unwrap();
    let text = std::fs::read_to_string(target.join("file")).unwrap();
    rig.unpublish(id, "reader").await.unwrap();
    text
}

isolated! {
    async fn groups_of_volumes_are_refused_with_the_reason(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let mut groups = GroupControllerClient::new(rig.connection.clone());
        let offered = groups.group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest {}).await.unwrap();
        assert_eq!(offered.into_inner().capabilities, []);
        let request = CreateVolumeGroupSnapshotRequest {
            name: "group".to_owned(),
            source_volume_ids: vec![volume],
            secrets: rig.secret.clone(),
            ..CreateVolumeGroupSnapshotRequest::default()
        };
        let refused = groups.create_volume_group_snapshot(request).await;
        expect(refused, Code::Unimplemented, &["one filesystem at a time", "take a snapshot of each volume"]);
        assert_eq!(cluster.snapshots().await, Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_volume_that_is_being_copied_is_not_deleted(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        for (kind, class) in [("dir", &[][..]), ("fs", &FILESYSTEMS[..])] {
            let source = rig.create(kind, GIB, class).await.unwrap().volume_id;
            cluster.fault("POST", "snapshots", 2, Trouble::Hold).await;
            let names = ["one", "two"].map(|name| format!("{kind}-{name}"));
            let copies = names.iter().map(|name| rig.copy(name, GIB, of_volume(&source), class));
            let delete = async {
                // Both are made at the same time.
                held(&cluster, "snapshots").await;
                let deleted = rig.delete(&source).await;
                cluster.array.control().clear_faults().await.unwrap();
                deleted
            };
            let (copies, deleted) = tokio::join!(futures::future::join_all(copies), delete);
            expect(deleted, Code::Aborted, &[&source]);
            for copy in copies {
                rig.delete(&copy.unwrap().volume_id).await.unwrap();
            }
            rig.delete(&source).await.unwrap();
        }
        rig.stop().await;
    }

    async fn a_directory_in_a_snapshot_is_a_directory_also_for_its_snapshots(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let source = rig.create("source", GIB, &[]).await.unwrap().volume_id;
        let copy = rig.copy("copy", GIB, of_volume(&source), &[]).await.unwrap().volume_id;
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[]);
        let before = cluster.snapshots().await;
        // Nobody could restore it.
        let refused = rig.snapshot("snapshot", &copy).await;
        expect(refused, Code::FailedPrecondition, &["--allowsnapshotsofdirectoryvolumes"]);
        assert_eq!(cluster.snapshots().await, before);
        rig.stop().await;
    }

    async fn a_copy_is_never_smaller_than_its_source_also_where_the_array_resolves_no_paths(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.release = Some("4.2.0".parse().unwrap())).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let volume = rig.create("volume", 2 * GIB, &[]).await.unwrap().volume_id;
        let snapshot = rig.snapshot("snapshot", &volume).await.unwrap();
        let again = rig.snapshot("snapshot", &volume).await.unwrap();
        assert_eq!((snapshot.size_bytes, again.size_bytes), (2 << 30, 2 << 30));
        let smaller = rig.copy("smaller", GIB, of_snapshot(&snapshot.snapshot_id), &[]);
        expect(smaller.await, Code::OutOfRange, &["2147483648"]);
        let same = rig.copy("same", 0, of_snapshot(&snapshot.snapshot_id), &[]).await.unwrap();
        assert_eq!(same.capacity_bytes, 2 << 30);
        rig.stop().await;
    }

    async fn a_volume_of_any_kind_is_snapshotted_restored_larger_and_cloned(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        for (kind, class) in [("dir", &[][..]), ("fs", &FILESYSTEMS[..]), ("snap", &SNAPSHOTS[..])] {
            let source = rig.create(&format!("{kind}-source"), GIB, class).await.unwrap().volume_id;
            write(&rig, &source, "one").await;
            let snapshot = rig.snapshot(&format!("{kind}-snapshot"), &source).await.unwrap();
            assert!(snapshot.ready_to_use && snapshot.creation_time.is_some(), "{snapshot:?}");
            assert_eq!((snapshot.size_bytes, &snapshot.source_volume_id), (1 << 30, &source));
            assert_eq!(rig.snapshot(&format!("{kind}-snapshot"), &source).await.unwrap(), snapshot, "called twice");
            write(&rig, &source, "two").await;

            let from = || of_snapshot(&snapshot.snapshot_id);
            let smaller = rig.copy(&format!("{kind}-smaller"), GIB / 2, from(), class).await;
            expect(smaller, Code::OutOfRange, &["1073741824", "at least"]);
            let restored = rig.copy(&format!("{kind}-restored"), 2 * GIB, from(), class).await.unwrap();
            let again = rig.copy(&format!("{kind}-restored"), 2 * GIB, from(), class).await.unwrap();
            assert_eq!(restored, again, "called twice");
            assert!(restored.content_source.is_some() && restored.capacity_bytes == 2 << 30, "{restored:?}");
            let restored = restored.volume_id;
            assert_eq!(read(&rig, &restored).await, "one", "{kind}");
            let clone = rig.copy(&format!("{kind}-clone"), GIB, of_volume(&source), class).await.unwrap().volume_id;
            assert_eq!(read(&rig, &clone).await, "two", "{kind}");
            write(&rig, &clone, "three").await;
            assert_eq!(read(&rig, &source).await, "two", "{kind}: they are apart");

            // Copies are volumes as any other.
            assert_eq!(rig.expand(&restored, 3 * GIB).await.unwrap(), 3 << 30);
            let target = rig.publish(&restored, "pod", MODE).await.unwrap();
            let file = std::fs::File::create(target.join("large")).unwrap();
            assert!(file.set_len(4 * GIB).is_err(), "{kind}: its quota holds");
            file.set_len(2 * GIB).unwrap();
            drop(file);
            rig.unpublish(&restored, "pod").await.unwrap();
            let second = rig.snapshot(&format!("{kind}-second"), &clone).await.unwrap().snapshot_id;
            let copy = rig.copy(&format!("{kind}-copy"), GIB, of_snapshot(&second), class).await.unwrap().volume_id;
            assert_eq!(read(&rig, &copy).await, "three", "{kind}");

            if kind == "fs" {
                expect(rig.delete(&source).await, Code::FailedPrecondition, &["has snapshots"]);
            }
            for id in [&restored, &clone, &copy] {
                rig.delete(id).await.unwrap_or_else(|error| panic!("{kind} {id}: {error}"));
            }
            for id in [&snapshot.snapshot_id, &second] {
                rig.delete_snapshot(id).await.unwrap();
                rig.delete_snapshot(id).await.unwrap();
            }
            rig.delete(&source).await.unwrap();
            let gone = rig.copy(&format!("{kind}-late"), GIB, from(), class).await;
            expect(gone, Code::NotFound, &[&snapshot.snapshot_id]);
        }
        assert_eq!(cluster.filesystems().await, ["default", "empty"]);
        let left = cluster.snapshots().await;
        assert!(left.len() == 1 && left[0].starts_with("csisnp-seed-"), "{left:?}");
        rig.stop().await;
    }

    async fn snapshots_that_another_driver_made_are_restored_and_deleted(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let source = rig.create("source", GIB, &[]).await.unwrap().volume_id;
        write(&rig, &source, "old").await;
        let inner = source.strip_prefix("dir/v1/default/").unwrap();
        let uid = cluster.filesystem("default").await["uid"].clone();
        // As it was called with another prefix, and one that a person made.
        for (name, access_point) in [("csi-snap-snapshot-0b2-QPKWBUIATYGF", "33LX4HAPRTX5"), ("nightly", "nightly-point")] {
            let body = json!({ "fs_uid": uid, "name": name, "access_point": access_point });
            cluster.call("POST", "snapshots", Some(body)).await;
        }
        for (number, id) in [
            format!("wekasnap/v2/default:snapshot-0b2-QPKWBUIATYGF:33LX4HAPRTX5/{inner}"),
            format!("wekasnap/v2/default:nightly:nightly-point/{inner}"),
        ].iter().enumerate() {
            let restored = rig.copy(&format!("restored-{number}"), 2 * GIB, of_snapshot(id), &[]).await.unwrap().volume_id;
            assert!(restored.ends_with(&format!("//{inner}")), "{restored}");
            assert_eq!(read(&rig, &restored).await, "old");
            rig.delete(&restored).await.unwrap();
            rig.delete_snapshot(id).await.unwrap();
        }
        assert_eq!(cluster.snapshots().await, Vec::<String>::new());
        let wrong_name = format!("wekasnap/v2/default:other:33LX4HAPRTX5/{inner}");
        expect(rig.copy("x", GIB, of_snapshot(&wrong_name), &[]).await, Code::NotFound, &[&wrong_name]);
        rig.stop().await;
    }

    async fn snapshots_that_make_no_sense_are_refused_and_leave_nothing(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("other", &json!({})).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let one = rig.create("one", GIB, &[]).await.unwrap().volume_id;
        expect(rig.snapshot("s", &one).await, Code::FailedPrecondition, &["--allowsnapshotsofdirectoryvolumes"]);
        expect(rig.copy("c", GIB, of_volume(&one), &[]).await, Code::FailedPrecondition, &["--allowsnapshotsofdirectoryvolumes"]);
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let two = rig.create("two", GIB, &[]).await.unwrap().volume_id;
        let snapshot = rig.snapshot("s", &one).await.unwrap().snapshot_id;
        expect(rig.snapshot("s", &two).await, Code::AlreadyExists, &["`s`", "another volume"]);
        let elsewhere = [("filesystemName", "other")];
        expect(rig.copy("c", GIB, of_volume(&one), &elsewhere).await, Code::InvalidArgument, &["`default`", "filesystemName: other"]);
        rig.delete(&two).await.unwrap();
        expect(rig.snapshot("late", &two).await, Code::NotFound, &[&two]);
        expect(rig.copy("late", GIB, of_volume(&two), &[]).await, Code::NotFound, &[&two]);
        expect(rig.snapshot("odd", "no-handle").await, Code::InvalidArgument, &["no-handle"]);
        expect(rig.copy("odd", GIB, of_snapshot("no-handle"), &[]).await, Code::NotFound, &["no-handle"]);
        rig.delete_snapshot("no-handle").await.unwrap();
        // A volume is not a snapshot, and may not be deleted as one.
        let clone = rig.copy("clone", GIB, of_volume(&one), &[]).await.unwrap().volume_id;
        let access_point = clone.split([':', '/']).nth(3).unwrap();
        let disguised = format!("wekasnap/v2/default:{access_point}:{access_point}");
        expect(rig.delete_snapshot(&disguised).await, Code::FailedPrecondition, &[&disguised]);
        expect(rig.copy("odd", GIB, of_snapshot(&disguised), &[]).await, Code::FailedPrecondition, &["can be written"]);
        let filesystem = rig.create("fs", GIB, &FILESYSTEMS).await.unwrap().volume_id;
        rig.delete(&filesystem).await.unwrap();
        expect(rig.snapshot("late", &filesystem).await, Code::NotFound, &[&filesystem]);
        rig.delete(&clone).await.unwrap();
        rig.delete_snapshot(&snapshot).await.unwrap();
        assert_eq!(cluster.snapshots().await, Vec::<String>::new());
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--suppresssnapshotcapability", "--suppressrvolumeclonecapability"]);
        expect(rig.snapshot("s", &one).await, Code::Unimplemented, &["--suppresssnapshotcapability"]);
        expect(rig.copy("c", GIB, of_volume(&one), &[]).await, Code::InvalidArgument, &["not supported"]);
        let rig = rig.legacy();
        rig.stop().await;
    }

    async fn a_copy_of_a_volume_without_a_quota_has_none_until_the_array_can_count(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED).legacy();
        let old = rig.create("old", GIB, &[]).await.unwrap().volume_id;
        write(&rig, &old, "data").await;
        let rig = rig.with_secret(cluster.secret());
        let advisory = rig.copy("advisory", 2 * GIB, of_volume(&old), &[]).await.unwrap();
        assert_eq!(rig.copy("advisory", 2 * GIB, of_volume(&old), &[]).await.unwrap(), advisory, "called twice");
        assert_eq!(read(&rig, &advisory.volume_id).await, "data");
        cluster.array.control().add_data_services().await.unwrap();
        let enforced = rig.copy("enforced", 2 * GIB, of_volume(&old), &[]).await.unwrap().volume_id;
        let path = enforced.strip_prefix("weka/v2/default:").unwrap();
        assert_eq!(cluster.quota(&format!(".snapshots/{}", path.replace("//", "/"))).await, (2 * GIB, 2 * GIB));
        rig.stop().await;
    }
}
