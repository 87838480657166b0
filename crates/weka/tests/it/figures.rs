//! Condition and figures of all volumes where something is slow, fails or cannot be told, and which of several controllers has
//! them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use devcluster::testing::{ApiServer, Rule};
use serde_json::{Value, json};
use stowage_csi::proto::csi::ListVolumesRequest;
use stowage_sim::weka::control::{Fault, Trouble};

use crate::cluster::Cluster;
use crate::inventory::{READ, apply, reaches, secret, states, volume};
use crate::kubernetes::api_server;
use crate::rig::{GIB, Rig, SNAPSHOTS, eventually};

/// All volumes are read each second.
const OFTEN: [&str; 2] = [
    "--wekametricsfetchintervalseconds=1",
    "--wekametricsquotamapvalidityseconds=1",
];

const LEASES: Rule = Rule {
    groups: &["coordination.k8s.io"],
    resources: &["leases"],
    verbs: &[
        "get", "list", "watch", "create", "update", "patch", "delete",
    ],
};

/// The flag by which the driver may ask a server about volumes.
fn kubeconfig(server: &ApiServer, user: &str) -> String {
    let rules = [&READ[..], &[LEASES]].concat();
    let kubeconfig = server.user(user, &rules).unwrap();
    format!("--kubeconfig={}", kubeconfig.display())
}

/// What `ListVolumes` says of each volume.
async fn conditions(rig: &Rig) -> BTreeMap<String, String> {
    let mut controller = rig.controller.clone();
    let listed = controller.list_volumes(ListVolumesRequest::default()).await;
    let entries = listed.unwrap().into_inner().entries;
    let condition = |entry: stowage_csi::proto::csi::list_volumes_response::Entry| {
        let condition = entry.status.unwrap().volume_condition.unwrap();
        (entry.volume.unwrap().volume_id, condition.message)
    };
    entries.into_iter().map(condition).collect()
}

/// How often the quotas of a filesystem were listed since this was last asked.
async fn lists(cluster: &Cluster, path: &str) -> usize {
    let requests = cluster.array.control().take_requests().await.unwrap();
    requests.iter().filter(|it| it.path == path).count()
}

