//! VSCStorageClasses: empty, with members, with a sick one, to be deleted.

use std::time::Instant;

use serde_json::{Value, json};
use stowage_api::vpsa::{Volume, Vpsa, VscStorageClass};

use crate::vsc::asked::asked;
use crate::vsc::rig::{PATIENCE, Rig, array};

#[tokio::test(flavor = "multi_thread")]
async fn a_class_is_its_members_taken_together() {
    let rig = Rig::start().await;
    rig.class("gold", json!({"isDefault": true})).await;
    let empty = rig
        .until::<VscStorageClass>("gold", |it| it["status"]["state"] == "Ready")
        .await;
    let capacity = json!({"total": "0", "available": "0", "mode": "normal"});
    assert_eq!(empty["status"]["capacity"], capacity);
    assert_eq!(empty["status"]["counters"]["VPSA"], 0);

    let (one, _one) = array(|_| {}).await;
    let (two, _two) = array(|options| options.pool = vec![("p".to_owned(), 500)]).await;
    rig.vpsa("one", "gold", &one).await;
    rig.vpsa("two", "gold", &two).await;
    rig.until::<VscStorageClass>("gold", |it| {
        it["status"]["capacity"]["total"] == "1500Gi" && it["status"]["counters"]["VPSA"] == 2
    })
    .await;
    let table = rig.kubectl(&["get", "vscstorageclasses.storage.zadara.com"]);
    assert!(
        table.contains("Ready") && table.contains("normal"),
        "{table}"
    );

    two.control().stop_endpoint(0).await.unwrap();
    let sick = rig
        .until::<VscStorageClass>("gold", |it| it["status"]["state"] == "Failed")
        .await;
    let message = sick["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("two is Unreachable since 20"),
        "{message}"
    );
    rig.event("gold", "MemberNotReady").await;
    // The other goes on.
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("meanwhile", "10Gi", json!({})).await;
    let made = rig
        .until::<Volume>("meanwhile", |it| it["status"]["state"] == "Ready")
        .await;
    assert_eq!(made["status"]["VPSAID"], "one");
    two.control().start_endpoint(0).await.unwrap();
    rig.until::<VscStorageClass>("gold", |it| it["status"]["state"] == "Ready")
        .await;

    // In steady state nothing is written.
    let versions = || async {
        let class = rig.until::<VscStorageClass>("gold", |_| true).await;
        let array = rig.until::<Vpsa>("one", |_| true).await;
        let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
        (version(&class), version(&array))
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = versions().await;
        // Counters and capacity were looked at twice, too.
        asked(&one, "GET volumes", 2).await;
        let now = versions().await;
        if now == before {
            break;
        }
        assert!(Instant::now() < deadline, "{before:?}, then {now:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_stays_while_it_is_the_default_or_has_members() {
    let rig = Rig::start().await;
    let (one, _one) = array(|_| {}).await;
    rig.class("gold", json!({"isDefault": true})).await;
    rig.vpsa("one", "gold", &one).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.delete::<VscStorageClass>("gold").await;
    let is = |word: &'static str| {
        move |it: &Value| {
            let status = &it["status"];
            status["state"] == "Deleting" && status["conditions"][0]["reason"] == word
        }
    };
    rig.until::<VscStorageClass>("gold", is("DefaultClass"))
        .await;
    rig.event("gold", "DefaultClass").await;
    rig.patch::<VscStorageClass>("gold", json!({"spec": {"isDefault": false}}))
        .await;
    rig.until::<VscStorageClass>("gold", is("HasMembers")).await;
    rig.delete::<Vpsa>("one").await;
    rig.until::<Vpsa>("one", Value::is_null).await;
    rig.until::<VscStorageClass>("gold", Value::is_null).await;
}
