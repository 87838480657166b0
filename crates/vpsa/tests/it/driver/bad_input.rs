//! What makes no sense is refused with a sentence and the right code, and nothing is lost on either side.

use std::collections::BTreeMap;
use std::path::Path;

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_csi::proto::csi::volume_content_source::{Type, VolumeSource};
use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerGetVolumeRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, DeleteVolumeRequest, ProbeRequest, VolumeCondition, VolumeContentSource,
};
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};
use tonic::{Code, Status};

use crate::driver::calls::{GIB, Used, capability};
use crate::driver::rig::Rig;

fn request(parameters: &[(&str, &str)]) -> CreateVolumeRequest {
    let parameters = parameters.iter();
    CreateVolumeRequest {
        name: "pvc-bad".to_owned(),
        volume_capabilities: vec![capability(false)],
        parameters: parameters
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        ..CreateVolumeRequest::default()
    }
}

impl Rig {
    /// What is wrong with a request.
    async fn refused(&mut self, request: CreateVolumeRequest) -> Status {
        self.controller.create_volume(request).await.unwrap_err()
    }

    fn change(&self, kind: &str, name: &str, patch: &Value) {
        let (kind, patch) = (format!("{kind}.storage.zadara.com"), patch.to_string());
        let words = ["patch", &kind, name, "--type=merge", "-p", &patch];
        self.server.kubectl(&words).unwrap();
    }

    async fn health(&mut self, used: &Used) -> VolumeCondition {
        let request = ControllerGetVolumeRequest {
            volume_id: used.id.clone(),
        };
        let found = self
            .controller
            .controller_get_volume(request)
            .await
            .unwrap();
        found.into_inner().status.unwrap().volume_condition.unwrap()
    }
}

