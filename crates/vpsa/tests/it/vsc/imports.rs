//! Names on arrays that objects cannot have, or that are equal once they are written in letters that objects can have.

use kube::api::ListParams;
use serde_json::{Value, json};
use stowage_api::vpsa::ExternalVolume;
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::state::{Object, Volume};

use crate::vsc::arrays::make_volume;
use crate::vsc::rig::{Rig, array};

/// Makes a volume, and gives it a name that not every version of the array would take.
async fn make_named(array: &Array, number: usize, name: &str) {
    let plain = format!("made-{number}");
    make_volume(array, &plain).await;
    let objects = array.control().objects().await.unwrap();
    let mut volumes = objects.volumes.values();
    let made = volumes.find(|it| it.display_name == plain).unwrap();
    let named = Volume {
        display_name: name.to_owned(),
        ..made.clone()
    };
    array.control().put(Object::Volume(named)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_volume_of_others_has_a_record_whatever_it_is_called() {
    let rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    let names = ["a..b", "x-.y", "Odd_Name", "odd-name", "odd.name.", "___"];
    for (number, name) in names.into_iter().enumerate() {
        make_named(&array, number, name).await;
    }
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    let records = rig
        .api::<ExternalVolume>()
        .list(&ListParams::default())
        .await;
    let records = records.unwrap().items;
    let mut recorded: Vec<String> = records
        .iter()
        .map(|it| it.spec.volume.display_name.clone())
        .collect();
    recorded.sort();
    let mut names = names.map(str::to_owned);
    names.sort();
    assert_eq!(recorded, names);
    // Each of them says which volume it is.
    let objects = array.control().objects().await.unwrap();
    for record in &records {
        let record = serde_json::to_value(record).unwrap();
        let id = record["status"]["ID"].as_str().unwrap();
        let name = &objects.volumes[id].display_name;
        assert_eq!(record["spec"]["displayName"], Value::from(name.as_str()));
    }
    assert!(
        records
            .iter()
            .any(|it| it.metadata.name.as_deref() == Some("one-a.b"))
    );
}
