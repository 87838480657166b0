//! Secrets, sizes, options and clusters that cannot be right, through the whole driver: each is refused with the right code
//! and a sentence that names what is wrong, and leaves nothing. `trouble` has those that a class can hold.

use std::path::Path;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessType, MountVolume};
use stowage_csi::proto::csi::{CapacityRange, NodePublishVolumeRequest};
use stowage_sim::weka::state::access::Role;
use tonic::{Code, Status};

use crate::cluster::{Cluster, secret_of};
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Map, Rig, SNAPSHOTS, capability, expect, range};

const MODE: Mode = Mode::MultiNodeMultiWriter;

/// A volume that is made with another secret.
async fn create_with(rig: &Rig, secret: Map) -> Result<String, Status> {
    let mut request = rig.request("bad", GIB, &[]);
    request.secrets = secret;
    Ok(rig.send(request).await?.volume_id)
}

isolated! {
    async fn a_legacy_secret_that_does_not_exist_yet_is_asked_for(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        // What a pod has of an optional Secret that nobody made.
        std::fs::create_dir(directory.join("legacy")).unwrap();
        let rig = Rig::start(directory, &cluster, &[]).legacy();
        let words = ["the legacy secret cannot be used", "has no files", "create the Secret"];
        expect(rig.create("volume", GIB, &[]).await, Code::FailedPrecondition, &words);
        rig.stop().await;
    }

    async fn a_secret_without_a_key_is_told_which(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        for key in ["username", "password", "endpoints"] {
            let mut secret = cluster.secret();
            secret.remove(key);
            expect(create_with(&rig, secret).await, Code::InvalidArgument, &["secret", &format!("`{key}`")]);
        }
        // These have defaults.
        let mut secret = cluster.secret();
        secret.retain(|key, _| key != "organization" && key != "scheme");
        create_with(&rig, secret).await.unwrap();
        assert_eq!(cluster.volumes().len(), 1);
        rig.stop().await;
    }

    async fn a_scheme_that_the_cluster_does_not_serve_is_named(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let elsewhere = directory.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let secure = Cluster::start_array(&elsewhere, |options| options.tls = true).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let plain = secret_of(&secure, &[("scheme", "http")]);
        expect(create_with(&rig, plain).await, Code::FailedPrecondition, &["does not serve http:", "`scheme`"]);
        let tls = cluster.secret_with(&[("scheme", "https")]);
        expect(create_with(&rig, tls).await, Code::FailedPrecondition, &["does not serve https:", "`scheme`"]);
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_certificate_that_nobody_vouches_for_is_not_trusted(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.tls = true).await;
        let rig = Rig::start(directory, &cluster, &[]);
        expect(create_with(&rig, cluster.secret()).await, Code::FailedPrecondition, &["not trusted", "`caCertificate`"]);
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        let ca = cluster.array.ca_certificate().unwrap();
        create_with(&rig, cluster.secret_with(&[("caCertificate", &ca)])).await.unwrap();
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--allowinsecurehttps"]);
        create_with(&rig, cluster.secret()).await.unwrap();
        rig.stop().await;
    }

    async fn a_cluster_without_tokens_cannot_serve_what_asks_for_them(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.release = Some("3.13.9".parse().unwrap())).await;
        cluster.add_filesystem("guarded", &json!({ "auth_required": true })).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let guarded = [("filesystemName", "guarded")];
        expect(rig.create("bad", GIB / 2, &guarded).await, Code::FailedPrecondition, &["3.13.9", "requires authentication", "3.14 or later"]);
        let published = rig.publish("weka/v2/guarded/directory", "pod", MODE).await;
        expect(published, Code::FailedPrecondition, &["requires authentication", "3.14 or later"]);
        // Organizations came with the tokens.
        let tenant = cluster.secret_with(&[("organization", "tenant")]);
        expect(create_with(&rig, tenant).await, Code::Unauthenticated, &["`organization`", "`tenant`"]);
        assert_eq!(rig.mounts(""), Vec::<String>::new());
        rig.stop().await;
    }

    async fn sizes_that_no_volume_can_have_are_refused(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let of = |required_bytes, limit_bytes| Some(CapacityRange { required_bytes, limit_bytes });
        for (range, code) in [
            (of(0, 0), Code::InvalidArgument),
            (of(-1, 0), Code::InvalidArgument),
            (of(0, -1), Code::InvalidArgument),
            (of(2, 1), Code::OutOfRange),
            (range(1 << 50), Code::OutOfRange),
        ] {
            let mut request = rig.request("bad", 0, &[]);
            request.capacity_range = range;
            let refused = rig.send(request).await.unwrap_err();
            assert_eq!(refused.code(), code, "{range:?}: {refused}");
        }
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        expect(rig.create("huge", 1 << 50, &[]).await, Code::OutOfRange, &["filesystem `default`", "ask for less"]);
        // Nothing said is nothing refused.
        let volume = rig.create("any", 0, &[]).await.unwrap();
        assert_eq!(volume.capacity_bytes, i64::try_from(GIB).unwrap());
        expect(rig.expand(&volume.volume_id, 1 << 50).await, Code::OutOfRange, &["filesystem `default`"]);
        expect(rig.expand(&volume.volume_id, 0).await, Code::InvalidArgument, &["capacity_range"]);
        let (hard, _) = cluster.quota(&format!("csi-volumes/{}", cluster.volumes()[0])).await;
        assert_eq!(hard, GIB, "it is as it was");
        rig.stop().await;
    }

    async fn a_mount_option_that_nobody_knows_stops_the_pod_and_not_the_node(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let mut of_volume = capability(MODE);
        of_volume.access_type = Some(AccessType::Mount(MountVolume {
            mount_flags: vec!["writecash".to_owned()],
            ..MountVolume::default()
        }));
        let request = NodePublishVolumeRequest {
            volume_id: volume.clone(),
            target_path: rig.target("pod").to_str().unwrap().to_owned(),
            volume_capability: Some(of_volume),
            secrets: rig.secret.clone(),
            ..NodePublishVolumeRequest::default()
        };
        // A class with it is refused; of a volume that exists the Weka client decides.
        let mut of_class = rig.request("other", GIB, &[]);
        of_class.volume_capabilities = request.volume_capability.clone().into_iter().collect();
        expect(rig.send(of_class).await, Code::InvalidArgument, &["`writecash`", "--allowedmountoptions"]);
        let refused = rig.node.clone().node_publish_volume(request).await;
        expect(refused, Code::Internal, &["mount refused", "writecash"]);
        assert!(!rig.target("pod").exists());
        rig.publish(&volume, "pod", MODE).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();
        rig.stop().await;
    }

    async fn a_user_without_the_right_to_mount_is_told_so(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.array.control().add_user(0, "reader", "secret-word", Role::ReadOnly).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let rig = rig.with_secret(cluster.secret_with(&[("username", "reader"), ("password", "secret-word")]));
        expect(rig.publish(&volume, "pod", MODE).await, Code::PermissionDenied, &["ReadOnly", "may not", "role CSI"]);
        let refused = rig.expand(&volume, 2 * GIB).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(!refused.message().contains("secret-word"), "{refused}");
        assert!(!rig.target("pod").exists());
        rig.stop().await;
    }

    async fn a_filesystem_that_is_not_there_is_named_wherever_it_is_asked_for(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let published = rig.publish("weka/v2/no-such/directory", "pod", MODE).await;
        expect(published, Code::InvalidArgument, &["`no-such`", "does not exist"]);
        let missing = rig.publish("weka/v2/default/no/such/path", "pod", MODE).await;
        expect(missing, Code::NotFound, &["`/no/such/path`", "`default`", "create the directory"]);
        assert!(!rig.target("pod").exists());
        rig.stop().await;
    }

    async fn a_release_that_nobody_has_seen_gets_what_every_release_can_do(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        for (number, release) in ["banana", "", "five.one", "5"].into_iter().enumerate() {
            let odd = Some(release.to_owned());
            control.turn(|knobs| knobs.odd_release = odd).await.unwrap();
            let rig = Rig::start(directory, &cluster, &[]);
            let id = rig.create(&format!("odd-{number}"), GIB, &[]).await.unwrap().volume_id;
            // It has its size, though nobody can be asked to enforce it.
            assert_eq!(rig.expand(&id, 2 * GIB).await.unwrap(), i64::try_from(2 * GIB).unwrap());
            rig.publish(&id, "pod", MODE).await.unwrap_or_else(|error| panic!("`{release}`: {error}"));
            rig.unpublish(&id, "pod").await.unwrap();
            let tenant = cluster.secret_with(&[("username", "boss"), ("password", "boss"), ("organization", "tenant")]);
            assert!(create_with(&rig, tenant).await.is_err());
            rig.delete(&id).await.unwrap();
            rig.stop().await;
        }
        // Later than all that is known is as good as the last.
        control.turn(|knobs| knobs.odd_release = Some("99.1.2-nightly+7".to_owned())).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        rig.create("new", GIB, &[]).await.unwrap();
        let (hard, _) = cluster.quota(&format!("csi-volumes/{}", cluster.volumes()[0])).await;
        assert_eq!(hard, GIB);
        rig.stop().await;
    }

    async fn a_controller_without_a_client_makes_nothing_and_says_why(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({})).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let modules = directory.join("modules");
        let loaded = std::fs::read(&modules).unwrap();
        std::fs::write(&modules, "ext4 1 0 - Live 0x0\n").unwrap();
        for class in [&[][..], &FILESYSTEMS, &SNAPSHOTS] {
            for name in ["one", "two"] {
                expect(rig.create(name, GIB, class).await, Code::FailedPrecondition, &["`wekafsgw` is not loaded", "Weka client"]);
            }
        }
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        assert_eq!(cluster.filesystems().await, ["default", "empty"], "nothing was made");
        assert_eq!(cluster.snapshots().await, Vec::<String>::new(), "nothing was made");
        std::fs::write(&modules, loaded).unwrap();
        rig.create("one", GIB, &[]).await.unwrap();
        rig.stop().await;
    }
}
