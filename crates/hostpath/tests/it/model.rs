//! Random sequences of calls against a simple model, and the same call many times at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use stowage_csi::proto::csi::{CreateVolumeRequest, NodeStageVolumeRequest, VolumeCapability};
use tonic::{Code, Status};

use crate::rig::{Rig, block, exactly, filesystem, text};
use crate::support::{MIB, isolated, small_disk, unmount};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const PODS: [&str; 3] = ["p", "q", "r"];
const SNAPSHOTS: [&str; 2] = ["s", "t"];

/// How long random sequences run.
const LONG_ENOUGH: Duration = Duration::from_secs(6);

struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

#[derive(Default)]
struct Volume {
    id: String,
    bytes: u64,
    staged: bool,
    pods: BTreeSet<&'static str>,
}

#[derive(Default)]
struct Model {
    volumes: BTreeMap<&'static str, Volume>,
    /// Name of the snapshot, its id and its source.
    snapshots: BTreeMap<&'static str, (String, String)>,
    /// Ids stay what they were: they are made from names.
    ids: BTreeMap<&'static str, String>,
}

fn code<T>(answer: &Result<T, Status>) -> Code {
    answer.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

/// One random call: what the driver answered and what it should have. Raw block volumes, on a disk without reflink.
async fn step(rig: &Rig, model: &mut Model, random: &mut Random) -> (String, Code, Code) {
    let name = random.of(&NAMES);
    let pod = random.of(&PODS);
    let snapshot = random.of(&SNAPSHOTS);
    let bytes = [4, 8, 12][random.below(3)] * MIB;
    let id = model
        .ids
        .get(name)
        .cloned()
        .unwrap_or_else(|| format!("vol-{}-node-1", "0".repeat(32)));
    let known = model.volumes.contains_key(name);
    let volume = model.volumes.entry(name).or_default();
    let missing = |otherwise: Code| if known { otherwise } else { Code::NotFound };
    let (call, got, expected) = match random.below(9) {
        0 => {
            let answer = rig.create(name, bytes, &block()).await;
            let expected = if known && bytes > volume.bytes {
                Code::AlreadyExists
            } else {
                Code::Ok
            };
            if let (Ok(made), false) = (&answer, known) {
                *volume = Volume {
                    id: made.volume_id.clone(),
                    bytes,
                    ..Volume::default()
                };
                model.ids.insert(name, made.volume_id.clone());
            }
            (format!("create {name} {bytes}"), code(&answer), expected)
        }
        1 => {
            let answer = rig.delete(&id).await;
            let expected = if volume.staged {
                Code::FailedPrecondition
            } else {
                Code::Ok
            };
            if answer.is_ok() {
                *volume = Volume::default();
            }
            (format!("delete {name}"), code(&answer), expected)
        }
        2 => {
            let answer = rig.stage(&id, &block()).await;
            volume.staged |= answer.is_ok();
            (format!("stage {name}"), code(&answer), missing(Code::Ok))
        }
        3 => {
            let answer = rig.unstage(&id).await;
            let expected = if volume.pods.is_empty() {
                Code::Ok
            } else {
                Code::FailedPrecondition
            };
            volume.staged &= answer.is_err();
            (format!("unstage {name}"), code(&answer), missing(expected))
        }
        4 | 5 => {
            let answer = rig.publish(&id, &format!("{name}-{pod}"), &block()).await;
            let expected = if volume.staged {
                Code::Ok
            } else {
                Code::FailedPrecondition
            };
            if answer.is_ok() {
                volume.pods.insert(pod);
            }
            (
                format!("publish {name} {pod}"),
                code(&answer),
                missing(expected),
            )
        }
        6 => {
            let answer = rig.unpublish(&id, &format!("{name}-{pod}")).await;
            volume.pods.remove(pod);
            (format!("unpublish {name} {pod}"), code(&answer), Code::Ok)
        }
        7 => {
            let answer = rig.expand(&id, bytes).await;
            if let (Ok(now), true) = (&answer, known) {
                volume.bytes = volume.bytes.max(bytes);
                assert_eq!(*now as u64, volume.bytes);
            }
            (
                format!("expand {name} {bytes}"),
                code(&answer),
                missing(Code::Ok),
            )
        }
        _ if random.below(2) == 0 => {
            let answer = rig.snapshot(snapshot, &id).await;
            let expected = match model.snapshots.get(snapshot) {
                Some((_, source)) if *source == id => Code::Ok,
                Some(_) => Code::AlreadyExists,
                None if volume.staged => Code::FailedPrecondition,
                None => missing(Code::Ok),
            };
            if let Ok(taken) = &answer {
                model
                    .snapshots
                    .insert(snapshot, (taken.snapshot_id.clone(), id.clone()));
            }
            (
                format!("snapshot {snapshot} of {name}"),
                code(&answer),
                expected,
            )
        }
        _ => {
            let id = model.snapshots.remove(snapshot).map(|(id, _)| id);
            let answer = rig
                .delete_snapshot(&id.unwrap_or_else(|| "unknown".to_owned()))
                .await;
            (
                format!("delete snapshot {snapshot}"),
                code(&answer),
                Code::Ok,
            )
        }
    };
    if model.volumes[name].id.is_empty() {
        model.volumes.remove(name);
    }
    (call, got, expected)
}

/// What the driver tells of itself is what the model has.
async fn compare(rig: &Rig, model: &Model) {
    let listed: BTreeMap<_, _> = rig
        .volumes()
        .await
        .into_iter()
        .map(|entry| {
            let volume = entry.volume.unwrap();
            (volume.volume_id, volume.capacity_bytes as u64)
        })
        .collect();
    let expected: BTreeMap<_, _> = model
        .volumes
        .values()
        .map(|volume| (volume.id.clone(), volume.bytes))
        .collect();
    assert_eq!(listed, expected);
    let taken = rig.snapshots(Default::default()).await.len();
    assert_eq!(taken, model.snapshots.len());
    assert_eq!(rig.files().len(), 2 * (listed.len() + taken));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let published = mounts
        .lines()
        .filter(|line| line.contains(&text(&rig.target(""))))
        .count();
    assert_eq!(
        published,
        model
            .volumes
            .values()
            .map(|volume| volume.pods.len())
            .sum::<usize>()
    );
}

async fn clean_up(rig: &Rig, model: Model) {
    for (name, volume) in model.volumes {
        for pod in volume.pods {
            rig.unpublish(&volume.id, &format!("{name}-{pod}"))
                .await
                .unwrap();
        }
        rig.unstage(&volume.id).await.unwrap();
        rig.delete(&volume.id).await.unwrap();
    }
    for (id, _) in model.snapshots.into_values() {
        rig.delete_snapshot(&id).await.unwrap();
    }
    assert_eq!(rig.files().len(), 0);
}

isolated! {
    async fn random_sequences_end_as_a_simple_model_says(directory: &Path) {
        let state = small_disk(directory, 512 * MIB);
        let flag = format!("--statedir={}", state.display());
        let started = Instant::now();
        let (mut seed, mut calls) = (1, 0);
        while started.elapsed() < LONG_ENOUGH {
            let mut rig = Rig::start(directory, &[&flag, "--allow-volatile-statedir"]);
            let (mut model, mut random, mut history) = (Model::default(), Random::seeded(seed), Vec::new());
            for number in 0..60 {
                let (call, got, expected) = step(&rig, &mut model, &mut random).await;
                history.push(call);
                assert_eq!(got, expected, "seed {seed}: {history:#?}");
                compare(&rig, &model).await;
                calls += 1;
                if number == 30 {
                    // Nothing is remembered that is not on disk or in the kernel.
                    rig.stop().await;
                    rig = Rig::start(directory, &[&flag, "--allow-volatile-statedir"]);
                }
            }
            clean_up(&rig, model).await;
            rig.stop().await;
            seed += 1;
        }
        println!("{calls} calls in {} sequences", seed - 1);
        unmount(&state);
    }

    async fn the_same_call_many_times_at_once_has_one_result(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        for (name, capability) in [("fs", filesystem("")), ("raw", block())] {
            duplicates(&rig, name, &capability).await;
        }
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn many_clients_at_once_leave_everything_in_order(directory: &Path) {
        let state = small_disk(directory, 512 * MIB);
        let rig = std::sync::Arc::new(Rig::start(directory, &[&format!("--statedir={}", state.display()), "--allow-volatile-statedir"]));
        let mut ids = BTreeMap::new();
        for name in NAMES {
            ids.insert(name, rig.create(name, 4 * MIB, &block()).await.unwrap().volume_id);
        }
        let started = Instant::now();
        let clients: Vec<_> = (1..=8).map(|client| {
            let (rig, ids) = (rig.clone(), ids.clone());
            tokio::spawn(async move {
                let mut random = Random::seeded(client);
                let mut calls = 0;
                while started.elapsed() < LONG_ENOUGH / 2 {
                    // Each with a model of its own, which is wrong: only the kind of answer is judged.
                    let (call, got, _) = step(&rig, &mut Model { ids: ids.clone(), ..Model::default() }, &mut random).await;
                    let fine = [Code::Ok, Code::Aborted, Code::NotFound, Code::AlreadyExists, Code::FailedPrecondition];
                    assert!(fine.contains(&got), "{call}: {got:?}");
                    calls += 1;
                }
                calls
            })
        }).collect();
        let mut calls = 0;
        for client in clients {
            calls += client.await.unwrap();
        }
        println!("{calls} calls");
        for (name, id) in ids {
            for pod in PODS {
                rig.unpublish(&id, &format!("{name}-{pod}")).await.unwrap();
            }
            // It may be gone.
            let _ = rig.unstage(&id).await;
            rig.delete(&id).await.unwrap();
        }
        for snapshot in rig.snapshots(Default::default()).await {
            rig.delete_snapshot(&snapshot.snapshot_id).await.unwrap();
        }
        assert_eq!(rig.files().len(), 0);
        std::sync::Arc::into_inner(rig).unwrap().stop().await;
        unmount(&state);
    }
}

/// Sends the same call sixteen times at once: at least one succeeds, the others do or are told to come back.
async fn at_once<F, T>(call: impl Fn() -> F) -> Vec<T>
where
    F: Future<Output = Result<T, Status>> + Send + 'static,
    T: Send + 'static,
{
    let calls: Vec<_> = (0..16).map(|_| tokio::spawn(call())).collect();
    let mut done = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            Ok(answer) => done.push(answer),
            Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
        }
    }
    assert!(!done.is_empty());
    done
}

