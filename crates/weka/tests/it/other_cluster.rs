//! A node whose Weka client is not of the cluster that a request is about: both may have a filesystem of the same name.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::Array;
use stowage_sim::weka::state::Container;
use tonic::{Code, Status};

use crate::cluster::{Cluster, client, names, secret_of};
use crate::rig::{GIB, Rig};

const MODE: Mode = Mode::MultiNodeMultiWriter;

/// A cluster that this machine is no client of.
async fn distant(directory: &Path) -> (Array, PathBuf) {
    let elsewhere = directory.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let array = Cluster::start_array(&elsewhere, |options| {
        "east".clone_into(&mut options.cluster_name);
    })
    .await;
    let uid = array.control().filesystem_uid("default").await.unwrap();
    let files = elsewhere.join("array/filesystems").join(uid.unwrap());
    (array, files.join("root"))
}

fn assert_names_the_cluster(refused: &Status) {
    assert!(
        refused.message().contains("Weka cluster `east`"),
        "{refused}"
    );
    assert!(refused.message().contains("on a node that is"), "{refused}");
}

/// What a call says once the driver has noticed that its mount is another: the call that notices is to be repeated.
async fn settled(call: impl AsyncFn() -> Status) -> Status {
    let refused = call().await;
    if refused.code() == Code::Unavailable {
        return call().await;
    }
    refused
}

isolated! {
    async fn a_node_of_another_cluster_is_named_and_nothing_is_made_there(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let (east, _) = distant(directory).await;
        let rig = Rig::start(directory, &cluster, &[]);
        for container in [None, Some(("localContainerName", "client"))] {
            let secret = secret_of(&east, container.as_slice());
            let other = Rig::of_process(directory, &cluster).with_secret(secret);
            assert_names_the_cluster(&other.create("volume", GIB, &[]).await.unwrap_err());
        }
        assert_eq!(names(&cluster.files), [""; 0]);
        // What is known of one cluster is not taken for the other.
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let other = Rig::of_process(directory, &cluster).with_secret(secret_of(&east, &[]));
        assert_names_the_cluster(&other.publish(&volume, "pod", MODE).await.unwrap_err());
        rig.delete(&volume).await.unwrap();
        rig.stop().await;
    }

    async fn a_container_of_the_same_name_on_another_host_does_not_mislead(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let (east, files) = distant(directory).await;
        let namesake = Container {
            container_name: "client".to_owned(),
            hostname: "node-2".to_owned(),
            container_ip: "203.0.113.7".to_owned(),
            mode: "client".to_owned(),
            state: "ACTIVE".to_owned(),
            status: "UP".to_owned(),
            frontend_dedicated_cores: 1,
        };
        east.control().add_container(namesake).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[]);
        let other = Rig::of_process(directory, &cluster).with_secret(secret_of(&east, &[]));
        assert_names_the_cluster(&other.create("volume", GIB, &[]).await.unwrap_err());
        assert_eq!(names(&cluster.files), [""; 0]);

        // The volume that the other cluster has is neither missing nor deleted.
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let place = files.join("csi-volumes").join(cluster.volumes().remove(0));
        rig.delete(&volume).await.unwrap();
        std::fs::create_dir_all(&place).unwrap();
        assert_names_the_cluster(&other.publish(&volume, "pod", MODE).await.unwrap_err());
        assert_names_the_cluster(&other.expand(&volume, 2 * GIB).await.unwrap_err());
        assert_names_the_cluster(&other.delete(&volume).await.unwrap_err());
        assert!(place.exists());
        rig.stop().await;
    }
    async fn a_mount_that_shows_another_cluster_is_found_out(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let (east, files) = distant(directory).await;
        let _client = client(directory, &east, "east").await;
        let rig = Rig::start(directory, &cluster, &[]);
        let other = Rig::of_process(directory, &cluster).with_secret(secret_of(&east, &[]));
        for rig in [&rig, &other] {
            let volume = rig.create("used", GIB, &[]).await.unwrap().volume_id;
            rig.publish(&volume, "pod", MODE).await.unwrap();
            rig.unpublish(&volume, "pod").await.unwrap();
            rig.delete(&volume).await.unwrap();
        }
        let volume = other.create("volume", GIB, &[]).await.unwrap().volume_id;
        show_first_in_place_of_second(&rig.mounts("mounts"));

        assert_names_the_cluster(&settled(async || other.create("new", GIB, &[]).await.unwrap_err()).await);
        assert_names_the_cluster(&settled(async || other.publish(&volume, "pod", MODE).await.unwrap_err()).await);
        assert_names_the_cluster(&settled(async || other.delete(&volume).await.unwrap_err()).await);
        assert_eq!(cluster.volumes(), [""; 0], "nothing stays in the wrong place");
        assert_eq!(names(&files.join("csi-volumes")).len(), 1, "nothing is lost in the right one");
        rig.stop().await;
    }
}

/// Puts the mounts of the first cluster's filesystem over those of the other's, with the same options.
fn show_first_in_place_of_second(points: &[String]) {
    let mut hidden = 0;
    for point in points.iter().filter(|point| point.ends_with("-east")) {
        let options = Path::new(point).file_name().unwrap().to_str().unwrap();
        let wanted = options.replace("-east", "-client");
        let first = points
            .iter()
            .find(|point| point.ends_with(&wanted))
            .unwrap();
        for command in [&["umount", point][..], &["mount", "--bind", first, point]] {
            let done = Command::new(command[0]).args(&command[1..]).status();
            assert!(done.unwrap().success(), "{command:?}");
        }
        hidden += 1;
    }
    assert!(hidden > 1, "{points:?}");
}
