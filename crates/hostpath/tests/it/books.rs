//! What the controller tells: lists, pages, capacity, attachments, topology.

use std::path::Path;

use stowage_csi::proto::csi::*;
use tonic::Code;

use crate::rig::{Rig, block, exactly, filesystem};
use crate::support::{MIB, isolated};

fn place(node: &str) -> Topology {
    Topology {
        segments: [("topology.hostpath.csi/node".to_owned(), node.to_owned())].into(),
    }
}

isolated! {
    async fn volumes_are_listed_in_pages(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        for number in 0..7 {
            rig.create(&format!("pvc-{number}"), MIB, &block()).await.unwrap();
        }
        let all: Vec<_> = rig.volumes().await.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
        assert_eq!(all.len(), 7);
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let request = ListVolumesRequest { max_entries: 3, starting_token: token };
            let page = rig.controller.list_volumes(request).await.unwrap().into_inner();
            assert!(page.entries.len() <= 3);
            found.extend(page.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id));
            token = page.next_token;
            // A page may lose its last entry before the next one is asked for.
            if found.len() == 3 {
                rig.delete(&found[2]).await.unwrap();
            }
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, all);
        for token in ["invalid-token", "../../etc", &"f".repeat(33)] {
            let request = ListVolumesRequest { max_entries: 0, starting_token: token.to_owned() };
            assert_eq!(rig.controller.list_volumes(request).await.unwrap_err().code(), Code::Aborted);
        }
        rig.stop().await;
    }

    async fn snapshots_are_listed_by_volume_by_id_and_in_pages(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let mut ids = Vec::new();
        for number in 0..2 {
            ids.push(rig.create(&format!("pvc-{number}"), MIB, &block()).await.unwrap().volume_id);
        }
        for number in 0..5 {
            rig.snapshot(&format!("snap-{number}"), &ids[number % 2]).await.unwrap();
        }
        let by = |source: &str, id: &str| ListSnapshotsRequest { source_volume_id: source.to_owned(), snapshot_id: id.to_owned(), ..ListSnapshotsRequest::default() };
        let all = rig.snapshots(by("", "")).await;
        assert_eq!(all.len(), 5);
        assert_eq!(rig.snapshots(by(&ids[0], "")).await.len(), 3);
        assert_eq!(rig.snapshots(by("unknown", "")).await.len(), 0);
        assert_eq!(rig.snapshots(by("", &all[0].snapshot_id)).await, all[..1]);
        assert_eq!(rig.snapshots(by("", "unknown")).await.len(), 0);
        assert_eq!(rig.snapshots(by("unknown", &all[0].snapshot_id)).await.len(), 0);

        let request = ListSnapshotsRequest { max_entries: 2, ..by(&ids[0], "") };
        let page = rig.controller.list_snapshots(request).await.unwrap().into_inner();
        assert_eq!(page.entries.len(), 2);
        let rest = rig.snapshots(ListSnapshotsRequest { starting_token: page.next_token, ..by(&ids[0], "") }).await;
        assert_eq!(rest.len(), 1);
        rig.stop().await;
    }

    async fn a_name_stands_for_one_volume(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let volume = rig.create("pvc", 32 * MIB, &filesystem("")).await.unwrap();
        for (bytes, capability) in [(0, filesystem("")), (32 * MIB, filesystem("ext4")), (16 * MIB, filesystem(""))] {
            assert_eq!(rig.create("pvc", bytes, &capability).await.unwrap(), volume);
        }
        for (bytes, capability) in [(33 * MIB, filesystem("")), (0, filesystem("xfs")), (0, block())] {
            let status = rig.create("pvc", bytes, &capability).await.unwrap_err();
            assert_eq!(status.code(), Code::AlreadyExists, "{status}");
        }
        let validate = |id: &str, capability| ValidateVolumeCapabilitiesRequest {
            volume_id: id.to_owned(),
            volume_capabilities: vec![capability],
            ..ValidateVolumeCapabilitiesRequest::default()
        };
        let request = validate(&volume.volume_id, filesystem(""));
        assert!(rig.controller.validate_volume_capabilities(request).await.unwrap().into_inner().confirmed.is_some());
        let request = validate(&volume.volume_id, block());
        let refused = rig.controller.validate_volume_capabilities(request).await.unwrap().into_inner();
        assert!(refused.confirmed.is_none() && refused.message.contains("raw block"), "{refused:?}");
        let request = ControllerGetVolumeRequest { volume_id: volume.volume_id.clone() };
        let found = rig.controller.controller_get_volume(request).await.unwrap().into_inner();
        assert_eq!(found.volume, Some(volume));
        rig.stop().await;
    }

    async fn sizes_are_limited_by_disk_by_flag_and_by_filesystem(directory: &Path) {
        let mut rig = Rig::start(directory, &["--capacity=100Mi", "--max-volume-size=64Mi"]);
        for (bytes, capability, code) in [
            (40 * MIB, filesystem("xfs"), Code::OutOfRange),
            (40 * MIB, filesystem("btrfs"), Code::OutOfRange),
            (65 * MIB, block(), Code::OutOfRange),
        ] {
            let status = rig.create("pvc", bytes, &capability).await.unwrap_err();
            assert_eq!(status.code(), code, "{status}");
        }
        // What a filesystem needs at least is what it gets, and asking again finds it.
        let tiny = rig.create("tiny", MIB, &filesystem("")).await.unwrap();
        assert_eq!(tiny.capacity_bytes, 2 * MIB as i64);
        assert_eq!(rig.create("tiny", MIB, &filesystem("")).await.unwrap(), tiny);
        rig.delete(&tiny.volume_id).await.unwrap();
        let id = rig.create("one", 60 * MIB, &block()).await.unwrap().volume_id;
        let status = rig.create("two", 60 * MIB, &block()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        let capacity = rig.controller.get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
        assert_eq!(capacity.available_capacity, 40 * MIB as i64);
        let request = GetCapacityRequest { accessible_topology: Some(place("node-2")), ..GetCapacityRequest::default() };
        assert_eq!(rig.controller.get_capacity(request).await.unwrap().into_inner().available_capacity, 0);
        assert_eq!(rig.expand(&id, 65 * MIB).await.unwrap_err().code(), Code::OutOfRange);
        rig.stop().await;

        // Counted again at the next start.
        let mut rig = Rig::start(directory, &["--capacity=100Mi"]);
        let left = rig.controller.get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
        assert_eq!(left.available_capacity, 40 * MIB as i64);
        rig.delete(&id).await.unwrap();
        let capacity = rig.controller.get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
        assert_eq!(capacity.available_capacity, 100 * MIB as i64);
        rig.stop().await;

        let rig = Rig::start(directory, &["--max-volume-size=1Pi"]);
        let status = rig.create("huge", 1 << 49, &block()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(rig.files().len(), 0);
        rig.stop().await;
    }

    async fn volumes_are_where_their_node_is(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let request = |name: &str, places: &[&str]| CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: exactly(MIB),
            volume_capabilities: vec![block()],
            accessibility_requirements: Some(TopologyRequirement {
                requisite: places.iter().map(|node| place(node)).collect(),
                preferred: places.iter().map(|node| place(node)).collect(),
            }),
            ..CreateVolumeRequest::default()
        };
        let volume = rig.controller.create_volume(request("a", &["node-2", "node-1"])).await.unwrap();
        let volume = volume.into_inner().volume.unwrap();
        assert_eq!(volume.accessible_topology, [place("node-1")]);
        let status = rig.controller.create_volume(request("b", &["node-2"])).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        rig.stop().await;

        // The same directory by another name: its volumes are somebody else's.
        let rig = Rig::start(directory, &["--nodeid=node-2", "--enable-topology=false"]);
        for status in [rig.create("a", MIB, &block()).await.unwrap_err(), rig.delete(&volume.volume_id).await.unwrap_err(), rig.stage(&volume.volume_id, &block()).await.unwrap_err()] {
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(status.message().contains("is on node `node-1`"), "{status}");
        }
        rig.stop().await;

        let rig = Rig::start(directory, &["--nodeid=node-2", "--shared-statedir"]);
        assert_eq!(rig.create("a", MIB, &block()).await.unwrap().volume_id, volume.volume_id);
        rig.delete(&volume.volume_id).await.unwrap();
        rig.stop().await;
    }

    async fn attachments_are_kept_if_the_flag_says_so(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        let ids = ["a", "b"].map(ToOwned::to_owned);
        let mut volumes = Vec::new();
        for name in &ids {
            volumes.push(rig.create(name, MIB, &block()).await.unwrap().volume_id);
        }
        let publish = |id: &str, node: &str, readonly| ControllerPublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            readonly,
            volume_capability: Some(block()),
            ..ControllerPublishVolumeRequest::default()
        };
        let status = rig.controller.controller_publish_volume(publish(&volumes[0], "node-1", false)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        rig.stop().await;

        let mut rig = Rig::start(directory, &["--enable-attach", "--maxvolumespernode=1"]);
        for _ in 0..2 {
            rig.controller.controller_publish_volume(publish(&volumes[0], "node-1", false)).await.unwrap();
        }
        for (request, code) in [
            (publish(&volumes[0], "node-1", true), Code::AlreadyExists),
            (publish(&volumes[0], "node-2", false), Code::NotFound),
            (publish(&volumes[0], "../x", false), Code::NotFound),
            (publish("unknown", "node-1", false), Code::NotFound),
            (publish(&volumes[1], "node-1", false), Code::ResourceExhausted),
        ] {
            let status = rig.controller.controller_publish_volume(request).await.unwrap_err();
            assert_eq!(status.code(), code, "{status}");
        }
        assert_eq!(rig.delete(&volumes[0]).await.unwrap_err().code(), Code::FailedPrecondition);
        rig.stop().await;

        let mut rig = Rig::start(directory, &["--enable-attach", "--maxvolumespernode=1"]);
        let nodes: Vec<_> = rig.volumes().await.into_iter().flat_map(|entry| entry.status.unwrap().published_node_ids).collect();
        assert_eq!(nodes, ["node-1"]);
        let status = rig.controller.controller_publish_volume(publish(&volumes[1], "node-1", false)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "counted again: {status}");
        for node in ["node-1", ""] {
            let request = ControllerUnpublishVolumeRequest { volume_id: volumes[0].clone(), node_id: node.to_owned(), ..Default::default() };
            rig.controller.controller_unpublish_volume(request).await.unwrap();
        }
        rig.controller.controller_publish_volume(publish(&volumes[1], "node-1", false)).await.unwrap();
        rig.stop().await;
    }

    async fn each_mode_offers_its_services(directory: &Path) {
        let mut rig = Rig::start(directory, &["--mode=controller"]);
        rig.create("a", MIB, &block()).await.unwrap();
        assert_eq!(rig.node.node_get_info(NodeGetInfoRequest {}).await.unwrap_err().code(), Code::Unimplemented);
        rig.stop().await;
        let mut rig = Rig::start(directory, &["--mode=node"]);
        rig.node.node_get_info(NodeGetInfoRequest {}).await.unwrap();
        assert_eq!(rig.create("b", MIB, &block()).await.unwrap_err().code(), Code::Unimplemented);
        rig.stop().await;
    }
}
