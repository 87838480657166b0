use serde_json::{Value, json};
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;

use super::*;

const DRIVER: &str = "disk.csi.test";
const FINALIZER: &str = "external-attacher/disk-csi-test";

fn rules() -> Rules {
    Rules {
        driver: DRIVER.to_owned(),
        finalizer: finalizer(DRIVER),
        publishes: true,
        publishes_read_only: false,
        single_node_multi_writer: false,
        default_fs_type: "ext4".to_owned(),
    }
}

fn trivial() -> Rules {
    Rules {
        publishes: false,
        ..rules()
    }
}

/// An attachment as the attach/detach controller makes it, with words for what happened to it since.
fn attachment(words: &str) -> Attachment {
    let mut object = json!({
        "metadata": { "name": "va", "uid": "1" },
        "spec": {
            "attacher": DRIVER,
            "nodeName": "north",
            "source": { "persistentVolumeName": "pv" },
        },
    });
    for word in words.split_whitespace() {
        match word {
            "attached" => object["status"]["attached"] = json!(true),
            "marked" => object["metadata"]["finalizers"] = json!([FINALIZER]),
            "held" => object["metadata"]["finalizers"] = json!(["somebody/else"]),
            "deleting" => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "inline" => object["spec"]["source"] = json!({ "inlineVolumeSpec": {} }),
            id => {
                object["metadata"]["annotations"][NODE_ID] = json!(id.strip_prefix("id=").unwrap());
            }
        }
    }
    let wire = serde_json::from_value(object).unwrap();
    Attachment::read(wire, DRIVER).unwrap()
}

fn volume(words: &str) -> Volume {
    volume_with(words, &json!({}))
}

fn volume_with(words: &str, csi: &Value) -> Volume {
    let mut object = json!({
        "metadata": { "name": "pv", "uid": "2" },
        "spec": { "accessModes": ["ReadWriteOnce"], "csi": csi },
    });
    object["spec"]["csi"]["driver"] = json!(DRIVER);
    object["spec"]["csi"]["volumeHandle"] = json!("handle");
    for word in words.split_whitespace() {
        match word {
            "marked" => object["metadata"]["finalizers"] = json!([FINALIZER]),
            "deleting" => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "block" => object["spec"]["volumeMode"] = json!("Block"),
            _ => object["spec"]["accessModes"] = json!(word.split('+').collect::<Vec<_>>()),
        }
    }
    let wire = serde_json::from_value(object).unwrap();
    Volume::read(wire, DRIVER).unwrap()
}

fn node(id: &str) -> CsiNode {
    CsiNode {
        name: "north".to_owned(),
        node_id: id.to_owned(),
        topology_keys: Vec::new(),
    }
}

/// The step in few words.
fn told(step: &Step) -> String {
    let marks = |marks: &Marks| {
        let mut words = String::new();
        if marks.volume {
            words += " mark-pv";
        }
        if marks.attachment {
            words += " mark-va";
        }
        format!("{words} id={}", marks.node_id)
    };
    match step {
        Step::Rest => "rest".to_owned(),
        Step::Answer => "answer".to_owned(),
        Step::Release => "release".to_owned(),
        Step::Protect(wanted) => format!("protect{}", marks(wanted)),
        Step::Attach(attach) => {
            let leave = attach.leave.as_ref();
            let leave = leave.map_or(String::new(), |leave| format!(" leave={}", leave.node_id));
            assert_eq!(attach.request.node_id, attach.marks.node_id);
            assert_eq!(attach.request.volume_id, "handle");
            format!("attach{leave}{}", marks(&attach.marks))
        }
        Step::Detach(detach) => format!("detach id={}", detach.request.node_id),
        Step::Wait(problem) => format!("wait: {problem}"),
    }
}

fn decide(rules: &Rules, attachment: &str, volume: Option<&str>, node: Option<&str>) -> String {
    decide_about(rules, attachment, volume, node, false)
}

