//! Volumes come and go.

use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_bound_and_its_volume_goes_with_it() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"parameters": {"tier": "gold"}})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
    println!("{}", serde_json::to_string_pretty(&volume).unwrap());
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_volume_is_made_and_deleted_with_one_call() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let names: Vec<_> = (0..30).map(|number| format!("data-{number}")).collect();
    for name in &names {
        rig.claim(name, json!({})).await;
    }
    for name in &names {
        rig.bound(name).await;
    }
    for name in &names {
        rig.delete_claim(name).await;
    }
    rig.nothing_left().await;
    sidecar.stop().await.unwrap();
    assert_eq!(rig.driver.calls("CreateVolume"), 30);
    assert_eq!(rig.driver.calls("DeleteVolume"), 30);
}
