use std::io::Write as _;

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_memory_driver::{MemoryDriver, Profile};
use tonic::Code;

use crate::scene::{SOON, Scene};

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let mut scene = Scene::start();
    let id = scene.create("pvc-1").await.unwrap().volume_id;
    scene.snapshot("snap-1", &id).await.unwrap();
    scene.serving.take().unwrap().stop().await;
    scene.serve_again();
    assert_eq!(scene.create("pvc-1").await.unwrap().volume_id, id);
    assert_eq!(scene.driver.snapshots().len(), 1);
}

#[tokio::test]
async fn a_crash_leaves_calls_without_an_answer() {
    let mut scene = Scene::start();
    let slow = stowage_memory_driver::Mishap::delay(SOON);
    scene.driver.upset("CreateVolume", slow.once());
    let serving = scene.serving.take().unwrap();
    let crash = async {
        while scene.driver.calls("CreateVolume") == 0 {
            tokio::task::yield_now().await;
        }
        serving.crash();
    };
    let (lost, ()) = tokio::join!(scene.create("pvc-1"), crash);
    let lost = lost.unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable);
    assert!(lost.message().contains("connection"), "{lost:?}");
    assert!(scene.driver.volumes().is_empty());
    scene.serve_again();
    scene.create("pvc-1").await.unwrap();
}

/// A driver whose state is in `folder`, with one of each, and one that is gone.
async fn used(folder: &std::path::Path) -> MemoryDriver {
    let driver = MemoryDriver::open(Profile::default(), folder).expect("a folder");
    let scene = Scene::of(driver.clone());
    let id = scene
        .create("pvc-1")
        .await
        .expect("a good driver")
        .volume_id;
    scene
        .publish(&id, "node-1", Mode::SingleNodeWriter)
        .await
        .expect("a good driver");
    scene.snapshot("snap-1", &id).await.expect("a good driver");
    let gone = scene.create("gone").await.expect("a good driver").volume_id;
    scene.delete(&gone).await.expect("a good driver");
    driver
}

#[tokio::test]
async fn a_directory_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let before = used(folder.path()).await;
    let after = MemoryDriver::open(Profile::default(), folder.path()).unwrap();
    assert_eq!(after.volumes(), before.volumes());
    assert_eq!(after.snapshots(), before.snapshots());
    assert_eq!(after.publications(), before.publications());
    assert_eq!(after.deleted_volumes(), before.deleted_volumes());
    assert_eq!((after.volumes().len(), after.publications().len()), (1, 1));

    // Ids are not used again.
    let scene = Scene::of(after);
    let new = scene.create("pvc-2").await.unwrap().volume_id;
    assert!(!before.deleted_volumes().contains(&new), "{new}");
    assert_ne!(new, before.volumes()[0].id);
}

#[tokio::test]
async fn a_record_that_was_cut_short_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let before = used(folder.path()).await;
    let journal = folder.path().join("journal");
    let whole = std::fs::read(&journal).unwrap();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&journal)
        .unwrap();
    file.write_all(&whole[..10]).unwrap();

    let after = MemoryDriver::open(Profile::default(), folder.path()).unwrap();
    assert_eq!(after.volumes(), before.volumes());
    assert_eq!(
        std::fs::metadata(&journal).unwrap().len(),
        whole.len() as u64 + 10
    );
    let scene = Scene::of(after);
    scene.create("pvc-2").await.unwrap();
    let again = MemoryDriver::open(Profile::default(), folder.path()).unwrap();
    assert_eq!(again.volumes().len(), 2);
    assert_eq!(again.snapshots(), before.snapshots());
}
