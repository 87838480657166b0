//! Volumes that are filesystems or snapshots, from their creation to their removal.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::control::{Fault, Trouble};
use stowage_sim::weka::state::Kms;
use tonic::Code;

use crate::cluster::Cluster;
use crate::crash::held;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, SNAPSHOTS, expect, map};

const MODE: Mode = Mode::MultiNodeMultiWriter;
const NAME: &str = "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380";
const OBJECT: &str = "pvc-d00ba0fe-UFSZZCT55U6D";
const SEED: &str = "csisnp-seed-";

/// The same class with more parameters.
fn with<'a>(class: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [class, more].concat()
}

isolated! {
    async fn a_filesystem_that_vanishes_while_it_is_made_is_not_waited_for(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.creation_delay = Duration::from_secs(3600)).await;
        let control = cluster.array.control();
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        // The driver's third look, at a filesystem that is being created, is held until somebody has deleted it: the first is for
        // one with another prefix.
        let fault = Fault {
            method: Some("GET".to_owned()),
            path: Some("fileSystems".to_owned()),
            after: 2,
            times: Some(1),
            trouble: Trouble::Hold,
            ..Fault::default()
        };
        control.add_fault(fault).await.unwrap();
        let making = {
            let rig = Rig::of_process(directory, &cluster);
            tokio::spawn(async move { rig.create(NAME, GIB, &FILESYSTEMS).await })
        };
        held(&cluster, "fileSystems").await;
        let uid = control.filesystem_uid(&format!("csivol-{OBJECT}")).await.unwrap().unwrap();
        control.finish().await.unwrap();
        control.turn(|knobs| knobs.creation_delay = 0).await.unwrap();
        cluster.call("DELETE", &format!("fileSystems/{uid}"), None).await;
        while control.filesystem_uid(&format!("csivol-{OBJECT}")).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        control.clear_faults().await.unwrap();
        expect(making.await.unwrap(), Code::Unavailable, &[OBJECT, "disappeared"]);
        rig.create(NAME, GIB, &FILESYSTEMS).await.unwrap();
        rig.stop().await;
    }

    async fn a_volume_is_a_filesystem(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let class = with(&FILESYSTEMS, &[("initialFilesystemSizeGB", "3"), ("ownerUid", "1001"), ("permissions", "2770")]);
        let volume = rig.create(NAME, GIB, &class).await.unwrap();
        assert_eq!(volume.volume_id, format!("weka/v2/csivol-{OBJECT}"));
        assert_eq!(rig.create(NAME, GIB, &class).await.unwrap(), volume, "called twice");
        expect(rig.create(NAME, 2 * GIB, &class).await, Code::AlreadyExists, &[NAME]);
        let name = format!("csivol-{OBJECT}");
        assert_eq!(cluster.filesystem(&name).await["total_budget"], 3_000_000_000_u64);
        assert_eq!(cluster.quota_on(&name, "").await, (GIB, GIB));

        let target = rig.publish(&volume.volume_id, "pod", MODE).await.unwrap();
        let root = std::fs::metadata(&target).unwrap();
        assert_eq!((root.mode() & 0o7777, root.uid()), (0o2770, 1001));
        std::fs::write(target.join("file"), "data").unwrap();
        assert_eq!(rig.expand(&volume.volume_id, 2 * GIB).await.unwrap(), 2 << 30);
        assert_eq!(cluster.filesystem(&name).await["total_budget"], 3_000_000_000_u64, "it has room");
        assert_eq!(rig.expand(&volume.volume_id, 4 * GIB).await.unwrap(), 4 << 30);
        assert_eq!(cluster.filesystem(&name).await["total_budget"], 4 * GIB, "it grew");
        assert_eq!(cluster.quota_on(&name, "").await, (4 * GIB, 4 * GIB));
        assert_eq!(rig.stats(&volume.volume_id, "pod").await.unwrap().usage[0].total, 4 << 30);
        assert_eq!(rig.metric("weka_csi_controller_create_volume_total").len(), 2);
        rig.unpublish(&volume.volume_id, "pod").await.unwrap();
        rig.delete(&volume.volume_id).await.unwrap();
        rig.delete(&volume.volume_id).await.unwrap();
        assert_eq!(cluster.filesystems().await, ["default"]);
        // One of the same name has to wait until the old one is gone.
        let again = loop {
            match rig.create(NAME, GIB, &class).await {
                Ok(volume) => break volume,
                Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
            }
        };
        rig.delete(&again.volume_id).await.unwrap();
        rig.stop().await;
    }

    async fn a_volume_is_a_snapshot(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 4 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let class = with(&SNAPSHOTS, &[("ownerGid", "1002")]);
        let volume = rig.create(NAME, GIB, &class).await.unwrap();
        assert_eq!(volume.volume_id, format!("weka/v2/empty:{OBJECT}"));
        assert_eq!(rig.create(NAME, GIB, &class).await.unwrap(), volume, "called twice");
        let other = rig.create("other", GIB, &class).await.unwrap().volume_id;
        let snapshots = cluster.snapshots().await;
        assert_eq!(snapshots.len(), 3, "{snapshots:?}");
        assert!(snapshots.iter().any(|name| name.starts_with(SEED)), "{snapshots:?}");
        assert_eq!(cluster.quota_on("empty", &format!(".snapshots/{OBJECT}")).await, (GIB, GIB));

        let target = rig.publish(&volume.volume_id, "pod", MODE).await.unwrap();
        let beside = rig.publish(&other, "beside", MODE).await.unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().gid(), 1002);
        std::fs::write(target.join("file"), "data").unwrap();
        assert_eq!(std::fs::read_dir(&beside).unwrap().count(), 0, "volumes are apart");
        let file = std::fs::File::create(target.join("large")).unwrap();
        assert!(file.set_len(2 * GIB).is_err(), "its quota holds");
        assert_eq!(rig.expand(&volume.volume_id, 3 * GIB).await.unwrap(), 3 << 30);
        file.set_len(2 * GIB).unwrap();
        drop(file);
        expect(rig.expand(&volume.volume_id, 5 * GIB).await, Code::OutOfRange, &["`empty`", "--allowautofsexpansion"]);
        rig.modify(&volume.volume_id, &[("capacityEnforcement", "SOFT")]).await.unwrap();

        for (id, pod) in [(&volume.volume_id, "pod"), (&other, "beside")] {
            rig.unpublish(id, pod).await.unwrap();
            rig.delete(id).await.unwrap();
            rig.delete(id).await.unwrap();
        }
        assert_eq!(cluster.snapshots().await.len(), 1, "the seed stays");
        rig.stop().await;
    }

    async fn a_seed_that_is_not_empty_is_never_used(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({})).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let uid = cluster.filesystem("empty").await["uid"].as_str().unwrap().to_owned();
        let files = directory.join("array/filesystems").join(&uid);
        std::fs::write(files.join("root/stray"), "").unwrap();
        expect(rig.create("one", GIB / 2, &SNAPSHOTS).await, Code::FailedPrecondition, &["`empty`", "`stray`", "dir/v1"]);
        assert_eq!(cluster.snapshots().await, Vec::<String>::new(), "nothing was made");
        std::fs::remove_file(files.join("root/stray")).unwrap();
        let first = rig.create("one", GIB / 2, &SNAPSHOTS).await.unwrap().volume_id;
        // Whoever can write to the array can replace the seed.
        let seed = cluster.snapshots().await.into_iter().find(|name| name.starts_with(SEED)).unwrap();
        let access_point = seed.strip_prefix(SEED).unwrap();
        std::fs::write(files.join("snapshots").join(access_point).join("planted"), "").unwrap();
        expect(rig.create("two", GIB / 2, &SNAPSHOTS).await, Code::FailedPrecondition, &[&seed, "`planted`"]);
        assert_eq!(cluster.snapshots().await.len(), 2, "nothing was made");
        rig.delete(&first).await.unwrap();
        rig.stop().await;
        // A seed is found by its access point, whatever it is called.
        std::fs::remove_file(files.join("snapshots").join(access_point).join("planted")).unwrap();
        let rig = Rig::start(directory, &cluster, &["--seedsnapshotprefix=other-", "--newvolumeprefix=v-"]);
        let second = rig.create("two", GIB / 2, &SNAPSHOTS).await.unwrap().volume_id;
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[]);
        rig.expand(&second, GIB).await.unwrap();
        rig.delete(&second).await.unwrap();
        assert_eq!(cluster.snapshots().await, [seed], "with another prefix than it was made with");
        rig.stop().await;
    }

    async fn a_filesystem_is_found_again_under_the_prefix_it_was_made_with(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let id = rig.create(NAME, GIB, &FILESYSTEMS).await.unwrap().volume_id;
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[&ALLOWED[..], &["--newvolumeprefix=v-"]].concat());
        assert_eq!(rig.create(NAME, GIB, &FILESYSTEMS).await.unwrap().volume_id, id);
        expect(rig.create(NAME, 2 * GIB, &FILESYSTEMS).await, Code::AlreadyExists, &[NAME]);
        assert_eq!(cluster.filesystems().await.len(), 2, "no second one is made");
        rig.delete(&id).await.unwrap();
        let other = rig.create(NAME, GIB, &FILESYSTEMS).await.unwrap().volume_id;
        assert_eq!(other, format!("weka/v2/v-{OBJECT}"));
        rig.delete(&other).await.unwrap();
        rig.stop().await;
    }

    async fn a_deletion_that_is_waited_for_ends_when_the_object_is_gone(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        let flags = [&ALLOWED[..], &["--waitforobjectdeletion", "--grpcrequesttimeoutseconds=2"]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        let filesystem = rig.create(NAME, GIB, &FILESYSTEMS).await.unwrap().volume_id;
        let volume = rig.create("snap", GIB, &SNAPSHOTS).await.unwrap().volume_id;
        let snapshot = rig.snapshot("snapshot", &volume).await.unwrap().snapshot_id;
        // Longer than a call, so that a second one finds it on its way out.
        let delay = 3000;
        cluster.array.control().turn(|knobs| knobs.removal_delay = delay).await.unwrap();
        for id in [&filesystem, &snapshot, &volume] {
            let begun = Instant::now();
            loop {
                let deleted = if id.starts_with("wekasnap") {
                    rig.delete_snapshot(id).await
                } else {
                    rig.delete(id).await
                };
                match deleted {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error.code(), Code::DeadlineExceeded, "{id}: {error}"),
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "{id}");
            }
            assert!(begun.elapsed() >= Duration::from_millis(delay), "{id}: it is still there");
        }
        rig.stop().await;
    }

    async fn a_volume_that_was_begun_does_not_keep_the_size_of_its_seed(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        // Somebody limits the whole filesystem, and so its empty snapshot.
        let uid = cluster.array.control().filesystem_uid("empty").await.unwrap().unwrap();
        let root = cluster.call("GET", &format!("fileSystems/{uid}/resolvePath?path=/"), None).await;
        let quota = format!("fileSystems/{uid}/quota/{}", root["inode_id"].as_str().unwrap());
        let limits = json!({ "hard_limit_bytes": 6 * GIB, "soft_limit_bytes": 6 * GIB, "grace_seconds": 0 });
        cluster.call("PUT", &quota, Some(limits)).await;
        let rig = Rig::start(directory, &cluster, &["--grpcrequesttimeoutseconds=3"]);
        cluster.fault("PUT", "fileSystems/*/quota/*", 1000, Trouble::Refuse(503)).await;
        rig.create("begun", GIB, &SNAPSHOTS).await.unwrap_err();
        cluster.array.control().clear_faults().await.unwrap();
        let made = rig.create("begun", GIB, &SNAPSHOTS).await.unwrap();
        assert_eq!(made.capacity_bytes, 1 << 30);
        let access_point = made.volume_id.rsplit_once(':').unwrap().1;
        let path = format!(".snapshots/{access_point}");
        assert_eq!(cluster.quota_on("empty", &path).await, (GIB, GIB));
        assert_eq!(rig.create("begun", GIB, &SNAPSHOTS).await.unwrap(), made, "called twice");
        rig.delete(&made.volume_id).await.unwrap();
        rig.stop().await;
    }

    async fn thin_filesystems_keep_their_ratio_and_shared_ones_grow_where_they_may(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.capacity = 200 * GIB).await;
        let thin = json!({ "total_capacity": 10 * GIB, "thin_provision_min_ssd": GIB, "thin_provision_max_ssd": 4 * GIB });
        cluster.add_filesystem("thin", &thin).await;
        let ssd = |filesystem: &serde_json::Value| (
            filesystem["total_budget"].as_u64().unwrap(),
            filesystem["thin_provisioning_min_ssd"].as_u64().unwrap(),
            filesystem["thin_provisioning_max_ssd"].as_u64().unwrap(),
        );
        let on_thin = [("filesystemName", "thin")];
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &on_thin).await.unwrap().volume_id;
        expect(rig.expand(&volume, 20 * GIB).await, Code::OutOfRange, &["`thin`", "--allowautofsexpansion"]);
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--allowautofsexpansion"]);
        rig.expand(&volume, 20 * GIB).await.unwrap();
        assert_eq!(ssd(&cluster.filesystem("thin").await), (20 * GIB, 2 * GIB, 8 * GIB));
        expect(rig.expand(&volume, 200 * GIB).await, Code::ResourceExhausted, &["`thin`", "enlarge the cluster"]);
        assert_eq!(ssd(&cluster.filesystem("thin").await).0, 20 * GIB, "it is as it was");
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--allowautofsexpansion", "--keepthinprovisioningratioonexpand=false"]);
        rig.create("larger", 40 * GIB, &on_thin).await.unwrap();
        assert_eq!(ssd(&cluster.filesystem("thin").await), (40 * GIB, 2 * GIB, 8 * GIB));
        rig.stop().await;
    }

    async fn filesystems_are_encrypted_as_class_secret_and_cluster_allow(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        let encrypted = with(&FILESYSTEMS, &[("encryptionEnabled", "true")]);
        let without = with(&encrypted, &[("encryptWithoutKms", "true")]);
        let keyed = with(&encrypted, &[("kmsVaultKeyIdentifier", "key-of-class"), ("kmsVaultNamespace", "team")]);
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let refused = rig.create("one", GIB, &encrypted).await;
        expect(refused, Code::FailedPrecondition, &["no KMS", "`encryptWithoutKms`"]);
        expect(rig.create("one", GIB, &without).await, Code::FailedPrecondition, &["--allowencryptionwithoutkms"]);
        let vault = Kms {
            kms_type: "HashiCorpVault".to_owned(),
            params: json!({ "auth_method": "RoleId/SecretId" }).as_object().unwrap().clone(),
        };
        control.set_kms(vault).await.unwrap();
        rig.create("one", GIB, &encrypted).await.unwrap();
        let refused = rig.create("two", GIB, &keyed).await;
        expect(refused, Code::FailedPrecondition, &["`kmsVaultRoleIdForFilesystemEncryption`"]);
        let mut rig = rig;
        rig.secret.extend(map(&[("kmsVaultRoleIdForFilesystemEncryption", "role"), ("kmsVaultSecretIdForFilesystemEncryption", "secret-id")]));
        let id = rig.create("two", GIB, &keyed).await.unwrap().volume_id;
        let made = cluster.filesystem(id.strip_prefix("weka/v2/").unwrap()).await;
        assert_eq!((&made["is_encrypted"], &made["kms_key_identifier"], &made["kms_namespace"]), (&json!(true), &json!("key-of-class"), &json!("team")));
        assert_eq!(cluster.filesystems().await.len(), 3, "what was refused left nothing");
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--allowautofscreation", "--allowencryptionwithoutkms"]);
        rig.create("three", GIB, &without).await.unwrap();
        rig.stop().await;
    }

    async fn what_no_class_or_cluster_allows_is_refused_and_leaves_nothing(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.capacity = 110 * GIB).await;
        cluster.add_filesystem("empty", &json!({})).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let refused = rig.create("one", GIB, &FILESYSTEMS).await;
        expect(refused, Code::PermissionDenied, &["--allowautofscreation", "`filesystemName`"]);
        expect(rig.create("one", GIB, &[("filesystemName", "-")]).await, Code::InvalidArgument, &["`filesystemName`"]);
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let nowhere = with(&FILESYSTEMS[..2], &[("filesystemGroupName", "nowhere")]);
        expect(rig.create("one", GIB, &nowhere).await, Code::InvalidArgument, &["`nowhere`", "`filesystemGroupName`"]);
        let full = rig.create("one", 100 * GIB, &FILESYSTEMS).await;
        expect(full, Code::ResourceExhausted, &["has 9663676416 left", "enlarge the cluster"]);
        // Neither is ours.
        for id in ["weka/v2/default", "weka/v2/empty:nightly", "weka/v2/empty:nightly/data"] {
            expect(rig.delete(id).await, Code::FailedPrecondition, &[id, "Retain"]);
        }
        let uid = cluster.filesystem("empty").await["uid"].clone();
        let taken = json!({ "fs_uid": uid, "name": "nightly", "access_point": OBJECT });
        cluster.call("POST", "snapshots", Some(taken)).await;
        let refused = rig.create(NAME, GIB, &SNAPSHOTS).await;
        expect(refused, Code::AlreadyExists, &[OBJECT, "`empty`", "`nightly`", "delete that snapshot"]);
        expect(rig.delete(&format!("weka/v2/empty:{OBJECT}")).await, Code::FailedPrecondition, &["Retain"]);
        assert_eq!(cluster.snapshots().await, ["nightly"]);
        assert_eq!(cluster.filesystems().await, ["default", "empty"]);
        // One that can be written is not ours either, if it is called otherwise.
        cluster.add_filesystem("second", &json!({})).await;
        let uid = cluster.filesystem("second").await["uid"].clone();
        let taken = json!({ "fs_uid": uid, "name": "scratch", "access_point": OBJECT, "is_writable": true });
        cluster.call("POST", "snapshots", Some(taken)).await;
        let refused = rig.create(NAME, GIB, &with(&SNAPSHOTS, &[("filesystemName", "second")])).await;
        expect(refused, Code::AlreadyExists, &[OBJECT, "`second`", "`scratch`", "delete that snapshot"]);
        expect(rig.delete(&format!("weka/v2/second:{OBJECT}")).await, Code::FailedPrecondition, &["Retain"]);
        assert_eq!(cluster.snapshots().await, ["nightly", "scratch"]);
        let rig = rig.legacy();
        for class in [&FILESYSTEMS[..], &SNAPSHOTS[..]] {
            expect(rig.create("one", GIB, class).await, Code::InvalidArgument, &["API", "secret"]);
        }
        rig.stop().await;
    }

    async fn room_that_others_take_meanwhile_is_said_to_be_gone(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.capacity = 110 * GIB).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        cluster.fault("POST", "fileSystems", 1, Trouble::Hold).await;
        let making = {
            let rig = Rig::of_process(directory, &cluster);
            tokio::spawn(async move { rig.create(NAME, 6 * GIB, &FILESYSTEMS).await })
        };
        held(&cluster, "POST fileSystems").await;
        cluster.add_filesystem("meanwhile", &json!({ "total_capacity": 5 * GIB })).await;
        cluster.array.control().clear_faults().await.unwrap();
        let words = ["has no room", "enlarge the cluster", "Not enough available capacity"];
        expect(making.await.unwrap(), Code::ResourceExhausted, &words);
        assert_eq!(cluster.filesystems().await, ["default", "meanwhile"]);
        rig.stop().await;
    }

    async fn every_backing_lives_on_the_releases_that_have_it(directory: &Path) {
        for (release, snapshots) in [("3.12", None), ("3.13", None), ("4.1", Some(false)), ("4.2", Some(true)), ("4.3", Some(true))] {
            let place = directory.join(release);
            std::fs::create_dir(&place).unwrap();
            let cluster = Cluster::start(&place, |options| options.release = Some(release.parse().unwrap())).await;
            cluster.add_filesystem("empty", &json!({})).await;
            let rig = Rig::start(&place, &cluster, &ALLOWED);
            let filesystem = rig.create(NAME, GIB, &FILESYSTEMS).await;
            if release == "3.12" {
                expect(filesystem, Code::FailedPrecondition, &["3.12", "3.13"]);
                rig.stop().await;
                crate::helper::remove();
                continue;
            }
            let filesystem = filesystem.unwrap_or_else(|error| panic!("{release}: {error}")).volume_id;
            rig.publish(&filesystem, "pod", MODE).await.unwrap();
            rig.expand(&filesystem, 2 * GIB).await.unwrap();
            rig.unpublish(&filesystem, "pod").await.unwrap();
            rig.delete(&filesystem).await.unwrap_or_else(|error| panic!("{release}: {error}"));
            let snapshot = rig.create(NAME, GIB, &SNAPSHOTS).await;
            if snapshots == Some(true) {
                let id = snapshot.unwrap_or_else(|error| panic!("{release}: {error}")).volume_id;
                rig.publish(&id, "pod", MODE).await.unwrap();
                rig.unpublish(&id, "pod").await.unwrap();
                rig.delete(&id).await.unwrap();
            } else {
                expect(snapshot, Code::FailedPrecondition, &[release, "4.2"]);
            }
            rig.stop().await;
            if snapshots == Some(false) {
                let rig = Rig::start(&place, &cluster, &["--alwaysallowsnapshotvolumes"]);
                rig.create(NAME, GIB, &SNAPSHOTS).await.unwrap();
                rig.stop().await;
            }
            crate::helper::remove();
        }
    }
}
