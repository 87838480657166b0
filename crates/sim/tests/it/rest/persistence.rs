//! What outlives a restart, and the process.

use std::time::Duration;

use serde_json::json;

use crate::rest::client::Rig;

#[tokio::test]
async fn a_restart_forgets_nothing_that_was_answered() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let root = client
        .get(&format!("fileSystems/{uid}/resolvePath?path=/"))
        .await;
    let inode = root.data()["inode_id"].as_str().unwrap().to_owned();
    let path = format!("fileSystems/{uid}/quota/{inode}");
    let body = json!({ "hard_limit_bytes": 4096, "soft_limit_bytes": 4096, "grace_seconds": 0 });
    client.put(&path, body).await.data();
    client.create_filesystem("second").await.data();

    rig.array
        .control()
        .restart(Duration::from_millis(20))
        .await
        .unwrap();
    // Tokens are valid as before, too.
    assert_eq!(client.get(&path).await.data()["hard_limit_bytes"], 4096);
    assert_eq!(
        client.get("fileSystems?name=second").await.names(),
        ["second"]
    );
    let again = client
        .get(&format!("fileSystems/{uid}/resolvePath?path=/"))
        .await;
    assert_eq!(again.data()["inode_id"], inode);
}

#[tokio::test]
async fn a_dropped_cluster_answers_no_more_and_another_takes_its_directory() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    client.create_filesystem("kept").await.data();
    let Rig { array, data } = rig;
    drop(array);
    let get = || client.call(reqwest::Method::GET, "cluster", None);
    while get().await.is_ok() {
        tokio::task::yield_now().await;
    }
    let options = stowage_sim::weka::Options::new(data.path());
    let array = stowage_sim::weka::Array::start(options).await.unwrap();
    assert!(
        array
            .control()
            .filesystem_uid("kept")
            .await
            .unwrap()
            .is_some()
    );
}
