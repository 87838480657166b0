use std::sync::Arc;

use k8s_openapi::api::core::v1::SecretReference;
use serde_json::json;
use stowage_csi::proto::csi::TopologyRequirement;

use super::*;
use crate::cluster::volume::ClaimKey;
use crate::intent::{ClassFacts, FrozenTopology, Secrets, Segment};

const MAKER: Maker<'static> = Maker {
    driver: "d.csi",
    identity: "1-2-d.csi",
    topology: true,
};

fn zone(name: &str) -> Segment {
    Segment::from([("zone".to_owned(), name.to_owned())])
}

fn secret(name: &str) -> SecretReference {
    SecretReference {
        name: Some(name.to_owned()),
        namespace: Some("keys".to_owned()),
    }
}

fn intent() -> Intent {
    Intent {
        claim: ClaimKey {
            namespace: "shop".to_owned(),
            name: "data".to_owned(),
            uid: "u-1".to_owned(),
        },
        volume: "pvc-u-1".to_owned(),
        bytes: 1 << 30,
        access_modes: vec!["ReadWriteOnce".to_owned()],
        csi_modes: vec![7],
        block: false,
        read_only: false,
        source: Some(Source::Snapshot("snap-1".to_owned())),
        topology: Some(FrozenTopology {
            segments: Arc::new([zone("a"), zone("b")]),
            first: 1,
        }),
        class: Arc::new(ClassFacts {
            name: "fast".to_owned(),
            uid: "c-1".to_owned(),
            parameters: [("tier".to_owned(), "gold".to_owned())].into(),
            fs_type: "xfs".to_owned(),
            mount_options: vec!["noatime".to_owned()],
            reclaim_policy: "Delete".to_owned(),
            extra_metadata: false,
        }),
        attributes: None,
        secrets: Secrets {
            provisioner: Some(secret("login")),
            node_stage: Some(secret("stage")),
            ..Secrets::default()
        },
    }
}

/// What a driver makes of the intent.
fn made() -> Volume {
    Volume {
        volume_id: "vol-1".to_owned(),
        capacity_bytes: 3 << 29,
        volume_context: [("pool".to_owned(), "p".to_owned())].into(),
        content_source: intent().source.as_ref().map(content_source),
        accessible_topology: vec![Topology {
            segments: zone("b"),
        }],
    }
}

#[test]
fn the_call_holds_all_that_was_planned() {
    let request = create_request(&intent(), [("user".to_owned(), "admin".to_owned())].into());
    assert_eq!(request.name, "pvc-u-1");
    assert_eq!(request.parameters, intent().class.parameters);
    assert_eq!(request.secrets["user"], "admin");
    assert_eq!(request.volume_content_source, made().content_source);
    let place = |name| Topology {
        segments: zone(name),
    };
    let wanted = TopologyRequirement {
        requisite: vec![place("a"), place("b")],
        preferred: vec![place("b"), place("a")],
    };
    assert_eq!(request.accessibility_requirements, Some(wanted));
    assert_eq!(
        request.volume_capabilities,
        [access::capability(7, false, "xfs", &["noatime".to_owned()])]
    );
    assert!(request.mutable_parameters.is_empty());
}

#[test]
fn the_object_is_the_one_that_upstream_writes() {
    let volume = persistent_volume(&intent(), made(), MAKER);
    let expected = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-u-1",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": "d.csi",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "login",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "keys",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1536Mi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "shop",
                "name": "data",
                "uid": "u-1",
            },
            "csi": {
                "driver": "d.csi",
                "volumeHandle": "vol-1",
                "fsType": "xfs",
                "nodeStageSecretRef": {"name": "stage", "namespace": "keys"},
                "volumeAttributes": {
                    "pool": "p",
                    "storage.kubernetes.io/csiProvisionerIdentity": "1-2-d.csi",
                },
            },
            "mountOptions": ["noatime"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
            ]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        },
    });
    assert_eq!(serde_json::to_value(volume).unwrap(), expected);
}

#[test]
fn a_driver_that_names_no_size_made_what_was_asked_for_and_no_place_is_everywhere() {
    let volume = Volume {
        capacity_bytes: 0,
        accessible_topology: vec![Topology::default()],
        ..made()
    };
    assert!(check_answer(&intent(), Some(volume.clone())).is_ok());
    let spec = persistent_volume(&intent(), volume, MAKER).spec.unwrap();
    assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
    assert_eq!(spec.node_affinity, None);
}

#[test]
fn a_driver_without_topology_has_no_places_whatever_it_says() {
    let maker = Maker {
        topology: false,
        ..MAKER
    };
    let volume = persistent_volume(&intent(), made(), maker);
    assert_eq!(volume.spec.unwrap().node_affinity, None);
}

/// Some drivers write one id in several ways; and one that says more than it was asked says nothing wrong.
#[test]
fn a_source_in_another_spelling_is_a_source() {
    let other = Source::Snapshot("the/same".to_owned());
    let volume = Volume {
        content_source: Some(content_source(&other)),
        ..made()
    };
    assert!(check_answer(&intent(), Some(volume.clone())).is_ok());
    let plain = Intent {
        source: None,
        ..intent()
    };
    assert!(check_answer(&plain, Some(volume)).is_ok());
}

#[test]
fn what_is_not_what_was_asked_for_is_told_with_its_id() {
    let id = |length: usize| "x".repeat(length);
    for (volume, error, deletable) in [
        (
            Volume {
                capacity_bytes: 1,
                ..made()
            },
            AnswerError::Small {
                made: 1,
                asked: 1 << 30,
            },
            true,
        ),
        (
            Volume {
                content_source: None,
                ..made()
            },
            AnswerError::NotCopied,
            true,
        ),
        (
            Volume {
                volume_id: id(1025),
                ..made()
            },
            AnswerError::LongId(1025),
            true,
        ),
        (
            Volume {
                volume_id: String::new(),
                ..made()
            },
            AnswerError::NoId,
            false,
        ),
    ] {
        let own = Some(volume.volume_id.clone()).filter(|_| deletable);
        assert_eq!(check_answer(&intent(), Some(volume)), Err((error, own)));
    }
    let nothing = check_answer(&intent(), None);
    assert_eq!(nothing, Err((AnswerError::Nothing, None)));
    // Ids that are paths in a cloud.
    let long = Volume {
        volume_id: id(200),
        ..made()
    };
    assert!(check_answer(&intent(), Some(long)).is_ok());
}