fn decide_about(
    rules: &Rules,
    of: &str,
    pv: Option<&str>,
    id: Option<&str>,
    doubted: bool,
) -> String {
    let (pv, id) = (pv.map(volume), id.map(node));
    let step = next_step(rules, &attachment(of), pv.as_ref(), id.as_ref(), doubted);
    told(&step)
}

#[test]
fn every_state_of_an_attachment_has_its_next_step() {
    let table = [
        // Asked for, and nothing done yet.
        ("", Some(""), Some("n1"), "attach mark-pv mark-va id=n1"),
        ("", Some("marked"), Some("n1"), "attach mark-va id=n1"),
        // The one before us died after its marks, or its call failed.
        ("marked id=n1", Some("marked"), Some("n1"), "attach id=n1"),
        ("marked", Some("marked"), Some("n1"), "attach mark-va id=n1"),
        // The node came back under another id: the first attempt may have succeeded.
        (
            "marked id=n0",
            Some("marked"),
            Some("n1"),
            "attach leave=n0 mark-va id=n1",
        ),
        // Attached.
        ("attached marked id=n1", Some("marked"), Some("n1"), "rest"),
        ("attached marked id=n0", Some("marked"), Some("n1"), "rest"),
        ("attached marked id=n1", Some("marked"), None, "rest"),
        ("attached marked id=n1", None, None, "rest"),
        ("attached", None, Some("n1"), "rest"),
        ("attached", Some("marked"), None, "rest"),
        (
            "attached marked",
            Some("marked"),
            Some("n1"),
            "protect mark-va id=n1",
        ),
        (
            "attached",
            Some(""),
            Some("n1"),
            "protect mark-pv mark-va id=n1",
        ),
        (
            "attached marked id=n1",
            Some(""),
            None,
            "protect mark-pv id=n1",
        ),
        (
            "attached marked id=n1",
            Some("deleting"),
            Some("n1"),
            "rest",
        ),
        // Deleted before anything was done.
        ("deleting held", Some(""), Some("n1"), "rest"),
        // To be detached, whether it ever was attached or not.
        (
            "deleting marked id=n1",
            Some("marked"),
            Some("n1"),
            "detach id=n1",
        ),
        (
            "deleting marked id=n1 attached",
            Some("marked deleting"),
            Some("n1"),
            "detach id=n1",
        ),
        // The node is gone, or another one has its name.
        (
            "deleting marked id=n1 attached",
            Some("marked"),
            None,
            "detach id=n1",
        ),
        (
            "deleting marked id=n0 attached",
            Some("marked"),
            Some("n1"),
            "detach id=n0",
        ),
        // The annotation was never there, or is empty, which would mean all nodes.
        (
            "deleting marked attached",
            Some("marked"),
            Some("n1"),
            "detach id=n1",
        ),
        (
            "deleting marked id= attached",
            Some("marked"),
            Some("n1"),
            "detach id=n1",
        ),
        // Ours is off already, but the status was not written.
        (
            "deleting held id=n1 attached",
            Some(""),
            None,
            "detach id=n1",
        ),
        ("deleting held attached", Some(""), None, "rest"),
        ("deleting held attached", None, Some("n1"), "rest"),
    ];
    for (of, pv, id, expected) in table {
        assert_eq!(decide(&rules(), of, pv, id), expected, "{of} {pv:?} {id:?}");
    }
}

#[test]
fn what_cannot_be_done_names_the_object_and_the_remedy() {
    let table = [
        ("", None, Some("n1"), ["`pv` does not exist", "create it"]),
        ("", Some("deleting"), Some("n1"), ["`pv`", "being deleted"]),
        (
            "",
            Some(""),
            None,
            ["not registered on node `north`", "plugin runs"],
        ),
        (
            "inline",
            None,
            Some("n1"),
            ["does not name a PersistentVolume", DRIVER],
        ),
        (
            "",
            Some("ReadWriteOnce+ReadOnlyMany"),
            Some("n1"),
            ["`pv`", "keep one of them"],
        ),
        (
            "deleting marked id=n1",
            None,
            Some("n1"),
            ["`pv` is gone", "remove finalizer"],
        ),
        (
            "deleting marked",
            Some("marked"),
            None,
            ["`north`", "remove finalizer"],
        ),
        (
            "deleting marked inline",
            None,
            None,
            ["does not name a PersistentVolume", DRIVER],
        ),
    ];
    for (of, pv, id, expected) in table {
        let problem = decide(&rules(), of, pv, id);
        assert!(problem.starts_with("wait: "), "{problem}");
        for part in expected {
            assert!(problem.contains(part), "{part} in {problem}");
        }
    }
}

