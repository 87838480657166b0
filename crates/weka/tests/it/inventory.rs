//! All volumes of the driver, read from their clusters with the secrets that their PersistentVolumes name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use devcluster::testing::{ApiServer, Rule};
use serde_json::{Value, json};
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerGetVolumeRequest, ListSnapshotsRequest,
    ListVolumesRequest,
};
use tonic::Code;

use crate::cluster::Cluster;
use crate::kubernetes::api_server;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Map, Rig, SNAPSHOTS, eventually, expect, of_volume};

const CONTENTS: &str = include_str!("../../../../deploy/crds/snapshot.storage.k8s.io.yaml");

/// What a controller needs to read all volumes.
pub const READ: [Rule; 3] = [
    Rule {
        groups: &[""],
        resources: &["persistentvolumes"],
        verbs: &["get", "list", "watch"],
    },
    Rule {
        groups: &[""],
        resources: &["secrets"],
        verbs: &["get"],
    },
    Rule {
        groups: &["snapshot.storage.k8s.io"],
        resources: &["volumesnapshotcontents"],
        verbs: &["get", "list", "watch"],
    },
];

pub fn apply(server: &ApiServer, object: &Value) {
    let applied = server.kubectl_with_input(&["apply", "-f", "-"], &object.to_string());
    applied.unwrap();
}

pub fn secret(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "weka", "namespace": "default" },
        "stringData": cluster.secret(),
    })
}

/// A PersistentVolume; `change` makes it another.
pub fn volume(name: &str, handle: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { "pv.kubernetes.io/provisioned-by": "csi.weka.io" } },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": { "storage": "2Gi" },
            "storageClassName": "class",
            "csi": {
                "driver": "csi.weka.io",
                "volumeHandle": handle,
                "nodePublishSecretRef": { "name": "weka", "namespace": "default" },
            },
        },
    });
    change(&mut volume);
    volume
}

/// The state of each volume's quota, by PersistentVolume.
pub fn states(rig: &Rig) -> BTreeMap<String, String> {
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let lines = rig.metric("weka_csi_volume_quota_status");
    lines
        .iter()
        .map(|line| (label(line, "pv_name"), label(line, "status")))
        .collect()
}

pub async fn reaches(rig: &Rig, expected: &[(&str, &str)]) {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(name, state)| ((*name).to_owned(), (*state).to_owned()))
        .collect();
    eventually(&format!("{expected:?}"), || states(rig) == expected).await;
}

/// What a cluster is asked in so many sweeps, each from its beginning, which is the list of filesystems, to its end.
async fn whole_sweeps(cluster: &Cluster, sweeps: usize) -> Vec<String> {
    let control = cluster.array.control();
    control.take_requests().await.unwrap();
    let (mut paths, mut starts) = (Vec::new(), Vec::new());
    while starts.len() <= sweeps {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for request in control.take_requests().await.unwrap() {
            if request.path == "fileSystems" {
                starts.push(paths.len());
            }
            paths.push(request.path);
        }
    }
    paths[starts[0]..starts[sweeps]].to_vec()
}

