//! `stowage driver vpsa` is killed after each change that it makes on its array, before it hears of it: whoever comes after it
//! finds everything as it is, makes nothing twice, and leaves nothing behind.

#![cfg(feature = "sim")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the driver is a process that is killed"
)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::testing::{ApiServer, Running};
use serde_json::{Value, json};
use stowage_sim::faults;
use stowage_sim::moment::now;
use stowage_sim::vpsa::control::{Fault, Trouble};
use stowage_sim::vpsa::state::State;
use stowage_sim::vpsa::state::objects::Volume;
use stowage_sim::vpsa::{Array, Options};
use tempfile::TempDir;
use tokio::time::sleep;

/// How long anything may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

const DEFINITIONS: &str = include_str!("../../../deploy/crds/storage.zadara.com.yaml");

/// A change that somebody asks for, and what the driver does for it on the array: it does not live to see the answer.
struct Step {
    /// What is asked for, in words of `kubectl` or as an object.
    asked: Asked,
    /// The request that is its last.
    request: (&'static str, &'static str),
    /// That request has been carried out.
    is_done: fn(&State) -> bool,
    /// What was asked for is there, as the object says.
    object: (&'static str, &'static str, fn(&Value) -> bool),
}

enum Asked {
    Object(Value),
    Words(Vec<String>),
}

