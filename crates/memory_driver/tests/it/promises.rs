use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_content_source::{Type as Source, VolumeSource};
use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerModifyVolumeRequest, CreateVolumeRequest,
    GetCapacityRequest, ListVolumesRequest, TopologyRequirement, VolumeContentSource,
};
use stowage_memory_driver::{Profile, Room};
use tonic::Code;

use crate::scene::{GIB, Scene, text, volume, zone};

fn clone_of(name: &str, id: &str) -> CreateVolumeRequest {
    let volume_id = id.to_owned();
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Source::Volume(VolumeSource { volume_id })),
        }),
        ..volume(name)
    }
}

#[tokio::test]
async fn a_known_name_is_the_same_volume_or_a_conflict() {
    let scene = Scene::start();
    let first = scene.create("pvc-1").await.unwrap();
    assert_eq!(scene.create("pvc-1").await.unwrap(), first);
    let mut larger = volume("pvc-1");
    larger.capacity_range.as_mut().unwrap().required_bytes = 2 * GIB;
    let mut other_parameters = volume("pvc-1");
    other_parameters.parameters = text(&[("type", "slow")]);
    let other_source = clone_of("pvc-1", &first.volume_id);
    for request in [larger, other_parameters, other_source] {
        let refused = scene.create_as(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
    }
    assert_eq!(scene.driver.volumes().len(), 1);
    assert_eq!(scene.driver.calls("CreateVolume"), 5);
}

#[tokio::test]
async fn a_clone_is_as_large_as_its_source() {
    let scene = Scene::start();
    let mut large = volume("source");
    large.capacity_range.as_mut().unwrap().required_bytes = 3 * GIB;
    let source = scene.create_as(large).await.unwrap();
    let clone = scene.create_as(clone_of("clone", &source.volume_id)).await;
    assert_eq!(clone.unwrap().capacity_bytes, 3 * GIB);
    let mut limited = clone_of("limited", &source.volume_id);
    limited.capacity_range.as_mut().unwrap().limit_bytes = 2 * GIB;
    let refused = scene.create_as(limited).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
}

#[tokio::test]
async fn requests_are_kept_as_they_came() {
    let scene = Scene::start();
    let mut request = volume("pvc-1");
    request.parameters = text(&[("type", "fast")]);
    request.secrets = text(&[("password", "hunter2")]);
    scene.create_as(request.clone()).await.unwrap();
    assert!(scene.driver.last_request::<CreateVolumeRequest>() == Some(request.clone()));
    let kept = scene.driver.volume("pvc-1").unwrap();
    assert_eq!((kept.size, kept.parameters), (GIB, request.parameters));
}

#[tokio::test]
async fn a_volume_goes_where_there_is_room() {
    let scene = Scene::start();
    let full = Room {
        available: 0,
        ..Room::default()
    };
    scene.driver.set_room([("zone", "a")], full);
    let mut request = volume("pvc-1");
    request.accessibility_requirements = Some(TopologyRequirement {
        requisite: vec![zone("a"), zone("b")],
        preferred: vec![zone("a"), zone("b")],
    });
    let made = scene.create_as(request.clone()).await.unwrap();
    assert_eq!(made.accessible_topology, [zone("b")]);
    assert_eq!(scene.create_as(request.clone()).await.unwrap(), made);

    scene.driver.set_room([("zone", "b")], full);
    request.name = "pvc-2".to_owned();
    let refused = scene.create_as(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);

    let ask = |place: &str| GetCapacityRequest {
        accessible_topology: Some(zone(place)),
        ..Default::default()
    };
    for (place, expected) in [("a", 0), ("c", Room::default().available)] {
        let answer = scene.controller().get_capacity(ask(place)).await.unwrap();
        assert_eq!(answer.into_inner().available_capacity, expected, "{place}");
    }
}

#[tokio::test]
async fn a_volume_for_one_node_is_not_published_to_two() {
    let scene = Scene::start();
    let id = scene.create("pvc-1").await.unwrap().volume_id;
    let single = Mode::SingleNodeWriter;
    scene.publish(&id, "node-1", single).await.unwrap();
    scene.publish(&id, "node-1", single).await.unwrap();
    let refused = scene.publish(&id, "node-2", single).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("`node-1`"), "{refused:?}");
    let refused = scene.delete(&id).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(scene.driver.publications().len(), 1);

    let shared = scene.create("pvc-2").await.unwrap().volume_id;
    for node in ["node-1", "node-2"] {
        let all = Mode::MultiNodeMultiWriter;
        scene.publish(&shared, node, all).await.unwrap();
    }
    let all = scene.controller();
    let all = all
        .clone()
        .list_volumes(ListVolumesRequest::default())
        .await;
    let all = all.unwrap().into_inner().entries;
    let nodes = |index: usize| all[index].status.clone().unwrap().published_node_ids;
    assert_eq!((nodes(0).len(), nodes(1).len()), (1, 2));
}

#[tokio::test]
async fn volumes_are_listed_in_pages() {
    let scene = Scene::start();
    for index in 0..5 {
        scene.create(&format!("pvc-{index}")).await.unwrap();
    }
    let (mut seen, mut token, mut pages) = (0, String::new(), 0);
    loop {
        let request = ListVolumesRequest {
            max_entries: 2,
            starting_token: token,
        };
        let page = scene.controller().list_volumes(request).await.unwrap();
        let page = page.into_inner();
        seen += page.entries.len();
        pages += 1;
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((seen, pages), (5, 3));
}

#[tokio::test]
async fn growing_and_modifying_lasts() {
    let scene = Scene::start();
    let volume_id = scene.create("pvc-1").await.unwrap().volume_id;
    let mut range = volume("").capacity_range.unwrap();
    range.required_bytes = 2 * GIB;
    let grow = ControllerExpandVolumeRequest {
        volume_id: volume_id.clone(),
        capacity_range: Some(range),
        ..Default::default()
    };
    let grown = scene.controller().controller_expand_volume(grow).await;
    assert_eq!(grown.unwrap().into_inner().capacity_bytes, 2 * GIB);
    let modify = ControllerModifyVolumeRequest {
        volume_id,
        mutable_parameters: text(&[("tier", "gold")]),
        ..Default::default()
    };
    let modified = scene.controller().controller_modify_volume(modify).await;
    modified.unwrap();
    let kept = scene.driver.volume("pvc-1").unwrap();
    assert_eq!(kept.size, 2 * GIB);
    assert_eq!(kept.mutable_parameters["tier"], "gold");
}

#[tokio::test]
async fn what_is_not_advertised_is_not_there() {
    let scene = Scene::with(Profile::named("small.csi.test").without(Can::CreateDeleteSnapshot));
    let id = scene.create("pvc-1").await.unwrap().volume_id;
    let refused = scene.snapshot("snap-1", &id).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