#[test]
fn a_driver_that_attaches_nothing_is_answered_for() {
    let table = [
        ("", "answer"),
        ("attached", "rest"),
        ("attached marked id=n1", "rest"),
        ("deleting held attached", "rest"),
        // Left by a version of the driver that did attach.
        ("deleting marked attached", "release"),
    ];
    for (of, expected) in table {
        assert_eq!(decide(&trivial(), of, None, None), expected, "{of}");
    }
}

#[test]
fn what_the_driver_denies_is_attached_again_if_it_can_be() {
    let attached = "attached marked id=n1";
    let table = [
        (attached, Some("marked"), Some("n1"), "attach id=n1"),
        (attached, Some("marked deleting"), Some("n1"), "rest"),
        (attached, Some("marked"), None, "rest"),
        (attached, None, Some("n1"), "rest"),
        (
            "deleting marked id=n1",
            Some("marked"),
            Some("n1"),
            "detach id=n1",
        ),
    ];
    for (of, pv, id, expected) in table {
        let step = decide_about(&rules(), of, pv, id, true);
        assert_eq!(step, expected, "{of} {pv:?} {id:?}");
    }
}

#[test]
fn the_driver_is_told_what_the_volume_says() {
    let csi = json!({
        "readOnly": true,
        "volumeAttributes": { "pool": "fast" },
        "controllerPublishSecretRef": { "name": "key", "namespace": "safe" },
    });
    let attach = |rules: &Rules, volume: &Volume| {
        let step = next_step(
            rules,
            &attachment(""),
            Some(volume),
            Some(&node("n1")),
            false,
        );
        let Step::Attach(attach) = step else {
            panic!("{step:?}");
        };
        *attach
    };
    let plain = attach(&rules(), &volume_with("", &csi));
    assert_eq!(plain.request.volume_context["pool"], "fast");
    assert_eq!(plain.secret.unwrap().name.as_deref(), Some("key"));
    assert!(!plain.request.readonly, "the driver would not understand");
    let capability = plain.request.volume_capability.unwrap();
    assert_eq!(
        capability.access_mode.unwrap().mode(),
        Mode::SingleNodeWriter
    );
    let Some(AccessType::Mount(mount)) = capability.access_type else {
        panic!("{capability:?}");
    };
    assert_eq!(mount.fs_type, "ext4", "the default");

    let able = Rules {
        publishes_read_only: true,
        single_node_multi_writer: true,
        ..rules()
    };
    let able = attach(&able, &volume_with("block", &csi));
    assert!(able.request.readonly);
    let capability = able.request.volume_capability.unwrap();
    assert_eq!(
        capability.access_mode.unwrap().mode(),
        Mode::SingleNodeMultiWriter
    );
    assert!(matches!(capability.access_type, Some(AccessType::Block(_))));
}

#[test]
fn a_deleted_volume_goes_when_it_is_attached_nowhere() {
    let table = [
        ("deleting marked", 0, true),
        ("deleting marked", 1, false),
        ("marked", 0, false),
        ("deleting", 0, false),
    ];
    for (pv, attachments, expected) in table {
        assert_eq!(may_go(&rules(), &volume(pv), attachments), expected, "{pv}");
    }
}

#[test]
fn the_finalizer_is_upstreams() {
    assert_eq!(finalizer(DRIVER), FINALIZER);
}