async fn duplicates(rig: &Rig, name: &str, capability: &VolumeCapability) {
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: exactly(32 * MIB),
        volume_capabilities: vec![capability.clone()],
        ..Default::default()
    };
    let made = at_once(|| {
        let (mut controller, request) = (rig.controller.clone(), request.clone());
        async move { controller.create_volume(request).await }
    })
    .await;
    let id = made[0].get_ref().volume.clone().unwrap().volume_id;
    assert!(
        made.iter()
            .all(|answer| answer.get_ref().volume.as_ref().unwrap().volume_id == id)
    );
    assert_eq!(rig.files().len(), 2);

    std::fs::create_dir_all(rig.staging(&id)).unwrap();
    let request = NodeStageVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: text(&rig.staging(&id)),
        volume_capability: Some(capability.clone()),
        ..Default::default()
    };
    at_once(|| {
        let (mut node, request) = (rig.node.clone(), request.clone());
        async move { node.node_stage_volume(request).await }
    })
    .await;
    let request = rig.publication(&id, name, capability);
    at_once(|| {
        let (mut node, request) = (rig.node.clone(), request.clone());
        async move { node.node_publish_volume(request).await }
    })
    .await;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(mounts.matches(&text(&rig.target(name))).count(), 1);
    rig.put_away(&id, name).await;
}
