use std::time::{Duration, Instant};

use stowage_csi::proto::csi::{GetCapacityRequest, GetPluginInfoRequest, ProbeRequest};
use stowage_memory_driver::{Fault, Mishap, Moment, Trouble};
use tonic::Code;

use crate::scene::{GIB, Scene, volume};

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_refusal_comes_so_often_as_it_was_set() {
    let scene = Scene::start();
    let down = Mishap::refuse(Code::Unavailable, "the array is down").times(2);
    scene.driver.upset("CreateVolume", down);
    for _ in 0..2 {
        let refused = scene.create("pvc-1").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert_eq!(refused.message(), "the array is down");
    }
    assert!(scene.driver.volumes().is_empty());
    scene.create("pvc-1").await.unwrap();
    assert_eq!(scene.driver.calls("CreateVolume"), 3);
}

#[tokio::test]
async fn what_is_set_for_ever_lasts_until_it_is_mended() {
    let scene = Scene::start();
    let down = Mishap::refuse(Code::Internal, "broken");
    scene.driver.upset("CreateVolume", down);
    for _ in 0..3 {
        scene.create("pvc-1").await.unwrap_err();
    }
    scene.driver.mend();
    scene.create("pvc-1").await.unwrap();
}

#[tokio::test]
async fn a_refusal_after_the_effect_hides_a_volume_that_is_there() {
    let scene = Scene::start();
    let late = Trouble::Refuse(Code::DeadlineExceeded, "late".to_owned());
    let late = Mishap::new(Moment::After, late).once();
    scene.driver.upset("CreateVolume", late);
    let refused = scene.create("pvc-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::DeadlineExceeded);
    let hidden = scene.driver.volume("pvc-1").unwrap();
    assert_eq!(scene.create("pvc-1").await.unwrap().volume_id, hidden.id);
}

#[tokio::test]
async fn a_lost_answer_breaks_the_connection_and_the_next_call_makes_a_new_one() {
    let scene = Scene::start();
    // A bystander on the same connection goes down with it.
    scene.driver.upset("DeleteVolume", Mishap::hang());
    let bystander = {
        let mut controller = scene.controller();
        let request = stowage_csi::proto::csi::DeleteVolumeRequest {
            volume_id: "any".to_owned(),
            ..Default::default()
        };
        tokio::spawn(async move { controller.delete_volume(request).await })
    };
    while scene.driver.calls("DeleteVolume") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    scene
        .driver
        .upset("CreateVolume", Mishap::lose_answer().once());
    let lost = scene.create("pvc-1").await.unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable, "{lost:?}");
    assert!(lost.message().contains("connection"), "{lost:?}");
    assert_eq!(scene.driver.volumes().len(), 1);
    let also_lost = bystander.await.unwrap().unwrap_err();
    assert_eq!(also_lost.code(), Code::Unavailable, "{also_lost:?}");
    scene.create("pvc-1").await.unwrap();
    assert_eq!(scene.driver.volumes().len(), 1);
}

#[tokio::test]
async fn a_delay_delays_on_either_side_of_the_effect() {
    for (moment, made_at_half_time) in [(Moment::Before, 0), (Moment::After, 1)] {
        let scene = Scene::start();
        let slow = Mishap::new(moment, Trouble::Delay(2 * SHORT));
        scene.driver.upset_all(slow);
        let started = Instant::now();
        let half_time = async {
            tokio::time::sleep(SHORT).await;
            scene.driver.volumes().len()
        };
        let (created, made) = tokio::join!(scene.create("pvc-1"), half_time);
        created.unwrap();
        assert_eq!(made, made_at_half_time, "{moment:?}");
        assert!(started.elapsed() >= 2 * SHORT, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_with_its_callers_patience_and_others_go_on() {
    let scene = Scene::start();
    scene.driver.upset("CreateVolume", Mishap::hang().once());
    let mut request = tonic::Request::new(volume("pvc-1"));
    request.set_timeout(SHORT);
    let mut controller = scene.controller();
    let hung = tokio::spawn(async move { controller.create_volume(request).await });
    while scene.driver.calls("CreateVolume") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The specification's answer to a second call for the same volume.
    let second = scene.create("pvc-1").await.unwrap_err();
    assert_eq!(second.code(), Code::Aborted);
    scene.create("pvc-2").await.unwrap();
    let given_up = hung.await.unwrap().unwrap_err();
    assert_eq!(given_up.code(), Code::DeadlineExceeded);
    assert_eq!(scene.driver.most_at_once("CreateVolume"), 2);
    scene.create("pvc-1").await.unwrap();
}

#[tokio::test]
async fn a_volume_can_be_answered_wrong_in_many_ways() {
    let scene = Scene::start();
    let id_of = |request| async { scene.create_as(request).await.unwrap() };

    scene.driver.set(Fault::VolumeTooSmall);
    assert_eq!(id_of(volume("small")).await.capacity_bytes, GIB / 2);
    scene.driver.mend();

    scene.driver.set(Fault::VolumeWithoutId);
    assert_eq!(id_of(volume("nameless")).await.volume_id, "");
    scene.driver.mend();

    scene.driver.set(Fault::VolumeIdTooLong);
    let long = id_of(volume("long")).await.volume_id;
    assert_eq!(long.len(), 10_000);
    scene.driver.mend();
    scene.delete(&long).await.unwrap();
    assert_eq!(scene.driver.volume("long"), None);

    scene.driver.set(Fault::WrongSourceNamed);
    assert_ne!(id_of(volume("other")).await.content_source, None);
}

#[tokio::test]
async fn a_driver_can_be_unready_full_and_another() {
    let scene = Scene::start();
    for fault in [Fault::NeverReady, Fault::NameChanged, Fault::NoCapacity] {
        scene.driver.set(fault);
    }
    let probe = scene.identity().probe(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.into_inner().ready, Some(false));
    let ask = GetPluginInfoRequest {};
    let info = scene.identity().get_plugin_info(ask).await.unwrap();
    assert_eq!(info.into_inner().name, "another.csi.test");
    let ask = GetCapacityRequest::default();
    let room = scene.controller().get_capacity(ask).await.unwrap();
    assert_eq!(room.into_inner().available_capacity, 0);
}

#[tokio::test]
async fn a_snapshot_is_ready_when_its_fault_is_mended() {
    let scene = Scene::start();
    let id = scene.create("pvc-1").await.unwrap().volume_id;
    scene.driver.set(Fault::NeverReadyToUse);
    let first = scene.snapshot("snap-1", &id).await.unwrap();
    assert!(!first.ready_to_use);
    scene.driver.mend();
    let later = scene.snapshot("snap-1", &id).await.unwrap();
    assert!(later.ready_to_use);
    assert_eq!(later.snapshot_id, first.snapshot_id);
}

#[test]
#[should_panic(expected = "there is no RPC `CreateVolumes`")]
fn a_misspelt_rpc_fails_the_test_that_names_it() {
    let driver = stowage_memory_driver::MemoryDriver::default();
    driver.upset("CreateVolumes", Mishap::hang());
}
