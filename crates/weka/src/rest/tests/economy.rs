//! What the array is not asked.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filesystem_is_looked_up_once_for_a_crowd_and_again_when_it_is_gone() {
    let rig = Rig::new().await;
    let first = rig
        .api()
        .recent_filesystem("default")
        .await
        .unwrap()
        .unwrap();
    rig.array.control().take_requests().await.unwrap();
    for _ in 0..5 {
        let again = rig
            .api()
            .recent_filesystem("default")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(again.uid, first.uid);
    }
    assert_eq!(rig.seen("fileSystems").await, 0);
    // Its mount token is refused as that of a filesystem that was deleted: it may have been made again.
    rig.fault("fileSystems/*/mountToken", Some(1), Trouble::Refuse(404))
        .await;
    let error = rig.api().mount_token(&first).await.unwrap_err();
    assert!(matches!(error, ApiError::Missing { .. }), "{error}");
    rig.api()
        .recent_filesystem("default")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rig.seen("fileSystems").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_active_at_once_is_not_asked_about() {
    let rig = Rig::with(|options| options.quota_delay = Duration::ZERO).await;
    let filesystem = rig.api().filesystem("default").await.unwrap().unwrap();
    let root = rig.api().inode(&filesystem, "".as_ref()).await.unwrap();
    let inode = root.unwrap();
    let quota = format!("quota/{inode}");
    for (bytes, wrong, asked) in [(1 << 30, false, 1), (2 << 30, true, 2)] {
        let control = rig.array.control();
        control
            .turn(|knobs| knobs.wrong_quota_inode = wrong)
            .await
            .unwrap();
        let size = Size {
            bytes,
            enforcement: Enforcement::Hard,
        };
        control.take_requests().await.unwrap();
        rig.api()
            .set_quota(&filesystem, inode, size.into())
            .await
            .unwrap();
        assert_eq!(rig.seen(&quota).await, asked, "another's number: {wrong}");
    }
}
