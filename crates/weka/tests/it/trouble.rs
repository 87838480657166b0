//! An array in trouble, and requests that make no sense.

use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::control::Trouble;
use stowage_sim::weka::state::access::Role;
use tonic::{Code, Status};

use crate::cluster::Cluster;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, block, expect, map};

const QUOTA: &str = "fileSystems/*/quota/*";

/// Whether a call was late because of a quota, and not for another reason.
fn waits_for_quota(late: &Status) -> bool {
    let is_to_come_again = matches!(
        late.code(),
        Code::DeadlineExceeded | Code::Unavailable | Code::Aborted
    );
    assert!(is_to_come_again, "{late}");
    late.code() == Code::DeadlineExceeded && late.message().contains("still being added")
}

isolated! {
    async fn a_volume_is_made_through_every_trouble_that_passes(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.listen = vec![options.listen[0]; 3]).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let control = cluster.array.control();
        for (number, (method, path, trouble)) in [
            ("POST", "login", Trouble::Refuse(503)),
            ("GET", "fileSystems", Trouble::Refuse(503)),
            ("GET", "fileSystems", Trouble::Drop),
            ("GET", "fileSystems/*/mountToken", Trouble::Refuse(401)),
            ("PUT", QUOTA, Trouble::Refuse(503)),
            ("PUT", QUOTA, Trouble::Refuse(401)),
            ("PUT", QUOTA, Trouble::Drop),
            ("PUT", QUOTA, Trouble::DoneButDropped),
            ("PUT", QUOTA, Trouble::DoneButRefused(503)),
            ("GET", QUOTA, Trouble::Refuse(503)),
        ].into_iter().enumerate() {
            cluster.fault(method, path, 1, trouble.clone()).await;
            let name = format!("pvc-{number}");
            rig.create(&name, GIB, &[]).await.unwrap_or_else(|error| panic!("{method} {path} {trouble:?}: {error}"));
            control.clear_faults().await.unwrap();
        }
        for stopped in 0..2 {
            control.stop_endpoint(stopped).await.unwrap();
            rig.create(&format!("stopped-{stopped}"), GIB, &[]).await.unwrap();
        }
        control.start_endpoint(0).await.unwrap();
        control.revoke_tokens(true).await.unwrap();
        let storm = (0..8).map(|number| {
            let rig = &rig;
            async move { rig.create(&format!("storm-{number}"), GIB, &[]).await }
        });
        for made in futures::future::join_all(storm).await {
            made.unwrap();
        }
        let restart = control.restart(Duration::from_secs(1));
        let (restarted, made) = tokio::join!(restart, rig.create("restart", GIB, &[]));
        restarted.unwrap();
        made.unwrap();
        assert_eq!(cluster.volumes().len(), 10 + 2 + 8 + 1);
        rig.stop().await;
    }

    async fn a_filesystem_that_was_begun_is_gone_or_the_caller_is_told_to_come_again(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        // The first call ends before the filesystem is complete, and its caller comes again.
        let short = [ALLOWED[0], "--grpcrequesttimeoutseconds=3"];
        let rig = Rig::start(directory, &cluster, &short);
        cluster.fault("GET", "fileSystems/*/mountToken", 1000, Trouble::Refuse(503)).await;
        let refused = rig.create("begun", GIB, &FILESYSTEMS).await.unwrap_err();
        assert!(matches!(refused.code(), Code::Unavailable | Code::DeadlineExceeded), "{refused}");
        assert_eq!(cluster.filesystems().await.len(), 2, "it was begun");
        control.clear_faults().await.unwrap();
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        let modules = directory.join("modules");
        let loaded = std::fs::read(&modules).unwrap();
        std::fs::write(&modules, "ext4 1 0 - Live 0x0\n").unwrap();
        let words = ["was begun", "the next attempt", "`wekafsgw` is not loaded"];
        expect(rig.create("begun", GIB, &FILESYSTEMS).await, Code::Unavailable, &words);
        std::fs::write(&modules, loaded).unwrap();
        let id = rig.create("begun", GIB, &FILESYSTEMS).await.unwrap().volume_id;
        rig.delete(&id).await.unwrap();
        // What cannot be taken away either is not forgotten.
        cluster.fault("PUT", QUOTA, 1, Trouble::Refuse(400)).await;
        cluster.fault("DELETE", "fileSystems/*", 1, Trouble::Refuse(400)).await;
        expect(rig.create("stuck", GIB, &FILESYSTEMS).await, Code::Unavailable, &["was begun", "quota"]);
        assert_eq!(cluster.filesystems().await.len(), 2, "it is still there");
        let id = rig.create("stuck", GIB, &FILESYSTEMS).await.unwrap().volume_id;
        rig.delete(&id).await.unwrap();
        assert_eq!(cluster.filesystems().await, ["default"]);
        rig.stop().await;
    }

    async fn a_directory_that_was_begun_is_not_forgotten(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        let modules = directory.join("modules");
        let loaded = std::fs::read(&modules).unwrap();
        let rig = Rig::start(directory, &cluster, &["--grpcrequesttimeoutseconds=3"]);
        cluster.fault("PUT", QUOTA, 1000, Trouble::Refuse(503)).await;
        let refused = rig.create("begun", GIB, &[]).await.unwrap_err();
        assert!(matches!(refused.code(), Code::Unavailable | Code::DeadlineExceeded), "{refused}");
        assert_eq!(cluster.volumes().len(), 1, "it was begun");
        control.clear_faults().await.unwrap();
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[]);
        // Whatever goes wrong now, the caller comes again.
        cluster.fault("GET", "fileSystems", 100, Trouble::Refuse(500)).await;
        expect(rig.create("begun", GIB, &[]).await, Code::Unavailable, &["status 500"]);
        control.clear_faults().await.unwrap();
        std::fs::write(&modules, "ext4 1 0 - Live 0x0\n").unwrap();
        let words = ["was begun", "the next attempt", "`wekafsgw` is not loaded"];
        expect(rig.create("begun", GIB, &[]).await, Code::Unavailable, &words);
        // One that was not begun is refused for good.
        expect(rig.create("other", GIB, &[]).await, Code::FailedPrecondition, &["`wekafsgw` is not loaded"]);
        std::fs::write(&modules, loaded).unwrap();
        for (method, path, trouble) in [
            ("GET", "fileSystems/*/resolvePath", Trouble::Refuse(500)),
            ("GET", "fileSystems/*/resolvePath", Trouble::Refuse(403)),
            ("PUT", QUOTA, Trouble::Refuse(400)),
            ("PUT", QUOTA, Trouble::Refuse(403)),
        ] {
            cluster.fault(method, path, 100, trouble.clone()).await;
            let refused = rig.create("begun", GIB, &[]).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{method} {path} {trouble:?}: {refused}");
            control.clear_faults().await.unwrap();
        }
        expect(rig.create("begun", 1 << 50, &[]).await, Code::Unavailable, &["was begun"]);
        let id = rig.create("begun", GIB, &[]).await.unwrap().volume_id;
        rig.delete(&id).await.unwrap();
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_slow_quota_is_waited_for_and_found_again(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        control.turn(|knobs| knobs.quota_delay = 3_600_000).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        let finish = async {
            // It is looked at again and again while it is being added.
            cluster.looked_for_quotas(3).await;
            control.finish().await.unwrap();
        };
        let (slow, ()) = tokio::join!(rig.create("slow", GIB, &[]), finish);
        slow.unwrap();
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--grpcrequesttimeoutseconds=2"]);
        // On a busy machine a call may end before it comes to the quota.
        while !waits_for_quota(&rig.create("slower", GIB, &[]).await.unwrap_err()) {}
        control.take_requests().await.unwrap();
        while !waits_for_quota(&rig.create("slower", GIB, &[]).await.unwrap_err()) {}
        let requests = control.take_requests().await.unwrap();
        assert!(requests.iter().all(|request| request.method != "PUT"), "it is found: {requests:?}");
        control.finish().await.unwrap();
        while let Err(late) = rig.create("slower", GIB, &[]).await {
            waits_for_quota(&late);
        }
        assert_eq!(cluster.volumes().len(), 2);
        rig.stop().await;
    }

    async fn what_cannot_be_made_is_refused_by_name_and_leaves_nothing(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let control = cluster.array.control();
        control.add_user(0, "reader", "reader", Role::ReadOnly).await.unwrap();
        for (parameters, code, words) in [
            (vec![("filesystemName", "no-such")], Code::InvalidArgument, "`no-such`"),
            (vec![("filesystemName", "-")], Code::InvalidArgument, "`filesystemName`"),
            (vec![("volumeType", "directory")], Code::InvalidArgument, "`volumeType`"),
            (vec![("permissions", "abc")], Code::InvalidArgument, "`permissions`"),
            (vec![("ownerUid", "4294967296")], Code::InvalidArgument, "`ownerUid`"),
            (vec![("ownerGid", "-1")], Code::InvalidArgument, "`ownerGid`"),
            (vec![("capacityEnforcement", "MAYBE")], Code::InvalidArgument, "`capacityEnforcement`"),
            (vec![("mountOptions", "writecash")], Code::InvalidArgument, "`writecash`"),
            (vec![("encryptionEnabled", "true")], Code::InvalidArgument, "`encryptionEnabled`"),
        ] {
            let refused = rig.create("bad", GIB, &parameters).await.unwrap_err();
            assert_eq!(refused.code(), code, "{parameters:?}: {refused}");
            assert!(refused.message().contains(words), "{parameters:?}: {refused}");
        }
        let huge = rig.create("huge", 1 << 50, &[]).await.unwrap_err();
        assert_eq!(huge.code(), Code::OutOfRange, "{huge}");
        let mut request = rig.request("block", GIB, &[]);
        request.volume_capabilities = vec![block()];
        assert_eq!(rig.send(request).await.unwrap_err().code(), Code::InvalidArgument);
        for (change, code, words) in [
            (vec![("password", "")], Code::InvalidArgument, "`password`"),
            (vec![("endpoints", "")], Code::InvalidArgument, "`endpoints`"),
            (vec![("scheme", "ftp")], Code::InvalidArgument, "`scheme`"),
            (vec![("password", "wrong")], Code::Unauthenticated, "`password`"),
            (vec![("organization", "nobody")], Code::Unauthenticated, "`nobody`"),
            (vec![("caCertificate", "nonsense")], Code::InvalidArgument, "`caCertificate`"),
            (vec![("username", "reader"), ("password", "reader")], Code::PermissionDenied, "may not set the quota"),
        ] {
            let mut request = rig.request("bad", GIB, &[]);
            request.secrets.extend(map(&change));
            let refused = rig.send(request).await.unwrap_err();
            assert_eq!(refused.code(), code, "{change:?}: {refused}");
            assert!(refused.message().contains(words), "{change:?}: {refused}");
            assert!(!refused.message().contains("reader "), "{refused}");
        }
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        // Refused half-way for good: what was begun is taken back.
        cluster.fault("PUT", QUOTA, 1, Trouble::Refuse(403)).await;
        let refused = rig.create("forbidden", GIB, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_node_without_client_says_so(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        for (modules, interface, words) in [
            ("", "", "`wekafsgw` is not loaded"),
            ("wekafsgw 1 0 - Live 0x0\n", "", "no connected container"),
            ("wekafsgw 1 0 - Live 0x0\n", "Container=c FE 0: Frontend is not connected\n", "(disconnected: c)"),
            ("wekafsgw 1 0 - Live 0x0\n", "Container=a FE 0: Connected frontend pid 1\nContainer=b FE 0: Connected frontend pid 2\n", "not a client of Weka cluster `sim`"),
        ] {
            std::fs::write(directory.join("modules"), modules).unwrap();
            std::fs::write(directory.join("interface"), interface).unwrap();
            let refused = rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            assert!(refused.message().contains(words), "{refused}");
        }
        // Some kernels are built without modules.
        std::fs::remove_file(directory.join("modules")).unwrap();
        let refused = rig.publish(&volume, "pod", Mode::MultiNodeMultiWriter).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("its kernel takes no modules"), "{refused}");
        rig.stop().await;
    }

    async fn a_legacy_secret_is_missed_by_name_and_found_when_it_comes(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &["--legacyvolumesecretname=weka-legacy"]);
        let secret = rig.secret.clone();
        let rig = rig.legacy();
        let refused = rig.create("volume", GIB, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("`weka-legacy`"), "{refused}");
        std::fs::create_dir(directory.join("legacy")).unwrap();
        for (key, value) in secret {
            std::fs::write(directory.join("legacy").join(key), value).unwrap();
        }
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let listed = rig.controller.clone().list_volumes(stowage_csi::proto::csi::ListVolumesRequest::default()).await.unwrap();
        let listed: Vec<_> = listed.into_inner().entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
        assert_eq!(listed, [volume]);
        rig.stop().await;
    }
}