isolated! {
    async fn a_quota_that_takes_long_to_add_holds_nobody_up(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = kubeconfig(&server, "controller");
        let flags = [&OFTEN[..], &[&kubeconfig, "--backfillmissingquotas"]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        let dir = rig.create("dir", GIB, &[]).await.unwrap().volume_id;
        let control = cluster.array.control();
        control.add_data_services().await.unwrap();
        control.turn(|knobs| knobs.quota_delay = 3_600_000).await.unwrap();
        apply(&server, &secret(&cluster));
        for name in ["filled", "larger"] {
            std::fs::create_dir(cluster.files.join(name)).unwrap();
            std::fs::write(cluster.files.join(name).join("file"), "data").unwrap();
            apply(&server, &volume(name, &format!("weka/v2/default/{name}"), |_| {}));
        }
        apply(&server, &volume("dir", &dir, |_| {}));
        reaches(&rig, &[("dir", "ACTIVE"), ("filled", "ADDING"), ("larger", "ADDING")]).await;
        rig.stop().await;
    }

    async fn one_filesystem_in_trouble_hides_no_other_and_is_asked_less_and_less(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("sick", &json!({ "total_capacity": 8 * GIB })).await;
        let kubeconfig = kubeconfig(&server, "controller");
        let rig = Rig::start(directory, &cluster, &[&OFTEN[..], &[&kubeconfig]].concat());
        apply(&server, &secret(&cluster));
        for (name, class) in [("well", &[][..]), ("sick", &[("filesystemName", "sick")][..])] {
            let id = rig.create(name, GIB, class).await.unwrap().volume_id;
            apply(&server, &volume(name, &id, |_| {}));
        }
        reaches(&rig, &[("well", "ACTIVE"), ("sick", "ACTIVE")]).await;
        let uid = |name: &'static str| {
            let cluster = &cluster;
            async move { cluster.filesystem(name).await["uid"].as_str().unwrap().to_owned() }
        };
        let path = |uid: String| format!("fileSystems/{uid}/quota");
        let (sick, well) = (path(uid("sick").await), path(uid("default").await));
        let fault = Fault {
            method: Some("GET".to_owned()),
            path: Some(sick.clone()),
            trouble: Trouble::Refuse(400),
            ..Fault::default()
        };
        cluster.array.control().add_fault(fault).await.unwrap();
        reaches(&rig, &[("well", "ACTIVE"), ("sick", "UNKNOWN")]).await;
        let health = rig.metric("weka_csi_volume_health_status");
        assert_eq!(health.len(), 1, "nobody knows whether the other one is well: {health:?}");
        assert!(health[0].contains(r#"pv_name="well""#) && health[0].ends_with(" 1"), "{health:?}");
        // The others are read as often as before.
        lists(&cluster, &sick).await;
        let (mut of_sick, mut of_well) = (0, 0);
        while of_well < 6 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let requests = cluster.array.control().take_requests().await.unwrap();
            of_sick += requests.iter().filter(|it| it.path == sick).count();
            of_well += requests.iter().filter(|it| it.path == well).count();
        }
        assert!(of_sick < of_well, "{of_sick} of {of_well}");
        cluster.array.control().clear_faults().await.unwrap();
        reaches(&rig, &[("well", "ACTIVE"), ("sick", "ACTIVE")]).await;
        rig.stop().await;
    }

    async fn nobody_is_said_to_lack_a_quota_where_that_cannot_be_told(directory: &Path) {
        let server = api_server().await;
        // It does not resolve paths, and lists no quotas of snapshots.
        let cluster = Cluster::start(directory, |options| options.release = Some("4.2.0".parse().unwrap())).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        let kubeconfig = kubeconfig(&server, "controller");
        let flags = [&OFTEN[..], &[&kubeconfig]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        apply(&server, &secret(&cluster));
        let dir = rig.create("dir", GIB, &[]).await.unwrap().volume_id;
        let snap = rig.create("snap", GIB, &SNAPSHOTS).await.unwrap().volume_id;
        std::fs::create_dir(cluster.files.join("chosen")).unwrap();
        for (name, handle) in [("dir", &*dir), ("snap", &snap), ("static", "weka/v2/default/chosen")] {
            apply(&server, &volume(name, handle, |_| {}));
        }
        reaches(&rig, &[("dir", "ACTIVE"), ("snap", "UNKNOWN"), ("static", "NONE")]).await;
        assert!(rig.metric("weka_csi_volumes_without_quota")[0].ends_with(" 1"));
        let said = conditions(&rig).await;
        assert!(said[&snap].contains("4.2.0"), "{said:?}");
        rig.stop().await;
        // Without lists nobody looks at all.
        let rig = Rig::start(directory, &cluster, &[&flags[..], &["--fetchquotasinbatchmode=false"]].concat());
        reaches(&rig, &[("dir", "UNKNOWN"), ("snap", "UNKNOWN"), ("static", "UNKNOWN")]).await;
        rig.stop().await;
    }

    async fn quotas_are_read_page_by_page_or_one_by_one(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |options| {
            options.page_size = 2;
            options.listen.push(options.listen[0]);
        })
        .await;
        let kubeconfig = kubeconfig(&server, "controller");
        let limits = ["--wekametricsfetchconcurrentrequests=1", "--wekametricsquotaupdateconcurrentrequests=1"];
        let flags = [&OFTEN[..], &limits, &[&kubeconfig, "--rotateapiendpointoneachrequest"]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        apply(&server, &secret(&cluster));
        let mut expected = Vec::new();
        for name in ["one", "two", "three", "four", "five"] {
            let id = rig.create(name, GIB, &[]).await.unwrap().volume_id;
            apply(&server, &volume(name, &id, |_| {}));
            expected.push((name, "ACTIVE"));
        }
        reaches(&rig, &expected).await;
        let requests = cluster.array.control().take_requests().await.unwrap();
        let endpoints: std::collections::BTreeSet<_> = requests.iter().map(|it| it.endpoint).collect();
        assert_eq!(endpoints.len(), 2, "each request goes to another endpoint");
        let uid = cluster.filesystem("default").await["uid"].as_str().unwrap().to_owned();
        let all = format!("fileSystems/{uid}/quota");
        let mut pages = requests.iter().filter(|it| it.path == all);
        assert!(pages.any(|it| it.query.contains("next_token=")), "a list has several pages");
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &[&flags[..], &["--fetchquotasinbatchmode=false"]].concat());
        cluster.array.control().take_requests().await.unwrap();
        reaches(&rig, &expected).await;
        assert_eq!(lists(&cluster, &all).await, 0, "nothing is listed");
        rig.stop().await;
    }

    async fn whichever_controller_is_asked_knows_the_volumes_and_one_shows_them(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        let kubeconfig = kubeconfig(&server, "controller");
        let flags = [&OFTEN[..], &[&kubeconfig, "--mode=controller", "--enablemetricsserverleaderelection"]].concat();
        let first = Rig::start(directory, &cluster, &flags);
        apply(&server, &secret(&cluster));
        let id = first.create("volume", GIB, &[]).await.unwrap().volume_id;
        apply(&server, &volume("volume", &id, |_| {}));
        reaches(&first, &[("volume", "ACTIVE")]).await;
        let other = directory.join("other");
        std::fs::create_dir(&other).unwrap();
        for file in ["modules", "interface"] {
            std::os::unix::fs::symlink(directory.join(file), other.join(file)).unwrap();
        }
        let second = Rig::start(&other, &cluster, &flags);
        // The one that the sidecar asks need not be the one that reads the volumes.
        let said = |rig: &Rig| {
            let rig = rig.controller.clone();
            async move {
                let listed = rig.clone().list_volumes(ListVolumesRequest::default()).await;
                let entry = listed.unwrap().into_inner().entries.pop();
                entry.map(|entry| entry.status.unwrap().volume_condition.unwrap().message)
            }
        };
        let mut answer = None;
        for _ in 0..100 {
            answer = said(&second).await;
            if answer.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(answer.as_deref(), Some("the volume is healthy"));
        assert_eq!(states(&second), BTreeMap::new(), "one of them shows the figures");
        // Somebody takes the lease away: what was shown goes with it.
        let lease: Value = {
            let lease = server.kubectl(&["get", "lease", "csi.weka.io-figures", "-n", "default", "-o", "json"]);
            serde_json::from_str(&lease.unwrap()).unwrap()
        };
        assert!(!lease["spec"]["holderIdentity"].is_null());
        let stolen = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"}});
        let steal = ["patch", "lease", "csi.weka.io-figures", "-n", "default", "--type=merge", "--patch", &stolen.to_string()];
        server.kubectl(&steal).unwrap();
        eventually("the end of the figures", || states(&first).is_empty()).await;
        first.stop().await;
        second.stop().await;
    }
}
