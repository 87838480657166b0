//! Many changes a second, of which few concern anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::faults::Mode;
use crate::reconcile::rig::{example, resource};
use crate::reconcile::running::{Running, children, eventually, synced};

/// Changes a second, where the machine has the time for them.
const RATE: u32 = 50;
/// How many people make them.
const PEOPLE: u32 = 5;
/// How often the DaemonSet is deleted meanwhile, and how many changes there are for each time.
const ROUNDS: u32 = 3;
const CHANGES: u32 = 100;
/// How long a deleted object may be away. The server's clock has no parts of seconds, and somebody has to notice.
const AWAY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the storm lasts in `./x soak`. Time is measured only there, where the machine does nothing else.
fn soak() -> Option<Duration> {
    let seconds = std::env::var("STOWAGE_SOAK_STORM_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// Volumes, each with a secret of its own: each is news for their driver. People take turns, without a pause.
async fn storm(client: Client, person: u32, made: Arc<AtomicU32>) {
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let volumes = Api::<DynamicObject>::all_with(client, &volumes);
    let turn = Duration::from_secs(1) / RATE;
    tokio::time::sleep(turn * person).await;
    let mut ticks = tokio::time::interval(turn * PEOPLE);
    loop {
        ticks.tick().await;
        let count = made.fetch_add(1, Ordering::Relaxed);
        let secret = json!({"name": format!("s{count}"), "namespace": "default"});
        let volume = json!({
            "metadata": {"name": format!("storm-{count}")},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "default.example", "volumeHandle": "v", "controllerPublishSecretRef": secret},
            },
        });
        let volume = serde_json::from_value(volume).unwrap();
        let created = volumes.create(&PostParams::default(), &volume).await;
        created.unwrap();
    }
}

/// How long the DaemonSet is away after somebody deleted it, by the server's clock.
async fn away(sets: &Api<DynamicObject>) -> Duration {
    let old = sets.get("hostpath-node").await.unwrap().metadata.uid;
    let (deleted, deletion) = (Timestamp::now(), DeleteParams::default());
    sets.delete("hostpath-node", &deletion).await.unwrap();
    let back = eventually("the DaemonSet is back", async || {
        let found = sets.get_opt("hostpath-node").await.unwrap();
        found.filter(|it| it.metadata.uid != old)
    })
    .await;
    let created = back.metadata.creation_timestamp.unwrap().0;
    Duration::try_from(created.duration_since(deleted)).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_changes_delays_nothing_and_bothers_only_whom_it_concerns() {
    let running = Running::start().await;
    let (calm, seen) = (running.client.clone(), &running.requests);
    let mut other = example("other");
    other["metadata"] = json!({"name": "other", "namespace": "default"});
    for instance in [example("default"), other] {
        running.create(instance).await;
    }
    for name in ["hostpath", "other"] {
        synced(&calm, name).await;
    }
    // What they made themselves has been heard of.
    eventually("nobody asks for the other", async || {
        seen.start(Mode::Off);
        tokio::time::sleep(Duration::from_secs(1)).await;
        seen.sent("/other-node").is_empty().then_some(())
    })
    .await;

    let (made, soak, begun) = (Arc::new(AtomicU32::new(0)), soak(), Instant::now());
    let people = (0..PEOPLE).map(|it| tokio::spawn(storm(calm.clone(), it, Arc::clone(&made))));
    let people: Vec<_> = people.collect();
    let sets = children(&calm, Kind::DaemonSet).await;
    let mut rounds = 0;
    while rounds < ROUNDS || soak.is_some_and(|it| begun.elapsed() < it) {
        rounds += 1;
        eventually("it rages", async || {
            (made.load(Ordering::Relaxed) >= rounds * CHANGES).then_some(())
        })
        .await;
        // It comes back before the storm is over: that goes on until it has.
        let away = away(&sets).await;
        assert!(soak.is_none() || away <= AWAY + PATIENCE, "{away:?}");
    }
    let (made, lasted) = (made.load(Ordering::Relaxed), begun.elapsed());
    assert!(people.iter().all(|it| !it.is_finished()));
    for raging in people {
        raging.abort();
    }
    if soak.is_some() {
        let rate = f64::from(made) / lasted.as_secs_f64();
        assert!(rate > f64::from(RATE) * 0.4, "{rate} changes a second");
    }
    let about_the_other = seen.sent("/other-node");
    assert_eq!(about_the_other, Vec::<String>::new());
    running.stop().await;
}
