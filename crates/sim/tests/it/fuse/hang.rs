//! A filesystem that hangs hangs alone.

use serde_json::json;

use crate::fuse::rig::{Rig, blocking};

#[tokio::test(flavor = "multi_thread")]
async fn operations_wait_until_they_are_released_and_other_filesystems_do_not() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let body = json!({ "name": "other", "group_name": "default", "total_capacity": 1 << 20 });
    rig.call("POST", "fileSystems", Some(body)).await;
    let hung = rig.mount("default", "a").await;
    let other = rig.mount("other", "a").await;
    let uid = rig.uid("default").await;
    let control = rig.array.control().clone();
    control.hang(&uid, true).await.unwrap();
    let waiting = tokio::spawn(blocking(move || std::fs::write(hung.join("file"), "x")));
    // The same many times over on the other one.
    blocking(move || (0..200).try_for_each(|_| std::fs::write(other.join("file"), "x")))
        .await
        .unwrap();
    assert!(!waiting.is_finished());
    control.hang(&uid, false).await.unwrap();
    waiting.await.unwrap().unwrap();
}