fn object(kind: &str, name: &str, spec: &Value) -> Asked {
    Asked::Object(
        json!({"apiVersion": "storage.zadara.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}),
    )
}

fn volume(name: &str, more: &Value) -> Asked {
    let mut spec = json!({"VSCStorageClassName": "gold", "displayName": name, "size": "10Gi", "volumeType": "NAS"});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object("Volume", name, &spec)
}

/// Deletes what the array has once a request is done, and waits until its object is gone.
fn delete(
    kind: &'static str,
    name: &'static str,
    request: &'static str,
    is_done: fn(&State) -> bool,
) -> Step {
    let asked = [
        "delete".to_owned(),
        format!("{kind}.storage.zadara.com"),
        name.to_owned(),
        "--wait=false".to_owned(),
    ];
    let method = if request.ends_with("/detach") {
        "POST"
    } else {
        "DELETE"
    };
    Step {
        asked: Asked::Words(asked.to_vec()),
        request: (method, request),
        is_done,
        object: (kind, name, Value::is_null),
    }
}

/// Attaches the share `v`.
fn attach(request: &'static str, is_done: fn(&State) -> bool) -> Step {
    Step {
        asked: attachment("v", "NFS"),
        request: ("POST", request),
        is_done,
        object: ("volumeattachment", "v.n", is_ready),
    }
}

fn attachment(volume: &str, attach_type: &str) -> Asked {
    let spec = json!({"volumeName": volume, "VSCNodeName": "n", "attachType": attach_type, "readOnly": false});
    object("VolumeAttachment", &format!("{volume}.n"), &spec)
}

/// Changes the volume `v`.
fn change(spec: &Value) -> Asked {
    let patch = json!({ "spec": spec }).to_string();
    let words = [
        "patch",
        "volume.storage.zadara.com",
        "v",
        "--type=merge",
        "-p",
        &patch,
    ];
    Asked::Words(words.map(str::to_owned).to_vec())
}

fn is_ready(it: &Value) -> bool {
    let ready = &it["status"]["conditions"][0];
    it["status"]["state"] == "Ready" && ready["status"] == "True" && ready["reason"] == "Ready"
}

fn has(state: &State, name: &str) -> bool {
    let mut volumes = state.volumes.values().filter(|it| it.removed_at.is_none());
    volumes.any(|it| it.display_name == name)
}

/// A disk that is attached to the node of a share, and goes again.
fn disk() -> Vec<Step> {
    vec![
        Step {
            asked: volume("d", &json!({"volumeType": "Block"})),
            request: ("POST", "volumes"),
            is_done: |state| has(state, "d"),
            object: ("volume", "d", is_ready),
        },
        Step {
            asked: attachment("d", "ISCSI"),
            request: ("POST", "servers/*/volumes"),
            is_done: |state| state.attachments.len() == 2,
            // Nobody logs in here: the array has done its part.
            object: ("volumeattachment", "d.n", |it| {
                it["status"]["state"] == "ISCSILoginPending"
                    && it["status"]["Block"]["target"].is_string()
            }),
        },
        delete("volumeattachment", "d.n", "volumes/*/detach", |state| {
            state.attachments.len() == 1
        }),
        // Into the recycle bin.
        delete("volume", "d", "volumes/*", |state| {
            let mut volumes = state.volumes.values();
            volumes.all(|it| it.display_name != "d" || it.is_recycled())
        }),
    ]
}

/// The life of a volume that is attached, grown, copied, and deleted with everything around it.
fn life() -> Vec<Step> {
    let copy = json!({"size": "12Gi", "cloneSource": {"kind": "Snapshot", "name": "s"}});
    let mut steps = vec![
        Step {
            asked: volume("v", &json!({})),
            request: ("POST", "volumes"),
            is_done: |state| has(state, "v"),
            object: ("volume", "v", is_ready),
        },
        Step {
            asked: change(&json!({"size": "12Gi"})),
            request: ("POST", "volumes/*/expand"),
            is_done: |state| {
                state
                    .volumes
                    .values()
                    .any(|it| it.capacity_at(u64::MAX) == 12)
            },
            object: ("volume", "v", |it| {
                is_ready(it) && it["status"]["capacity"] == "12Gi"
            }),
        },
        Step {
            asked: change(&json!({"displayName": "w"})),
            request: ("POST", "volumes/*/rename"),
            is_done: |state| has(state, "w"),
            object: ("volume", "v", |it| {
                is_ready(it) && it["status"]["observedGeneration"] == it["metadata"]["generation"]
            }),
        },
        attach("servers", |state| !state.servers.is_empty()),
        delete("volumeattachment", "v.n", "volumes/*/detach", |state| {
            state.attachments.is_empty()
        }),
        attach("servers/*/volumes", |state| !state.attachments.is_empty()),
    ];
    steps.extend(disk());
    steps.extend([
        Step {
            asked: object(
                "Snapshot",
                "s",
                &json!({"displayName": "s", "volumeID": "v"}),
            ),
            request: ("POST", "consistency_groups/*/snapshots"),
            is_done: |state| !state.snapshots.is_empty(),
            object: ("snapshot", "s", is_ready),
        },
        Step {
            asked: volume("copy", &copy),
            request: ("POST", "consistency_groups/*/clone"),
            // The array makes copies out of sight. Before one is seen it may be asked for again, which is refused.
            is_done: |state| {
                let mut volumes = state.volumes.values();
                volumes.any(|it| it.display_name == "copy" && it.is_seen(now()))
            },
            object: ("volume", "copy", is_ready),
        },
        delete(
            "volume",
            "copy",
            "volumes/*/delete_volume_from_recycle_bin",
            |state| !has(state, "copy"),
        ),
        delete("snapshot", "s", "snapshots/*", |state| {
            state.snapshots.values().all(|it| it.removed_at.is_some())
        }),
        delete("volumeattachment", "v.n", "servers/*", |state| {
            state.servers.is_empty()
        }),
        // Into the recycle bin: the next one empties it.
        delete("volume", "v", "volumes/*", |state| {
            state.volumes.values().all(Volume::is_recycled)
        }),
    ]);
    steps
}

struct Scene {
    driver: Option<Running>,
    server: ApiServer,
    array: Array,
    directory: TempDir,
}

impl Scene {
    async fn set() -> Self {
        stowage_service::client::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let array = Array::start(Options::new(directory.path().join("array"))).await;
        let (array, server) = (array.unwrap(), ApiServer::start().unwrap());
        let scene = Self {
            driver: None,
            server,
            array,
            directory,
        };
        let keys = scene.directory.path().join("keys");
        std::fs::create_dir(&keys).unwrap();
        std::fs::write(keys.join("GLOBAL_ENCRYPTION_KEY"), "k".repeat(32)).unwrap();
        scene.apply(DEFINITIONS);
        scene.server.wait_for_definitions().unwrap();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        scene.apply(&node.to_string());
        let spec = json!({"VSCStorageClassName": "gold", "displayName": "one", "hostname": scene.array.hostname(),
            "token": scene.array.access_key(), "tls": {"enabled": false}});
        for asked in [
            object("VSCStorageClass", "gold", &json!({"displayName": "gold"})),
            object("VPSA", "one", &spec),
            object(
                "VSCNode",
                "n",
                &json!({"displayName": "n", "NAS": {"IP": "10.0.0.1"}, "block": {"IQN": "iqn.2026-01.test:n"}}),
            ),
        ] {
            scene.ask(&asked);
        }
        scene
    }

    fn apply(&self, manifest: &str) {
        let apply = ["apply", "-f", "-"];
        self.server.kubectl_with_input(&apply, manifest).unwrap();
    }

    fn ask(&self, asked: &Asked) {
        match asked {
            Asked::Object(object) => self.apply(&object.to_string()),
            Asked::Words(words) => {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                self.server.kubectl(&words).unwrap();
            }
        }
    }

    fn start_driver(&mut self) {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
        command
            .args(["driver", "vpsa", "--mode=controller", "--nodeid=n"])
            .arg(format!("--endpoint={}", path("csi.sock")))
            .arg(format!("--keys={}", path("keys")))
            .arg(format!(
                "--kubeconfig={}",
                self.server.kubeconfig().display()
            ))
            .args(["--monitor-interval=1s", "--import-existing=false"])
            .stderr(Stdio::null());
        self.driver = Some(Running(command.spawn().unwrap()));
    }

    async fn until(&self, (kind, name, holds): (&str, &str, fn(&Value) -> bool)) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let kind = format!("{kind}.storage.zadara.com");
            let words = ["get", &kind, name, "-o", "json", "--ignore-not-found"];
            let text = self.server.kubectl(&words).unwrap();
            let found = serde_json::from_str(&text).unwrap_or(Value::Null);
            if holds(&found) {
                return;
            }
            assert!(Instant::now() < deadline, "{kind} {name}: {found:#}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the array has done what it was asked to, and tells nobody.
    async fn until_done(&self, step: &Step) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.array.control().objects().await.unwrap();
            if (step.is_done)(&state) {
                return;
            }
            assert!(Instant::now() < deadline, "{:?} is not done", step.request);
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_killed_after_any_change_is_followed_by_one_that_goes_on() {
    let mut scene = Scene::set().await;
    scene.start_driver();
    let array_is_ready = |it: &Value| it["status"]["state"] == "Ready";
    scene.until(("vpsa", "one", array_is_ready)).await;
    for step in life() {
        let (method, path) = step.request;
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(1),
            trouble: Trouble::from(faults::Trouble::DoneButDelayed(600_000)),
            ..Fault::default()
        };
        scene.array.control().add_fault(fault).await.unwrap();
        scene.ask(&step.asked);
        scene.until_done(&step).await;
        // SIGKILL: it does not hear of it.
        drop(scene.driver.take());
        scene.array.control().clear_faults().await.unwrap();
        scene.start_driver();
        scene.until(step.object).await;
    }
    let left = scene.array.control().objects().await.unwrap();
    let left = (left.volumes.len(), left.snapshots.len(), left.servers.len());
    assert_eq!(left, (0, 0, 0));
    let counters = scene.array.control().counters().await.unwrap();
    // Once each, for a share and a disk; but for the server record, which was made twice because it went in between.
    for (kind, count) in [
        ("POST volumes", 2),
        ("POST volumes/*/expand", 1),
        ("POST volumes/*/rename", 1),
        ("POST servers", 2),
        ("POST servers/*/volumes", 3),
        ("POST consistency_groups/*/snapshots", 1),
        ("POST consistency_groups/*/clone", 1),
    ] {
        assert_eq!(counters[kind], count, "{kind}: {counters:?}");
    }
}
