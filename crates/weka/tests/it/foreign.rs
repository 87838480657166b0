//! What real clusters and the hands of others leave: names, options, limits and secrets that this driver has not chosen.

use std::path::Path;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    ControllerGetVolumeRequest, ListVolumesRequest, NodePublishVolumeRequest,
};
use stowage_sim::weka::control::frontends::Stage;
use stowage_sim::weka::state::access::Role;
use tonic::{Code, Status};

use crate::cluster::{Cluster, client, secret_of};
use crate::rig::{GIB, Rig, capability, map};

const MODE: Mode = Mode::MultiNodeMultiWriter;

async fn publish_with(rig: &Rig, id: &str, options: &str) -> Result<(), Status> {
    let request = NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: rig.target("pod").to_str().unwrap().to_owned(),
        volume_capability: Some(capability(MODE)),
        volume_context: map(&[("mountOptions", options)]),
        secrets: rig.secret.clone(),
        ..NodePublishVolumeRequest::default()
    };
    rig.node.clone().node_publish_volume(request).await?;
    Ok(())
}

isolated! {
    async fn a_filesystem_may_be_called_like_a_directory_of_the_machine(directory: &Path) {
        // Where containers start.
        std::env::set_current_dir("/").unwrap();
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        for name in ["dev", "tmp", "run", "home"] {
            assert!(Path::new(name).is_dir(), "{name}");
            cluster.add_filesystem(name, &json!({})).await;
            let volume = rig.create(name, GIB / 2, &[("filesystemName", name)]).await.unwrap().volume_id;
            rig.publish(&volume, name, MODE).await.unwrap();
            rig.unpublish(&volume, name).await.unwrap();
            // The same without a token.
            let plain = Rig::of_process(directory, &cluster).legacy();
            plain.publish(&volume, name, MODE).await.unwrap();
            plain.unpublish(&volume, name).await.unwrap();
        }
        rig.stop().await;
    }

    async fn options_of_an_existing_volume_are_the_clients_to_judge(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        // Known to the client, not to the driver: a class is refused, a volume of another hand is not.
        let option = "num_cores=2";
        let refused = rig.create("new", GIB, &[("mountOptions", option)]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        let volume = rig.create("old", GIB, &[]).await.unwrap().volume_id;
        publish_with(&rig, &volume, option).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();
        // What neither knows is the client's to refuse, and what cannot be written is ours.
        let refused = publish_with(&rig, &volume, "writecash").await.unwrap_err();
        assert!(refused.message().contains("mount refused"), "{refused}");
        let refused = publish_with(&rig, &volume, "num_cores=2,a b").await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        rig.stop().await;
    }

    async fn a_hard_limit_above_the_size_outlives_growth_with_its_grace_period(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[("capacityEnforcement", "SOFT")]).await.unwrap().volume_id;
        let uid = cluster.array.control().filesystem_uid("default").await.unwrap().unwrap();
        let path = format!("fileSystems/{uid}/resolvePath?path=/csi-volumes/{}", cluster.volumes()[0]);
        let inode = cluster.call("GET", &path, None).await["inode_id"].as_str().unwrap().to_owned();
        let quota = format!("fileSystems/{uid}/quota/{inode}");
        let limits = json!({ "hard_limit_bytes": 4 * GIB, "soft_limit_bytes": GIB, "grace_seconds": 3600 });
        cluster.call("PUT", &quota, Some(limits)).await;
        for (bytes, hard) in [(2 * GIB, 4 * GIB), (5 * GIB, 7 * GIB)] {
            rig.expand(&volume, bytes).await.unwrap();
            let now = cluster.call("GET", &quota, None).await;
            assert_eq!(now["soft_limit_bytes"], bytes, "{now}");
            assert_eq!(now["hard_limit_bytes"], hard, "{now}");
            assert_eq!(now["grace_seconds"], 3600, "{now}");
        }
        rig.stop().await;
    }

    async fn a_volume_that_the_secret_does_not_show_is_not_deleted(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        control.add_organization(7, "tenant").await.unwrap();
        control.add_user(7, "boss", "boss", Role::OrgAdmin).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let credentials = [("username", "boss"), ("password", "boss"), ("organization", "tenant")];
        let tenant = Rig::of_process(directory, &cluster).with_secret(cluster.secret_with(&credentials));
        for refused in [tenant.delete(&volume).await, tenant.expand(&volume, 2 * GIB).await.map(drop)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            assert!(refused.message().contains("shows no filesystem `default`"), "{refused}");
        }
        assert_eq!(cluster.volumes().len(), 1, "it is there");
        let snapshot = "wekasnap/v2/default:snapshot-0b2-QPKWBUIATYGF:33LX4HAPRTX5";
        let refused = tenant.delete_snapshot(snapshot).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        for words in ["shows no filesystem `default`", snapshot, "VolumeSnapshotContent"] {
            assert!(refused.message().contains(words), "{refused}");
        }
        assert!(!refused.message().contains("PersistentVolume"), "{refused}");
        rig.delete(&volume).await.unwrap();
        assert_eq!(cluster.volumes().len(), 0);
        rig.stop().await;
    }

    async fn volumes_of_every_cluster_are_listed_and_found(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let elsewhere = directory.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let second = Cluster::start_array(&elsewhere, |_| {}).await;
        let _client = client(directory, &second, "second").await;
        let legacy = directory.join("legacy");
        std::fs::create_dir(&legacy).unwrap();
        for (key, value) in cluster.secret() {
            std::fs::write(legacy.join(key), value).unwrap();
        }
        let rig = Rig::start(directory, &cluster, &[]);
        let other = Rig::of_process(directory, &cluster).with_secret(secret_of(&second, &[]));
        let mut made = vec![
            rig.create("here", GIB, &[]).await.unwrap().volume_id,
            other.create("there", GIB, &[]).await.unwrap().volume_id,
        ];
        made.sort();
        let listed = rig.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap();
        let listed = listed.into_inner().entries.into_iter();
        assert_eq!(listed.map(|entry| entry.volume.unwrap().volume_id).collect::<Vec<_>>(), made);
        let get = async |id: &str| {
            let request = ControllerGetVolumeRequest { volume_id: id.to_owned() };
            rig.controller.clone().controller_get_volume(request).await
        };
        for id in &made {
            get(id).await.unwrap();
        }
        let gone = get(&made[0].replace("csi-volumes/", "csi-volumes/no-")).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound, "{gone}");
        let hidden = get(&made[0].replace("dir/v1/default/", "dir/v1/unseen/")).await.unwrap_err();
        assert_eq!(hidden.code(), Code::FailedPrecondition, "{hidden}");
        rig.stop().await;
    }

    async fn a_client_that_does_not_list_its_containers_is_used(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let nameless = Stage { nameless: true, ..Stage::default() };
        cluster.array.control().set_stage("client", nameless).await.unwrap();
        let interface = directory.join("interface");
        while std::fs::read_to_string(&interface).unwrap().contains("Container=") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        rig.publish(&volume, "pod", MODE).await.unwrap();
        rig.unpublish(&volume, "pod").await.unwrap();
        assert!(rig.health.report().is_ready(), "{}", rig.health.report().verbose());
        rig.stop().await;
    }
}
