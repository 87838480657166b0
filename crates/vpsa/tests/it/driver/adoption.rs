//! Volumes that were on the array before: the first node that uses one makes it ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devcluster::isolated;
use secrecy::SecretString;
use serde_json::{Value, json};
use stowage_vpsa::rest::api::{Kind, NewVolume};
use stowage_vpsa::rest::{Client, ClientOptions, Trust};

use crate::driver::calls::Used;
use crate::driver::rig::Rig;

impl Rig {
    /// Makes a share as a person does who uses the array's own console; its record here.
    async fn made_by_hand(&self, name: &str) -> (Used, Value) {
        let key = SecretString::from(self.array.access_key());
        let address = self.array.hostname().parse().unwrap();
        let client = Client::new(ClientOptions::new(address, Trust::Plain, key)).unwrap();
        let new = NewVolume {
            name,
            capacity: 10,
            pool: &"pool-00010001".parse().unwrap(),
            kind: Kind::Nas,
            options: &BTreeMap::new(),
        };
        let api = Arc::new(client).within(Duration::from_secs(30));
        api.create_volume(&new).await.unwrap().done().unwrap();
        let used = Used {
            id: format!("one-{name}"),
            raw: false,
            context: BTreeMap::new(),
        };
        let is_known = |it: &Value| it["status"]["ID"].is_string();
        let record = self.until("externalvolume", &used.id, is_known).await;
        (used, record)
    }

    /// Whether the array's volume is ours, and nobody else's any more.
    async fn is_adopted(&self, used: &Used, record: &Value) {
        let ours = self
            .until("volume", &used.id, |it| it["status"]["state"] == "Ready")
            .await;
        assert_eq!(ours["status"]["ID"], record["status"]["ID"]);
        assert_eq!(ours["spec"]["size"], "10Gi");
        self.until("externalvolume", &used.id, Value::is_null).await;
        assert_eq!(self.on_array().await.0, 1, "nothing was made");
    }
}

isolated! {
    async fn a_volume_made_by_hand_becomes_ours_when_a_node_uses_it_and_is_deleted_as_ours(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let (mut used, record) = rig.made_by_hand("made-before").await;
        let place = rig.publish(&mut used).await.unwrap();
        rig.is_adopted(&used, &record).await;
        fs::write(place.join("file"), "ours").unwrap();
        rig.unpublish(&used).await.unwrap();

        let place = rig.publish(&mut used).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "ours");
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }

    async fn a_controller_that_died_while_a_volume_became_ours_goes_on_where_it_was(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let (mut used, record) = rig.made_by_hand("made-before").await;
        let place = format!("one/{}", record["status"]["ID"].as_str().unwrap());
        let half = json!({"apiVersion": "storage.zadara.com/v1", "kind": "Volume", "spec": record["spec"],
            "metadata": {"name": used.id, "annotations": {"storage.zadara.com/vsc-adopted": place}}});
        let file = rig.path("half.json");
        fs::write(&file, half.to_string()).unwrap();
        rig.server.kubectl(&["create", "-f", file.to_str().unwrap()]).unwrap();
        rig.attach(&mut used).await.unwrap();
        rig.is_adopted(&used, &record).await;
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }
}
