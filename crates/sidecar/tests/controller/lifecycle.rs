//! Volumes come and go.

use serde_json::json;

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_bound_and_its_volume_goes_with_it() {
    let rig = Rig::new(|profile| profile).await;
    let sidecar = rig.sidecar(&[]);
    rig.class(json!({"parameters": {"tier": "gold"}})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
    println!("{}", serde_json::to_string_pretty(&volume).unwrap());
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    sidecar.stop().await.unwrap();
}
