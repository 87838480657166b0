//! The Weka client of a node: it refuses, hangs, goes away and serves two clusters.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::state::access::Role;
use tonic::Code;

use crate::cluster::{Cluster, client, secret_of};
use crate::rig::{GIB, Rig};

const MODE: Mode = Mode::MultiNodeMultiWriter;

isolated! {
    async fn a_hard_quota_stops_a_writer_and_a_soft_one_does_not(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        for (enforcement, stops) in [("HARD", true), ("SOFT", false)] {
            let volume = rig.create(enforcement, 1 << 20, &[("capacityEnforcement", enforcement)]).await.unwrap().volume_id;
            let target = rig.publish(&volume, enforcement, MODE).await.unwrap();
            let write = tokio::task::spawn_blocking(move || std::fs::write(target.join("file"), vec![7; 2 << 20]));
            assert_eq!(write.await.unwrap().is_err(), stops, "{enforcement}");
            let usage = rig.stats(&volume, enforcement).await.unwrap();
            assert!(!usage.volume_condition.unwrap().abnormal);
            assert_eq!(usage.usage.len(), 2);
            rig.unpublish(&volume, enforcement).await.unwrap();
            rig.delete(&volume).await.unwrap();
        }
        rig.stop().await;
    }

    async fn a_filesystem_that_asks_for_a_token_gets_it_and_nobody_sees_it(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("guarded", &json!({ "auth_required": true })).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB / 2, &[("filesystemName", "guarded")]).await.unwrap().volume_id;
        rig.publish(&volume, "pod", MODE).await.unwrap();
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!table.contains("token="), "{table}");
        // It is mounted now, but not for everybody.
        cluster.array.control().add_user(0, "reader", "reader", Role::ReadOnly).await.unwrap();
        let reader = cluster.secret_with(&[("username", "reader"), ("password", "reader")]);
        let reader = Rig::of_process(directory, &cluster).with_secret(reader);
        let refused = reader.publish(&volume, "reader", MODE).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        rig.unpublish(&volume, "pod").await.unwrap();
        // Without the API there is no token, and the client refuses.
        let secret = rig.secret.clone();
        let rig = rig.legacy();
        let refused = rig.publish(&volume, "pod", MODE).await.unwrap_err();
        assert!(refused.message().contains("token"), "{refused}");
        let rig = rig.with_secret(secret);
        rig.delete(&volume).await.unwrap();
        rig.stop().await;
    }

    async fn a_hung_filesystem_holds_up_no_other(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("other", &json!({})).await;
        let rig = Rig::start(directory, &cluster, &["--grpcrequesttimeoutseconds=8"]);
        let hung = rig.create("hung", GIB, &[]).await.unwrap().volume_id;
        let waiting = rig.create("waiting", GIB, &[]).await.unwrap().volume_id;
        let well = rig.create("well", GIB / 2, &[("filesystemName", "other")]).await.unwrap().volume_id;
        rig.publish(&hung, "hung", MODE).await.unwrap();
        let control = cluster.array.control();
        let uid = control.filesystem_uid("default").await.unwrap().unwrap();
        control.hang(&uid, true).await.unwrap();
        // It hangs until it is released: whoever had to wait for it would fail.
        let (stuck, ()) = tokio::join!(rig.publish(&waiting, "waiting", MODE), async {
            rig.publish(&well, "well", MODE).await.unwrap();
            rig.stats(&well, "well").await.unwrap();
            rig.unpublish(&well, "well").await.unwrap();
        });
        let stuck = stuck.unwrap_err();
        assert!(matches!(stuck.code(), Code::Unavailable | Code::DeadlineExceeded), "{stuck}");
        rig.unpublish(&hung, "hung").await.unwrap();
        assert!(!rig.target("hung").exists(), "a pod that goes away waits for nobody");
        control.hang(&uid, false).await.unwrap();
        let begun = Instant::now();
        while let Err(error) = rig.publish(&waiting, "waiting", MODE).await {
            assert!(matches!(error.code(), Code::Aborted | Code::Unavailable | Code::DeadlineExceeded), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        rig.unpublish(&waiting, "waiting").await.unwrap();
        rig.stop().await;
    }

    async fn a_client_that_died_is_mounted_anew(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let target = rig.publish(&volume, "pod", MODE).await.unwrap();
        let place = target.clone();
        tokio::task::spawn_blocking(move || std::fs::write(place.join("file"), "kept").unwrap()).await.unwrap();
        abort_all(directory);
        let place = target.clone();
        let dead = tokio::task::spawn_blocking(move || std::fs::metadata(place.join("file")).is_err());
        assert!(dead.await.unwrap(), "the mount is dead");
        assert!(rig.stats(&volume, "pod").await.unwrap().volume_condition.unwrap().abnormal);
        rig.publish(&volume, "pod", MODE).await.unwrap();
        let place = target.clone();
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(place.join("file")).unwrap());
        assert_eq!(text.await.unwrap(), "kept");
        let points = rig.mounts("");
        assert_eq!(points.iter().collect::<HashSet<_>>().len(), points.len(), "never stacked: {points:?}");
        // What died meanwhile is taken away from its pod like any other.
        abort_all(directory);
        rig.unpublish(&volume, "pod").await.unwrap();
        rig.delete(&volume).await.unwrap();
        assert_eq!(cluster.volumes().len(), 0);
        rig.stop().await;
    }

    async fn organizations_may_have_filesystems_of_the_same_name(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        control.add_organization(7, "tenant").await.unwrap();
        control.add_user(7, "boss", "boss", Role::OrgAdmin).await.unwrap();
        let body = json!({ "name": "default", "group_name": "default", "total_capacity": 2 * GIB });
        cluster.add_filesystem_as(["boss", "boss", "tenant"], body).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let credentials = [("username", "boss"), ("password", "boss"), ("organization", "tenant")];
        let tenant = Rig::of_process(directory, &cluster).with_secret(cluster.secret_with(&credentials));
        let id = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        assert_eq!(tenant.create("volume", GIB, &[]).await.unwrap().volume_id, id);
        let ours = rig.publish(&id, "ours", MODE).await.unwrap();
        let theirs = tenant.publish(&id, "theirs", MODE).await.unwrap();
        let seen = tokio::task::spawn_blocking(move || {
            std::fs::write(ours.join("file"), "ours").unwrap();
            theirs.join("file").exists()
        });
        assert!(!seen.await.unwrap(), "each sees its own filesystem");
        rig.unpublish(&id, "ours").await.unwrap();
        tenant.unpublish(&id, "theirs").await.unwrap();
        tenant.delete(&id).await.unwrap();
        assert_eq!(cluster.volumes().len(), 1, "the other's volume stays");
        rig.stop().await;
    }

    async fn two_clusters_are_served_at_once_each_by_its_container(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let elsewhere = directory.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let second = Cluster::start_array(&elsewhere, |_| {}).await;
        let _client = client(directory, &second, "second").await;
        let rig = Rig::start(directory, &cluster, &[]);
        let other = Rig::of_process(directory, &cluster).with_secret(secret_of(&second, &[("localContainerName", "second")]));
        let first = Rig::of_process(directory, &cluster).with_secret(cluster.secret_with(&[("localContainerName", "client")]));
        let on_first = first.create("volume", GIB, &[]).await.unwrap().volume_id;
        let on_second = other.create("volume", GIB, &[]).await.unwrap().volume_id;
        assert_eq!(on_first, on_second, "the same handle on two clusters");
        let one = first.publish(&on_first, "one", MODE).await.unwrap();
        let two = other.publish(&on_second, "two", MODE).await.unwrap();
        let read = tokio::task::spawn_blocking(move || {
            std::fs::write(one.join("file"), "first").unwrap();
            two.join("file").exists()
        });
        assert!(!read.await.unwrap(), "they are not the same directory");
        assert_eq!(cluster.volumes().len(), 1);
        first.unpublish(&on_first, "one").await.unwrap();
        other.unpublish(&on_second, "two").await.unwrap();
        // The cluster knows which of the containers is its own.
        let told = Rig::of_process(directory, &cluster).with_secret(cluster.secret());
        told.publish(&on_first, "three", MODE).await.unwrap();
        told.unpublish(&on_first, "three").await.unwrap();
        rig.stop().await;
    }
}

/// Cuts the connections between the kernel and the client, as its death does.
fn abort_all(directory: &Path) {
    let control = directory.join("fusectl");
    std::fs::create_dir_all(&control).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "fusectl", "none"])
        .arg(&control)
        .status()
        .unwrap();
    assert!(mounted.success());
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    // Only those of this test: the machine may have others.
    let ours = table.lines().filter(|line| {
        let point = Path::new(line.split(' ').nth(4).unwrap());
        line.contains(" fuse.wekafs ") && point.starts_with(directory)
    });
    for line in ours {
        let device = line.split(' ').nth(2).unwrap();
        let (_, minor) = device.split_once(':').unwrap();
        let abort = control.join(minor).join("abort");
        if abort.exists() {
            std::fs::write(abort, "1").unwrap();
        }
    }
    assert!(
        Command::new("umount")
            .arg(&control)
            .status()
            .unwrap()
            .success()
    );
}
