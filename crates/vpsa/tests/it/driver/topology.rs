//! Arrays that are reached from some nodes only, and how much room is told of them.

use std::collections::BTreeMap;
use std::path::Path;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::{
    CreateVolumeRequest, GetCapacityRequest, ListVolumesRequest, NodeGetInfoRequest, Topology,
    TopologyRequirement,
};
use tonic::Code;

use crate::driver::calls::{GIB, Used, capability};
use crate::driver::rig::{NODE, Rig};

const ZONE: &str = "topology.kubernetes.io/zone";

fn zone(name: &str) -> Topology {
    Topology {
        segments: [(ZONE.to_owned(), name.to_owned())].into(),
    }
}

fn request(name: &str, from: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![capability(false)],
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![zone(from)],
            preferred: vec![zone(from)],
        }),
        ..CreateVolumeRequest::default()
    }
}

impl Rig {
    async fn room(&mut self, from: Option<Topology>) -> i64 {
        let request = GetCapacityRequest {
            volume_capabilities: vec![capability(false)],
            accessible_topology: from,
            ..GetCapacityRequest::default()
        };
        let room = self.controller.get_capacity(request).await.unwrap();
        room.into_inner().available_capacity
    }
}

isolated! {
    async fn volumes_are_where_nodes_reach_them_and_say_so(directory: &Path) {
        let class = json!({"topology": [{ZONE: "a"}]});
        let mut rig = Rig::with(directory, class, |setting| {
            setting.flags = &["--topology-keys=topology.kubernetes.io/zone"];
        })
        .await;
        let unlabelled = rig.node.node_get_info(NodeGetInfoRequest {}).await.unwrap_err();
        assert_eq!(unlabelled.code(), Code::FailedPrecondition);
        assert!(unlabelled.message().contains("has no label `topology.kubernetes.io/zone`"), "{unlabelled}");
        rig.server.kubectl(&["label", "node", NODE, &format!("{ZONE}=a")]).unwrap();
        let info = rig.node.node_get_info(NodeGetInfoRequest {}).await.unwrap();
        assert_eq!(info.into_inner().accessible_topology, Some(zone("a")));

        assert_eq!(rig.room(None).await, 1000 * GIB);
        assert_eq!(rig.room(Some(zone("a"))).await, 1000 * GIB);
        assert_eq!(rig.room(Some(zone("b"))).await, 0);

        let made = rig.controller.create_volume(request("pvc-1", "a")).await.unwrap();
        let made = made.into_inner().volume.unwrap();
        assert_eq!(made.accessible_topology, [zone("a")]);
        let listed = rig.controller.list_volumes(ListVolumesRequest::default()).await.unwrap();
        let listed = listed.into_inner().entries.remove(0).volume.unwrap();
        assert_eq!(listed.accessible_topology, [zone("a")]);
        rig.controller.create_volume(request("pvc-1", "a")).await.unwrap();
        let elsewhere = rig.controller.create_volume(request("pvc-1", "b")).await.unwrap_err();
        assert_eq!(elsewhere.code(), Code::AlreadyExists, "{elsewhere}");
        let nowhere = rig.controller.create_volume(request("pvc-2", "b")).await.unwrap_err();
        assert_eq!(nowhere.code(), Code::ResourceExhausted, "{nowhere}");
        assert!(nowhere.message().contains("reached only from nodes with topology.kubernetes.io/zone=a"), "{nowhere}");

        let mut used = Used { id: made.volume_id, raw: false, context: BTreeMap::default() };
        rig.publish(&mut used).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }

    async fn room_is_told_of_the_pool_that_the_class_uses(directory: &Path) {
        let mut rig = Rig::with(directory, json!({"poolName": "slow"}), |setting| {
            setting.array.pool = vec![("fast".to_owned(), 500), ("slow".to_owned(), 100)];
        })
        .await;
        assert_eq!(rig.room(None).await, 100 * GIB);
        rig.stop_driver().await;
    }
}
