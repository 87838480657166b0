//! A volume from its creation to its removal, over the API and without.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::control::{Fault, Trouble};
use tonic::Code;

use crate::cluster::{Cluster, TRASH, names};
use crate::rig::{GIB, Rig, eventually};

const NAME: &str = "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380";
const DIRECTORY: &str =
    "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c";

/// A hard limit that is none.
const NONE: u64 = i64::MAX.unsigned_abs();

isolated! {
    async fn a_volume_lives_over_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let owner = [("permissions", "2770"), ("ownerUid", "1001"), ("ownerGid", "1002"), ("mountOptions", "forcedirect,acl")];
        let volume = rig.create(NAME, GIB, &owner).await.unwrap();
        assert_eq!(volume.volume_id, format!("dir/v1/default/csi-volumes/{DIRECTORY}"));
        assert_eq!(volume.capacity_bytes, 1 << 30);
        assert_eq!(volume.volume_context["mountOptions"], "acl,forcedirect");
        assert!(volume.volume_context.contains_key("provisionedByCsiVersion"));
        assert_eq!(volume.accessible_topology[0].segments["topology.csi.weka.io/global"], "true");
        assert_eq!(cluster.volumes(), [DIRECTORY]);
        let metadata = std::fs::metadata(cluster.files.join("csi-volumes").join(DIRECTORY)).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o2770);
        assert_eq!((metadata.uid(), metadata.gid()), (1001, 1002));
        assert_eq!(cluster.quota(&format!("csi-volumes/{DIRECTORY}")).await, (GIB, GIB));
        assert_eq!(rig.create(NAME, GIB, &owner).await.unwrap(), volume, "called twice");
        assert_eq!(rig.create(NAME, 2 * GIB, &owner).await.unwrap_err().code(), Code::AlreadyExists);

        let id = &volume.volume_id;
        let target = rig.publish(id, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        rig.publish(id, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        std::fs::write(target.join("file"), "data").unwrap();
        let read_only = rig.publish(id, "reader", Mode::MultiNodeReaderOnly).await.unwrap();
        assert_eq!(std::fs::read_to_string(read_only.join("file")).unwrap(), "data");
        assert!(std::fs::write(read_only.join("other"), "").is_err(), "it is read-only");

        assert_eq!(rig.expand(id, 3 * GIB).await.unwrap(), 3 << 30);
        assert_eq!(rig.expand(id, GIB).await.unwrap(), 3 << 30, "it is large enough");
        rig.modify(id, &[("capacityEnforcement", "SOFT")]).await.unwrap();
        assert_eq!(rig.expand(id, 4 * GIB).await.unwrap(), 4 << 30);
        assert_eq!(cluster.quota(&format!("csi-volumes/{DIRECTORY}")).await, (NONE, 4 * GIB), "soft stays soft");
        assert_eq!(rig.modify(id, &[("permissions", "0777")]).await.unwrap_err().code(), Code::InvalidArgument);

        for pod in ["pod", "reader"] {
            rig.unpublish(id, pod).await.unwrap();
            rig.unpublish(id, pod).await.unwrap();
            assert!(!rig.target(pod).exists());
        }
        rig.delete(id).await.unwrap();
        rig.delete(id).await.unwrap();
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        eventually("the removal of the data", || cluster.trash().is_empty()).await;
        rig.stop().await;
    }

    async fn a_filesystem_is_taken_as_it_is_now(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let on_small = [("filesystemName", "small")];
        cluster.add_filesystem("small", &json!({})).await;
        rig.create("first", GIB, &on_small).await.unwrap();
        let refused = rig.create("larger", 2 * GIB, &on_small).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange);
        let control = cluster.array.control();
        let uid = control.filesystem_uid("small").await.unwrap().unwrap();
        let larger = json!({ "total_capacity": 4 * GIB });
        cluster.call("PUT", &format!("fileSystems/{uid}"), Some(larger)).await;
        rig.create("larger", 2 * GIB, &on_small).await.unwrap();

        // Another of the same name: a repeated call must not wait until the old one is forgotten by itself.
        cluster.call("DELETE", &format!("fileSystems/{uid}"), None).await;
        while control.filesystem_uid("small").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        cluster.add_filesystem("small", &json!({})).await;
        // The first call may still believe in it.
        if rig.create("first", GIB, &on_small).await.is_err() {
            rig.create("first", GIB, &on_small).await.unwrap();
        }
        rig.stop().await;
    }

    async fn a_volume_lives_on_every_release(directory: &Path) {
        for (release, has_quotas) in [("3.8", false), ("3.13", true), ("3.14", true), ("4.0", true), ("4.2", true), ("4.3", true), ("4.4.7", true), ("5.1", true)] {
            let place = directory.join(release);
            std::fs::create_dir(&place).unwrap();
            let cluster = Cluster::start(&place, |options| options.release = Some(release.parse().unwrap())).await;
            let rig = Rig::start(&place, &cluster, &[]);
            let id = rig.create(NAME, GIB, &[]).await.unwrap_or_else(|error| panic!("{release}: {error}")).volume_id;
            rig.create(NAME, GIB, &[]).await.unwrap();
            rig.publish(&id, "pod", Mode::MultiNodeMultiWriter).await.unwrap_or_else(|error| panic!("{release}: {error}"));
            assert_eq!(rig.expand(&id, 2 * GIB).await.unwrap(), 2 << 30);
            let soft = rig.modify(&id, &[("capacityEnforcement", "SOFT")]).await;
            assert_eq!(soft.is_ok(), has_quotas, "{release}: {soft:?}");
            let refused = rig.create(NAME, GIB, &[]).await.map(drop);
            assert_eq!(refused.is_err(), has_quotas, "{release}: it is soft now");
            rig.unpublish(&id, "pod").await.unwrap();
            rig.delete(&id).await.unwrap();
            assert_eq!(cluster.volumes().len(), 0);
            rig.stop().await;
            crate::helper::remove();
        }
    }

    async fn two_controllers_at_once_come_to_the_same_result(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let second = directory.join("second");
        std::fs::create_dir(&second).unwrap();
        for file in ["modules", "interface"] {
            std::os::unix::fs::symlink(directory.join(file), second.join(file)).unwrap();
        }
        let rigs = [Rig::start(directory, &cluster, &[]), Rig::start(&second, &cluster, &[])];
        for number in 0..6 {
            let name = format!("pvc-{number}");
            let (one, two) = tokio::join!(rigs[0].create(&name, GIB, &[]), rigs[1].create(&name, GIB, &[]));
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!(one, two);
            let (one, two) = tokio::join!(rigs[0].delete(&two.volume_id), rigs[1].delete(&two.volume_id));
            one.and(two).unwrap();
        }
        assert_eq!(cluster.volumes().len(), 0);
        eventually("the removal of the data", || cluster.trash().is_empty()).await;
        for rig in rigs {
            rig.stop().await;
        }
    }

    async fn a_volume_lives_without_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]).legacy();
        let volume = rig.create(NAME, GIB, &[]).await.unwrap();
        let place = cluster.files.join("csi-volumes").join(DIRECTORY);
        let attribute = |name: &str| {
            let mut buffer = [0; 256];
            let length = rustix::fs::getxattr(&place, name, &mut buffer[..]).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        assert_eq!(attribute("user.weka_capacity"), "1073741824");
        assert_eq!(attribute("user.weka_k8s_volname"), format!("csi-volumes/{DIRECTORY}"));
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o7777, 0o750);
        assert_eq!(rig.create(NAME, GIB, &[]).await.unwrap(), volume);
        assert_eq!(rig.create(NAME, 2 * GIB, &[]).await.unwrap_err().code(), Code::AlreadyExists);
        assert_eq!(rig.expand(&volume.volume_id, 2 * GIB).await.unwrap(), 2 << 30);
        assert_eq!(attribute("user.weka_capacity"), "2147483648");
        assert_eq!(rig.modify(&volume.volume_id, &[("capacityEnforcement", "HARD")]).await.unwrap_err().code(), Code::FailedPrecondition);
        rig.publish(&volume.volume_id, "pod", Mode::SingleNodeWriter).await.unwrap();
        rig.unpublish(&volume.volume_id, "pod").await.unwrap();
        rig.delete(&volume.volume_id).await.unwrap();
        eventually("the removal of the data", || cluster.trash().is_empty()).await;
        rig.stop().await;
    }

    async fn a_volume_from_before_quotas_gets_one_when_it_grows(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let old = Rig::of_process(directory, &cluster).legacy();
        let volume = old.create(NAME, GIB, &[]).await.unwrap().volume_id;
        assert_eq!(rig.expand(&volume, 2 * GIB).await.unwrap(), 2 << 30);
        assert_eq!(cluster.quota(&format!("csi-volumes/{DIRECTORY}")).await, (2 * GIB, 2 * GIB));
        // The array refuses a quota for what is not empty; the volume grows all the same.
        let filled = old.create("filled", GIB, &[]).await.unwrap().volume_id;
        let (_, inner) = filled.split_once("default/").unwrap();
        std::fs::write(cluster.files.join(inner).join("file"), "text").unwrap();
        assert_eq!(rig.expand(&filled, 2 * GIB).await.unwrap(), 2 << 30);
        assert_eq!(rig.expand(&filled, 2 * GIB).await.unwrap(), 2 << 30);
        for volume in [volume, filled] {
            rig.delete(&volume).await.unwrap();
        }
        rig.stop().await;
    }

    async fn a_static_volume_is_shown_and_never_deleted(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        std::fs::create_dir_all(cluster.files.join("data/set")).unwrap();
        std::fs::write(cluster.files.join("data/set/file"), "kept").unwrap();
        for id in ["weka/v2/default/data/set", "dir/v1/default/data/set"] {
            let target = rig.publish(id, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
            assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "kept");
            rig.publish(id, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
            rig.unpublish(id, "pod").await.unwrap();
            assert_eq!(rig.expand(id, GIB).await.unwrap(), 1 << 30, "its capacity is advice only");
            let refused = rig.delete(id).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        }
        let missing = rig.publish("weka/v2/default/no/such", "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.message().contains("`/no/such`"), "{missing}");
        let snapshot = json!({ "fs_uid": cluster.filesystem("default").await["uid"], "name": "nightly", "access_point": "snap" });
        cluster.call("POST", "snapshots", Some(snapshot)).await;
        for (id, file) in [("weka/v2/default", "data/set/file"), ("weka/v2/default:snap", "data/set/file"), ("weka/v2/default:snap//data", "set/file")] {
            let target = rig.publish(id, "whole", Mode::MultiNodeReaderOnly).await.unwrap_or_else(|error| panic!("{id}: {error}"));
            assert!(target.join(file).exists(), "{id}");
            rig.unpublish(id, "whole").await.unwrap();
            assert_eq!(rig.delete(id).await.unwrap_err().code(), Code::FailedPrecondition);
        }
        let missing = rig.publish("weka/v2/default:none", "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
        rig.stop().await;
    }

    async fn a_trash_is_emptied_with_the_credentials_of_the_newest_call(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.listen = vec![options.listen[0]; 2]).await;
        let endpoints = cluster.array.endpoints();
        let rig = Rig::start(directory, &cluster, &["--skipgarbagecollection"]);
        let [old, new] = [0, 1].map(|endpoint: usize| {
            let secret = cluster.secret_with(&[("endpoints", &endpoints[endpoint])]);
            Rig::of_process(directory, &cluster).with_secret(secret)
        });
        // Who mounts it needs a token, each time.
        cluster.add_filesystem("guarded", &json!({ "auth_required": true })).await;
        let uid = cluster.array.control().filesystem_uid("guarded").await.unwrap().unwrap();
        let trash = directory.join("array/filesystems").join(uid).join("root").join(TRASH);
        let guarded = [("filesystemName", "guarded")];
        let [first, second] = [old.create("first", GIB / 4, &guarded).await, old.create("second", GIB / 4, &guarded).await];
        old.delete(&first.unwrap().volume_id).await.unwrap();
        rig.stop().await;
        let fault = Fault {
            path: Some("fileSystems/*/mountToken".to_owned()),
            endpoint: Some(0),
            trouble: Trouble::Refuse(403),
            ..Fault::default()
        };
        cluster.array.control().add_fault(fault).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        old.create("third", GIB / 4, &guarded).await.unwrap_err();
        eventually("an attempt with the old credentials", || !rig.metric("weka_csi_trash_failures_total").is_empty()).await;
        assert_eq!(names(&trash).len(), 1, "the old credentials lead nowhere any more");
        new.delete(&second.unwrap().volume_id).await.unwrap();
        eventually("the removal of the data", || names(&trash).is_empty()).await;
        rig.stop().await;
    }

    async fn a_start_with_the_legacy_secret_mounts_only_filesystems_with_a_trash(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        for number in 0..3 {
            cluster.add_filesystem(&format!("of-others-{number}"), &json!({ "total_capacity": GIB })).await;
        }
        let rig = Rig::start(directory, &cluster, &["--skipgarbagecollection"]);
        let volume = rig.create("left", GIB, &[]).await.unwrap();
        rig.delete(&volume.volume_id).await.unwrap();
        let secret = rig.secret.clone();
        rig.stop().await;
        std::fs::create_dir(directory.join("legacy")).unwrap();
        for (key, value) in secret {
            std::fs::write(directory.join("legacy").join(key), value).unwrap();
        }
        let rig = Rig::start(directory, &cluster, &[]);
        eventually("the sweep", || cluster.trash().is_empty()).await;
        // All are swept at the same time: by the end of another round the others would be mounted, too.
        let later = rig.create("later", GIB, &[]).await.unwrap();
        rig.delete(&later.volume_id).await.unwrap();
        eventually("another round", || cluster.trash().is_empty()).await;
        let mounts = rig.mounts("mounts");
        assert!(mounts.iter().all(|mount| !mount.contains("of-others")), "{mounts:?}");
        rig.stop().await;
    }

    async fn a_trash_is_swept_after_a_restart(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &["--skipgarbagecollection"]);
        let volume = rig.create("left", GIB, &[]).await.unwrap();
        rig.delete(&volume.volume_id).await.unwrap();
        assert_eq!(cluster.trash().len(), 1);
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[]);
        rig.create("other", GIB, &[]).await.unwrap();
        eventually("the sweep", || cluster.trash().is_empty()).await;
        assert_eq!(cluster.volumes().len(), 1);
        rig.stop().await;
    }
}