isolated! {
    async fn all_volumes_are_read_with_the_secrets_that_kubernetes_has_for_them(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        let kubeconfig = format!("--kubeconfig={}", server.user("controller", &READ).unwrap().display());
        let often = ["--wekametricsfetchintervalseconds=1", "--wekametricsquotacachevalidityseconds=1"];
        let flags = [&ALLOWED[..], &[&kubeconfig], &often].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        let dir = rig.create("dir", GIB, &[]).await.unwrap().volume_id;
        let target = rig.publish(&dir, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        std::fs::write(target.join("file"), vec![0; 8192]).unwrap();
        rig.unpublish(&dir, "pod").await.unwrap();
        let fs = rig.create("fs", GIB, &FILESYSTEMS).await.unwrap().volume_id;
        let snap = rig.create("snap", GIB, &SNAPSHOTS).await.unwrap().volume_id;
        let hybrid = rig.copy("hybrid", GIB, of_volume(&dir), &[]).await.unwrap().volume_id;
        for directory in ["chosen", "filled"] {
            std::fs::create_dir(cluster.files.join(directory)).unwrap();
        }
        std::fs::write(cluster.files.join("filled/file"), "data").unwrap();
        apply(&server, &secret(&cluster));
        for (name, handle) in [("dir", &*dir), ("fs", &fs), ("snap", &snap), ("hybrid", &hybrid)] {
            apply(&server, &volume(name, handle, |_| {}));
        }
        apply(&server, &volume("static", "weka/v2/default/chosen", |it| it["metadata"]["annotations"] = json!(null)));
        apply(&server, &volume("filled", "weka/v2/default/filled", |_| {}));
        apply(&server, &volume("gone", "dir/v1/default/csi-volumes/gone", |_| {}));
        apply(&server, &volume("lost", "weka/v2/nowhere", |_| {}));
        apply(&server, &volume("blind", "dir/v1/default/chosen", |it| it["spec"]["csi"]["nodePublishSecretRef"] = json!(null)));
        apply(&server, &volume("foreign", &dir, |it| it["spec"]["csi"]["driver"] = json!("other")));
        let mut expected = vec![
            ("dir", "ACTIVE"), ("fs", "ACTIVE"), ("snap", "ACTIVE"), ("hybrid", "ACTIVE"), ("static", "NONE"),
            ("filled", "NONE"), ("gone", "MISSING"), ("lost", "MISSING"), ("blind", "UNKNOWN"),
        ];
        reaches(&rig, &expected).await;
        let used = rig.metric("weka_csi_volume_used_bytes");
        let used = used.iter().find(|line| line.contains(r#"pv_name="dir""#)).unwrap();
        assert!(used.ends_with(" 8192") && used.contains(r#"storage_class_name="class""#), "{used}");
        assert!(rig.metric("weka_csi_volumes_without_quota")[0].ends_with(" 2"));

        // One list for each filesystem, however many volumes are on it; only what no list has is asked for by itself.
        let sweeps = 2;
        let mut requests: BTreeMap<String, usize> = BTreeMap::new();
        for path in whole_sweeps(&cluster, sweeps).await {
            let path = path.split('/').map(|it| if it.len() > 12 { "*" } else { it });
            *requests.entry(path.collect::<Vec<_>>().join("/")).or_default() += 1;
        }
        assert_eq!(requests["fileSystems/*/quota"], 3 * sweeps, "{requests:?}");
        // By number: two in snapshots, two without a quota; by path: these two and one that is gone.
        let (by_number, by_path) = (requests["fileSystems/*/quota/*"], requests["fileSystems/*/resolvePath"]);
        assert_eq!((by_number, by_path), (4 * sweeps, 3 * sweeps), "{requests:?}");

        let capabilities = rig.controller.clone().controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await.unwrap();
        assert_eq!(capabilities.into_inner().capabilities.len(), 4 + 2 + 3 + 1);
        let listed = rig.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner();
        assert_eq!(listed.entries.len(), 9);
        let abnormal = listed.entries.iter().filter(|it| it.status.as_ref().unwrap().volume_condition.as_ref().unwrap().abnormal);
        assert_eq!(abnormal.count(), 2);
        let get = |id: &str| {
            let (mut controller, volume_id) = (rig.controller.clone(), id.to_owned());
            async move { controller.controller_get_volume(ControllerGetVolumeRequest { volume_id }).await }
        };
        assert_eq!(get(&hybrid).await.unwrap().into_inner().volume.unwrap().capacity_bytes, 1 << 30);
        expect(get("dir/v1/default/csi-volumes/gone").await, Code::NotFound, &["csi-volumes/gone"]);
        rig.stop().await;

        // What the array can count gets a quota, as large as its PersistentVolume says.
        let fill = [&flags[..], &["--backfillmissingquotas"]].concat();
        let rig = Rig::start(directory, &cluster, &fill);
        reaches(&rig, &expected).await;
        eventually("a refusal", || rig.metric("weka_csi_quotas_not_created_total").iter().any(|line| !line.ends_with(" 0"))).await;
        cluster.array.control().add_data_services().await.unwrap();
        expected[5].1 = "ACTIVE";
        reaches(&rig, &expected).await;
        assert_eq!(cluster.quota("filled").await, (2 * GIB, 2 * GIB));
        rig.stop().await;
        let fill = [&fill[..], &["--setquotaonstaticvolumes"]].concat();
        let rig = Rig::start(directory, &cluster, &fill);
        expected[4].1 = "ACTIVE";
        reaches(&rig, &expected).await;
        assert_eq!(cluster.quota("chosen").await, (2 * GIB, 2 * GIB));
        for name in ["gone", "lost"] {
            // No controller runs here that would let go of it.
            server.kubectl(&["patch", "pv", name, "--patch={\"metadata\":{\"finalizers\":null}}"]).unwrap();
            server.kubectl(&["delete", "pv", name]).unwrap();
        }
        expected.retain(|(name, _)| !matches!(*name, "gone" | "lost"));
        reaches(&rig, &expected).await;
        rig.stop().await;
    }

    async fn snapshots_that_kubernetes_has_are_listed_where_the_array_has_them(directory: &Path) {
        let server = api_server().await;
        server.kubectl_with_input(&["apply", "-f", "-"], CONTENTS).unwrap();
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = format!("--kubeconfig={}", server.user("controller", &READ).unwrap().display());
        let flags = [&ALLOWED[..], &[&kubeconfig]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        apply(&server, &secret(&cluster));
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let content = |name: &str, source: Value| json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": { "name": name, "annotations": {
                "snapshot.storage.kubernetes.io/deletion-secret-name": "weka",
                "snapshot.storage.kubernetes.io/deletion-secret-namespace": "default",
            } },
            "spec": {
                "deletionPolicy": "Delete", "driver": "csi.weka.io", "source": source,
                "volumeSnapshotRef": { "name": name, "namespace": "default" },
            },
        });
        let mut ids = Vec::new();
        for number in 0..3 {
            let id = rig.snapshot(&format!("snapshot-{number}"), &volume).await.unwrap().snapshot_id;
            apply(&server, &content(&format!("content-{number}"), json!({ "snapshotHandle": id })));
            ids.push(id);
        }
        ids.sort();
        apply(&server, &content("gone", json!({ "snapshotHandle": "wekasnap/v2/default:gone:GONE" })));
        let list = |request: ListSnapshotsRequest| {
            let mut controller = rig.controller.clone();
            async move {
                let listed = controller.list_snapshots(request).await.unwrap().into_inner();
                let snapshots = listed.entries.into_iter().map(|entry| entry.snapshot.unwrap());
                (snapshots.collect::<Vec<_>>(), listed.next_token)
            }
        };
        let (all, _) = list(ListSnapshotsRequest::default()).await;
        assert_eq!(all.iter().map(|it| it.snapshot_id.clone()).collect::<Vec<_>>(), ids);
        assert!(all.iter().all(|it| it.source_volume_id == volume && it.ready_to_use && it.creation_time.is_some()));
        let (first, token) = list(ListSnapshotsRequest { max_entries: 2, ..ListSnapshotsRequest::default() }).await;
        let (rest, _) = list(ListSnapshotsRequest { starting_token: token, ..ListSnapshotsRequest::default() }).await;
        assert_eq!((first.len(), rest.len()), (2, 1));
        let (one, _) = list(ListSnapshotsRequest { snapshot_id: ids[1].clone(), ..ListSnapshotsRequest::default() }).await;
        assert_eq!(one.len(), 1);
        // Somebody imported one and named no secret: that of the request counts, also for one that Kubernetes has not yet.
        let imported = rig.snapshot("imported", &volume).await.unwrap().snapshot_id;
        let by_id = |secrets: &Map| ListSnapshotsRequest { snapshot_id: imported.clone(), secrets: secrets.clone(), ..ListSnapshotsRequest::default() };
        assert_eq!(list(by_id(&rig.secret)).await.0.len(), 1);
        let mut bare = content("bare", json!({ "snapshotHandle": imported }));
        bare["metadata"]["annotations"] = json!(null);
        apply(&server, &bare);
        let (found, _) = list(by_id(&rig.secret)).await;
        assert_eq!((found.len(), &found[0].snapshot_id, &found[0].source_volume_id), (1, &imported, &volume));
        assert_eq!(list(by_id(&Map::new())).await.0.len(), 0, "nobody can be asked");
        let (all, _) = list(ListSnapshotsRequest { secrets: rig.secret.clone(), ..ListSnapshotsRequest::default() }).await;
        assert_eq!(all.len(), 4);
        let short = imported.strip_prefix("wekasnap/v2/").unwrap();
        rig.delete_snapshot(short).await.unwrap();
        assert_eq!(list(by_id(&rig.secret)).await.0.len(), 0, "it was deleted by the short form of its handle");
        rig.delete_snapshot(&ids[0]).await.unwrap();
        let (left, _) = list(ListSnapshotsRequest { source_volume_id: volume.clone(), ..ListSnapshotsRequest::default() }).await;
        assert_eq!(left.len(), 2, "what the array has not is not there");
        rig.stop().await;
    }
}
