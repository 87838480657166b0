//! Many changes a second, of which few concern anybody.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::Kind;
use stowage_operator::driver_deployment::run;
use stowage_service::Metrics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::faults::{Faults, Mode};
use crate::rig::{client_of, example, resource, start_server};
use crate::running::{children, eventually, instances, operator, synced};

/// Fifty volumes a second, each with a secret of its own: each is news for their driver.
async fn storm(client: Client) {
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let volumes = Api::all_with(client, &volumes);
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for count in 0.. {
        ticks.tick().await;
        let secret = json!({"name": format!("s{count}"), "namespace": "default"});
        let volume = json!({
            "metadata": {"name": format!("storm-{count}")},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "default.example", "volumeHandle": "v", "controllerPublishSecretRef": secret},
            },
        });
        let volume = serde_json::from_value(volume).unwrap();
        let _: kube::api::DynamicObject = volumes
            .create(&PostParams::default(), &volume)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_changes_delays_nothing_and_bothers_only_whom_it_concerns() {
    let server = start_server();
    let (seen, unseen) = (Faults::default(), Faults::default());
    let client = client_of(&server, &seen).await;
    let (_config, configured) = watch::channel(OperatorConfig::default());
    let shutdown = CancellationToken::new();
    let running = operator(&client, configured, &Metrics::new());
    let running = tokio::spawn(run(running, shutdown.clone()));
    let calm = client_of(&server, &unseen).await;
    let mut other = example("other");
    other["metadata"] = json!({"name": "other", "namespace": "default"});
    for instance in [example("default"), other] {
        let instance = serde_json::from_value(instance).unwrap();
        instances(&calm)
            .create(&PostParams::default(), &instance)
            .await
            .unwrap();
    }
    for name in ["hostpath", "other"] {
        synced(&calm, name).await;
    }
    // What they made themselves has been heard of.
    tokio::time::sleep(Duration::from_secs(1)).await;
    seen.start(Mode::Off);

    let raging = tokio::spawn(storm(calm.clone()));
    let sets = children(&calm, Kind::DaemonSet).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let deletion = DeleteParams::default();
        sets.delete("hostpath-node", &deletion).await.unwrap();
        let begun = Instant::now();
        eventually("the DaemonSet is back", async || {
            sets.get_opt("hostpath-node").await.unwrap()
        })
        .await;
        let took = begun.elapsed();
        // Without the gathering of triggers it took as long as the storm lasts; a loaded machine takes a while, too.
        assert!(took < Duration::from_secs(15), "{took:?}");
    }
    assert!(!raging.is_finished());
    raging.abort();
    let about_the_other = seen.sent("/other-node");
    assert_eq!(about_the_other, Vec::<String>::new());
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
