//! What the control API lets go wrong.

use reqwest::Method;
use serde_json::json;
use stowage_sim::weka::control::{Fault, Trouble};

use crate::rest::client::Rig;

fn fault(method: &str, path: &str, trouble: Trouble) -> Fault {
    Fault {
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        times: Some(1),
        trouble,
        ..Fault::default()
    }
}

#[tokio::test]
async fn a_request_can_be_refused_or_done_without_anybody_hearing_of_it() {
    let rig = Rig::start(|_| {}).await;
    let control = rig.array.control();
    let client = rig.admin().await;
    let post = |trouble| {
        let client = client.clone();
        async move {
            control
                .add_fault(fault("POST", "fileSystems", trouble))
                .await
                .unwrap();
            let body = json!({ "name": "new", "group_name": "default", "total_capacity": 4096 });
            client.call(Method::POST, "fileSystems", Some(body)).await
        }
    };
    assert_eq!(post(Trouble::Refuse(503)).await.unwrap().status, 503);
    assert!(post(Trouble::Drop).await.is_err());
    assert_eq!(client.get("fileSystems?name=new").await.names().len(), 0);
    assert!(post(Trouble::DoneButDropped).await.is_err());
    assert_eq!(client.get("fileSystems?name=new").await.names(), ["new"]);
    // The fault is over: what was done is noticed.
    assert_eq!(client.create_filesystem("new").await.status, 409);
}

#[tokio::test]
async fn work_goes_on_when_the_client_gives_up() {
    let rig = Rig::start(|_| {}).await;
    let control = rig.array.control();
    let client = rig.admin().await;
    control
        .add_fault(fault("POST", "fileSystems", Trouble::Hold))
        .await
        .unwrap();
    let creation = {
        let client = client.clone();
        tokio::spawn(async move { client.create_filesystem("slow").await })
    };
    while control.faults_left().await.unwrap() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    creation.abort();
    assert!(creation.await.is_err());
    assert_eq!(client.get("fileSystems?name=slow").await.names().len(), 0);
    control.clear_faults().await.unwrap();
    while client.get("fileSystems?name=slow").await.names().is_empty() {}
}

#[tokio::test]
async fn quotas_can_be_slow_or_end_in_an_error() {
    let rig = Rig::slow().await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let root = client
        .get(&format!("fileSystems/{uid}/resolvePath?path=/"))
        .await;
    let path = format!(
        "fileSystems/{uid}/quota/{}",
        root.data()["inode_id"].as_str().unwrap()
    );
    let body = json!({ "hard_limit_bytes": 4096, "soft_limit_bytes": 4096, "grace_seconds": 0 });
    let control = rig.array.control();
    control
        .turn(|knobs| (knobs.quota_error, knobs.wrong_quota_inode) = (true, true))
        .await
        .unwrap();
    let set = client.put(&path, body.clone()).await;
    assert_eq!(set.data()["status"], "ERROR");
    let asked: u64 = root.data()["inode_id"].as_str().unwrap().parse().unwrap();
    assert_ne!(set.data()["inode_id"], asked);
    assert_eq!(client.delete(&path).await.status, 200);
    assert_eq!(client.get(&path).await.data()["status"], "DELETING");
    while client.get(&path).await.status != 404 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    control
        .turn(|knobs| (knobs.quota_error, knobs.quota_delay) = (false, 3_600_000))
        .await
        .unwrap();
    client.put(&path, body).await.data();
    assert_eq!(client.get(&path).await.data()["status"], "ADDING");
}

#[tokio::test]
async fn requests_are_remembered() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    client.get("fileSystems?name=x").await;
    let seen = rig.array.control().take_requests().await.unwrap();
    let seen: Vec<_> = seen
        .iter()
        .map(|r| (r.method.as_str(), r.path.as_str(), r.query.as_str()))
        .collect();
    assert_eq!(
        seen,
        [("POST", "login", ""), ("GET", "fileSystems", "name=x")]
    );
    assert_eq!(rig.array.control().take_requests().await.unwrap(), []);
}
