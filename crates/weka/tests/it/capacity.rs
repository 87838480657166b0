//! Filesystems that promise no more than they have, and volumes that may exceed their size for a while.

use std::path::Path;
use std::time::Duration;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::ListVolumesRequest;
use stowage_sim::weka::control::Trouble;
use tonic::Code;

use crate::cluster::Cluster;
use crate::crash::held;
use crate::inventory::{READ, apply, secret, volume};
use crate::kubernetes::api_server;
use crate::rig::{GIB, Rig, expect};

const ON_SMALL: [(&str, &str); 1] = [("filesystemName", "small")];

isolated! {
    async fn a_filesystem_promises_no_more_than_it_has(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("small", &json!({ "total_capacity": 4 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &["--enforcedirvoltotalcapacity"]);
        let first = rig.create("first", 2 * GIB, &ON_SMALL).await.unwrap().volume_id;
        rig.create("second", GIB, &ON_SMALL).await.unwrap();
        let full = ["`small`", "4294967296", "3221225472", "--enforcedirvoltotalcapacity"];
        expect(rig.create("third", 2 * GIB, &ON_SMALL).await, Code::ResourceExhausted, &full);
        expect(rig.expand(&first, 4 * GIB).await, Code::ResourceExhausted, &["`small`", "1073741824"]);
        rig.create("third", GIB, &ON_SMALL).await.unwrap();
        assert_eq!(rig.create("first", 2 * GIB, &ON_SMALL).await.unwrap().volume_id, first, "it has its room");
        // Room that is given back counts at once.
        rig.delete(&first).await.unwrap();
        let storm = (0..6).map(|number| {
            let (rig, name) = (&rig, format!("storm-{number}"));
            async move { rig.create(&name, GIB, &ON_SMALL).await }
        });
        let made = futures::future::join_all(storm).await;
        let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
        assert_eq!((made.len(), refused.len()), (2, 4), "however many come at once");
        rig.stop().await;
        let rig = Rig::start(directory, &cluster, &["--enforcedirvoltotalcapacity", "--allowautofsexpansion"]);
        rig.create("grown", 2 * GIB, &ON_SMALL).await.unwrap();
        assert_eq!(cluster.filesystem("small").await["total_budget"], 6 * GIB, "it grows to the sum");
        let rig = rig.legacy();
        expect(rig.create("blind", GIB, &ON_SMALL).await, Code::InvalidArgument, &["--enforcedirvoltotalcapacity", "API"]);
        rig.stop().await;
    }

    async fn volumes_that_come_at_once_do_not_shrink_their_filesystem(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("small", &json!({ "total_capacity": 2 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &["--allowautofsexpansion"]);
        rig.create("first", GIB, &ON_SMALL).await.unwrap();
        // The smaller one decides first, and is served last: if the larger one did not wait for it, that would be through long
        // before many others are.
        cluster.fault("PUT", "fileSystems/*", 1, Trouble::Hold).await;
        let smaller = rig.create("smaller", 3 * GIB, &ON_SMALL);
        let larger = async {
            held(&cluster, "fileSystems/*").await;
            rig.create("larger", 5 * GIB, &ON_SMALL).await
        };
        let release = async {
            held(&cluster, "fileSystems/*").await;
            for number in 0..10 {
                rig.create(&format!("other-{number}"), GIB, &[]).await.unwrap();
            }
            cluster.array.control().clear_faults().await.unwrap();
        };
        let (smaller, larger, ()) = tokio::join!(smaller, larger, release);
        smaller.unwrap();
        larger.unwrap();
        assert_eq!(cluster.filesystem("small").await["total_budget"], 5 * GIB);
        rig.stop().await;
    }

    async fn volumes_without_a_quota_count_as_large_as_kubernetes_says(directory: &Path) {
        let server = api_server().await;
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("small", &json!({ "total_capacity": 6 * GIB })).await;
        let kubeconfig = format!("--kubeconfig={}", server.user("controller", &READ).unwrap().display());
        let rig = Rig::start(directory, &cluster, &["--enforcedirvoltotalcapacity", &kubeconfig]);
        apply(&server, &secret(&cluster));
        // Two claims of one directory, one of which names it in the older way; one of which nobody can tell on which cluster it
        // is, and one that has a quota.
        apply(&server, &volume("static", "weka/v2/small/shared", |_| {}));
        apply(&server, &volume("again", "dir/v1/small/shared", |_| {}));
        apply(&server, &volume("elsewhere", "dir/v1/small/other", |it| it["spec"]["csi"]["nodePublishSecretRef"] = json!(null)));
        let first = rig.create("first", GIB, &ON_SMALL).await.unwrap().volume_id;
        apply(&server, &volume("first", &first, |_| {}));
        let listed = || async {
            let listed = rig.controller.clone().list_volumes(ListVolumesRequest::default()).await;
            listed.unwrap().into_inner().entries.len()
        };
        while listed().await < 4 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let full = ["`small`", "3221225472", "--enforcedirvoltotalcapacity"];
        expect(rig.create("second", 4 * GIB, &ON_SMALL).await, Code::ResourceExhausted, &full);
        rig.create("second", 3 * GIB, &ON_SMALL).await.unwrap();
        rig.stop().await;
    }

    async fn a_soft_limit_may_have_a_grace_period(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let class = [("capacityEnforcement", "SOFT"), ("quotaGracePeriod", "1h30m")];
        let id = rig.create("soft", GIB, &class).await.unwrap().volume_id;
        rig.expand(&id, 2 * GIB).await.unwrap();
        let uid = cluster.filesystem("default").await["uid"].as_str().unwrap().to_owned();
        let quotas = cluster.call("GET", &format!("fileSystems/{uid}/quota"), None).await;
        assert_eq!((&quotas[0]["grace_seconds"], &quotas[0]["soft_limit_bytes"]), (&json!(5400), &json!(2 * GIB)));
        // A hard limit has no use for it, and does not lose it.
        for enforcement in ["HARD", "SOFT"] {
            rig.modify(&id, &[("capacityEnforcement", enforcement)]).await.unwrap();
        }
        let quotas = cluster.call("GET", &format!("fileSystems/{uid}/quota"), None).await;
        assert_eq!((&quotas[0]["grace_seconds"], &quotas[0]["soft_limit_bytes"]), (&json!(5400), &json!(2 * GIB)));
        assert!(quotas[0]["hard_limit_bytes"].as_u64().unwrap() > 2 * GIB, "{quotas}");
        expect(rig.create("odd", GIB, &[("quotaGracePeriod", "soon")]).await, Code::InvalidArgument, &["`quotaGracePeriod`", "72h"]);
        rig.stop().await;
    }
}
