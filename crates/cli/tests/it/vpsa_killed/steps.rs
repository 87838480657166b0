//! What somebody asks for, one thing after the other, and what the driver does for it.

use serde_json::{Value, json};
use stowage_sim::moment::now;
use stowage_sim::vpsa::state::State;
use stowage_sim::vpsa::state::objects::Volume;

/// A kind, a name, and how the object of it should be; null is none.
pub type Wanted = (&'static str, &'static str, fn(&Value) -> bool);

/// A change that somebody asks for, and what the driver does for it on the array: it does not live to see the answer.
pub struct Step {
    /// What is asked for, in words of `kubectl` or as an object.
    pub asked: Asked,
    /// The request that is its last.
    pub request: (&'static str, &'static str),
    /// That request has been carried out.
    pub is_done: fn(&State) -> bool,
    /// What was asked for is there, as the object says.
    pub object: Wanted,
}

pub enum Asked {
    Object(Value),
    Words(Vec<String>),
}

pub fn object(kind: &str, name: &str, spec: &Value) -> Asked {
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
pub fn life() -> Vec<Step> {
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