isolated! {
    async fn classes_and_options_that_make_no_sense_are_named(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        for (parameters, code, says) in [
            (&[("VSCStorageClassName", "silver")][..], Code::InvalidArgument, "VSCStorageClass `silver` does not exist"),
            (&[("volumeOptions", "{\"crypt\": true}")], Code::InvalidArgument, "must be a JSON object with texts as values"),
            (&[("poolid", "pool-1")], Code::InvalidArgument, "`poolid` is not a parameter of this driver"),
        ] {
            let refused = rig.refused(request(parameters)).await;
            assert_eq!(refused.code(), code, "{refused}");
            assert!(refused.message().contains(says), "{refused}");
        }
        let second = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCStorageClass",
            "metadata": {"name": "bronze"}, "spec": {"displayName": "bronze", "isDefault": true}});
        rig.server.kubectl_with_input(&["apply", "-f", "-"], &second.to_string()).unwrap();
        let several = |it: &Value| it["status"]["conditions"][0]["reason"] == "SeveralDefaults";
        rig.until("vscstorageclass", "gold", several).await;
        let refused = rig.refused(request(&[])).await;
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("`bronze`") && refused.message().contains("`gold`"), "{refused}");
        let (_, message) = rig.event("gold", "SeveralDefaults").await;
        assert!(message.starts_with("bronze is a default class, too"), "{message}");
        for class in ["bronze", "gold"] {
            rig.change("vscstorageclass", class, &json!({"spec": {"isDefault": false}}));
        }
        let none = |it: &Value| it["status"]["conditions"][0]["reason"] == "Ready";
        rig.until("vscstorageclass", "gold", none).await;
        let refused = rig.refused(request(&[])).await;
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("no VSCStorageClass is the default"), "{refused}");
        let empty = rig.refused(request(&[("VSCStorageClassName", "bronze")])).await;
        assert_eq!(empty.code(), Code::ResourceExhausted);
        assert!(empty.message().contains("`bronze` has no VPSA: add one"), "{empty}");
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }

    async fn what_a_driver_that_died_asked_for_in_vain_goes_with_the_next_call_and_what_people_wrote_stays(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let asked = rig.until("volume", "pvc-1", Value::is_object).await;
        let mark = asked["metadata"]["annotations"].clone();
        rig.delete(used).await;
        // It died after it wrote this, and nobody knew yet that no array has so much.
        for (name, annotations) in [("pvc-left", mark), ("pvc-written", Value::Null)] {
            let volume = json!({"apiVersion": "storage.zadara.com/v1", "kind": "Volume",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"VSCStorageClassName": "gold", "displayName": name, "size": "5000Gi", "volumeType": "NAS"}});
            rig.server.kubectl_with_input(&["create", "-f", "-"], &volume.to_string()).unwrap();
            let told = |it: &Value| it["status"]["conditions"][0]["reason"] == "NoArray";
            rig.until("volume", name, told).await;
            let refused = rig.create(name, 5000, false, None).await.err().unwrap();
            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        }
        rig.until("volume", "pvc-left", Value::is_null).await;
        let written = rig.until("volume", "pvc-written", Value::is_object).await;
        assert!(written["metadata"]["deletionTimestamp"].is_null(), "{written:#}");
        rig.stop_driver().await;
    }

    async fn a_name_that_is_taken_by_another_volume_is_refused_and_that_volume_stays(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let used = rig.create("pvc-1", 2, false, None).await.unwrap();
        let again = rig.create("pvc-1", 2, false, None).await.unwrap();
        assert_eq!(again.id, used.id, "the same is answered again");
        for (gib, raw, says) in [(3, false, "another size: 2Gi"), (2, true, "another type: NAS")] {
            let refused = rig.create("pvc-1", gib, raw, None).await.err().unwrap();
            assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
            let says = format!("Volume `pvc-1` exists already and has {says}");
            assert!(refused.message().contains(&says), "{refused}");
        }
        assert_eq!(rig.on_array().await, (1, 0, 0));
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn nothing_shrinks_and_nothing_goes_that_something_else_needs(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let used = rig.create("pvc-1", 2, false, None).await.unwrap();
        let snapshot = rig.snapshot("snapshot-1", &used).await;
        let smaller = ControllerExpandVolumeRequest {
            volume_id: used.id.clone(),
            capacity_range: Some(CapacityRange { required_bytes: GIB, limit_bytes: GIB }),
            ..ControllerExpandVolumeRequest::default()
        };
        let refused = rig.controller.controller_expand_volume(smaller).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        let copy = CreateVolumeRequest {
            capacity_range: Some(CapacityRange { required_bytes: GIB, limit_bytes: 0 }),
            volume_content_source: Some(VolumeContentSource {
                r#type: Some(Type::Volume(VolumeSource { volume_id: used.id.clone() })),
            }),
            ..request(&[])
        };
        let refused = rig.refused(copy).await;
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        let delete = || DeleteVolumeRequest { volume_id: "pvc-1".to_owned(), ..DeleteVolumeRequest::default() };
        let refused = rig.controller.delete_volume(delete()).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("1 snapshots: they have to go first"), "{refused}");

        // Somebody edits the object by hand: what the array has stays.
        rig.change("volume", "pvc-1", &json!({"spec": {"size": "1Gi"}}));
        let told = |it: &Value| it["status"]["conditions"][0]["reason"] == "CannotShrink";
        rig.until("volume", "pvc-1", told).await;
        let (kind, message) = rig.event("pvc-1", "CannotShrink").await;
        assert_eq!(kind, "Warning", "{message}");
        assert_eq!(message, "it has 2 GB and cannot shrink to 1: write the larger size");
        rig.change("volume", "pvc-1", &json!({"spec": {"size": "2Gi"}}));
        rig.server.kubectl(&["delete", "vpsas.storage.zadara.com", "one", "--wait=false"]).unwrap();
        let in_use = |it: &Value| it["status"]["conditions"][0]["reason"] == "InUse";
        rig.until("vpsa", "one", in_use).await;
        let (_, message) = rig.event("one", "Deleting").await;
        assert_eq!(message, "2 volumes and snapshots are on it: delete them, and it goes");
        let refused = rig.refused(request(&[])).await;
        assert!(refused.message().contains("one: its state is Deleting"), "{refused}");
        // The snapshot's volume, too, is only deleted by hand.
        rig.server.kubectl(&["delete", "volumes.storage.zadara.com", "pvc-1", "--wait=false"]).unwrap();
        let (_, message) = rig.event("pvc-1", "HasSnapshots").await;
        assert_eq!(message, "it has 1 snapshots: delete them, and it goes");
        assert_eq!(rig.on_array().await, (1, 1, 0));
        let request = DeleteSnapshotRequest { snapshot_id: snapshot, ..DeleteSnapshotRequest::default() };
        rig.controller.delete_snapshot(request).await.unwrap();
        // Nothing is in its way any more, and whoever asks for it again is not refused.
        rig.until("volume", "pvc-1", Value::is_null).await;
        rig.delete(used).await;
        rig.until("vpsa", "one", Value::is_null).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }

    async fn an_array_that_talks_nonsense_or_nothing_is_told_and_nothing_is_made_twice(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let fault = Fault {
            method: Some("POST".to_owned()),
            path: Some("volumes".to_owned()),
            trouble: Trouble::from(Own::DoneButGarbage),
            ..Fault::default()
        };
        rig.array.control().add_fault(fault).await.unwrap();
        let first = rig.create("pvc-1", 1, false, None).await;
        let told = first.err().unwrap();
        assert_eq!(told.code(), Code::Unavailable, "{told}");
        assert!(told.message().contains("create a volume"), "{told}");
        rig.mend().await;
        let used = loop {
            if let Ok(used) = rig.create("pvc-1", 1, false, None).await {
                break used;
            }
        };
        assert_eq!(rig.on_array().await, (1, 0, 0));
        assert!(!rig.health(&used).await.abnormal);
        rig.array.control().stop_endpoint(0).await.unwrap();
        rig.until("vpsa", "one", |it| it["status"]["state"] == "Unreachable").await;
        // A restart of the pod would help nobody.
        let alive = rig.identity.probe(ProbeRequest {}).await.unwrap();
        assert_eq!(alive.into_inner().ready, Some(true));
        let condition = rig.health(&used).await;
        assert!(condition.abnormal && condition.message.contains("VPSA `one` is Unreachable"), "{condition:?}");
        rig.array.control().start_endpoint(0).await.unwrap();
        rig.until("vpsa", "one", |it| it["status"]["state"] == "Ready").await;
        assert!(!rig.health(&used).await.abnormal);
        rig.delete(used).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }
}
