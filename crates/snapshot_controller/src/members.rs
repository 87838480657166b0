//! The single snapshots of a group: each has a VolumeSnapshot and a content, made here from what the driver said of
//! the group.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stowage_api::snapshot::VolumeSnapshotInfo;
use stowage_api::snapshot::names::{GROUP_HANDLE, SNAPSHOT, SNAPSHOT_IN_GROUP, SNAPSHOT_V1};
use stowage_kubernetes::object_error::explain;

use crate::content::{Content, Origin};
use crate::failure::Failure;
use crate::make::{mode, secret};
use crate::request::{Kind, Request, by};
use crate::worker::Worker;
use crate::write::{CLAIMS, VOLUMES};

/// A claim's name and its volume, by the volume's handle.
type Claims = BTreeMap<String, (String, PersistentVolume)>;

impl Worker {
    /// Makes the members that are missing. Called twice: they are there. Members of groups that existed before are
    /// made by whoever brought those here.
    pub(crate) async fn make_members(
        &self,
        group: &Request,
        content: &Content,
    ) -> Result<(), Failure> {
        let Some(handle) = &content.state.handle else {
            return Ok(());
        };
        if content.source != Origin::Taken {
            return Ok(());
        }
        let members = content.state.members.iter();
        let missing: Vec<_> = members
            .filter(|info| self.is_missing(group, info))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let sources = self.claims_of(group, &content.driver).await?;
        for info in missing {
            let volume = info.volume_handle.as_deref().unwrap_or_default();
            let found = sources.get(volume);
            let claim_name = found.map_or("", |(name, _)| name.as_str());
            let version = self.scope.version(Kind::Group);
            let snapshot = snapshot_object(version, group, volume, claim_name);
            let snapshot = self
                .writer
                .create_request(Kind::Single, &group.namespace, &snapshot)
                .await?;
            let mode = found.and_then(|(_, volume)| mode(volume));
            let object = self.content_object(group, content, &snapshot, volume, mode.as_deref())?;
            let fresh = self.writer.create_content(Kind::Single, &object).await?;
            if fresh.state.handle.is_none() {
                let status = member_status(info, handle);
                self.writer.set_content_status(&fresh, status).await?;
            }
        }
        Ok(())
    }

    fn is_missing(&self, group: &Request, info: &VolumeSnapshotInfo) -> bool {
        let volume = info.volume_handle.as_deref().unwrap_or_default();
        let contents = self.cluster.contents.of(Kind::Single).store();
        let content = contents.get(&member_name("snapcontent", group, volume));
        if content.is_none_or(|content| content.state.handle.is_none()) {
            return true;
        }
        let name = member_name("snapshot", group, volume);
        let key = format!("{}/{name}", group.namespace);
        let snapshots = self.cluster.requests.of(Kind::Single).store();
        snapshots.count_in_group(&by::name(&key)) == 0
    }

    /// The claims of the group's namespace that have a volume of this driver.
    async fn claims_of(&self, group: &Request, driver: &str) -> Result<Claims, Failure> {
        let client = &self.writer.client;
        let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &group.namespace);
        let volumes = Api::<PersistentVolume>::all(client.clone());
        let found = claims.list(&ListParams::default()).await;
        let mut by_handle = Claims::new();
        for claim in found.map_err(explain("list", CLAIMS))? {
            let name = claim.name_any();
            let Some(volume) = claim.spec.and_then(|spec| spec.volume_name) else {
                continue;
            };
            let volume = volumes.get_opt(&volume).await;
            let Some(volume) = volume.map_err(explain("get", VOLUMES))? else {
                continue;
            };
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            if let Some(csi) = csi.filter(|csi| csi.driver == driver) {
                by_handle.insert(csi.volume_handle.clone(), (name, volume.clone()));
            }
        }
        Ok(by_handle)
    }

    fn content_object(
        &self,
        group: &Request,
        content: &Content,
        snapshot: &Request,
        volume: &str,
        mode: Option<&str>,
    ) -> Result<Value, Failure> {
        let mut annotations = json!({ GROUP_HANDLE: content.state.handle });
        let classes = self.cluster.classes.of(Kind::Group).store();
        let class = content.class.as_deref().and_then(|name| classes.get(name));
        let named = class.map(|class| secret(group, &class)).transpose()?;
        if let Some(named) = named.flatten() {
            annotations[SNAPSHOT.secret_name] = json!(named.name);
            annotations[SNAPSHOT.secret_namespace] = json!(named.namespace);
        }
        Ok(json!({
            "apiVersion": SNAPSHOT_V1,
            "kind": "VolumeSnapshotContent",
            "metadata": {
                "name": member_name("snapcontent", group, volume),
                "finalizers": [SNAPSHOT.finalizer],
                "annotations": annotations,
            },
            "spec": {
                "volumeSnapshotRef": snapshot.reference(self.scope),
                "deletionPolicy": content.policy,
                "driver": content.driver,
                "source": { "volumeHandle": volume },
                "sourceVolumeMode": mode,
            },
        }))
    }
}

fn snapshot_object(group_version: &str, group: &Request, volume: &str, claim: &str) -> Value {
    json!({
        "apiVersion": SNAPSHOT_V1,
        "kind": "VolumeSnapshot",
        "metadata": {
            "name": member_name("snapshot", group, volume),
            "namespace": group.namespace,
            "finalizers": [SNAPSHOT_IN_GROUP],
            "ownerReferences": [{
                "apiVersion": group_version,
                "kind": "VolumeGroupSnapshot",
                "name": group.name,
                "uid": group.uid,
            }],
        },
        "spec": { "source": { "persistentVolumeClaimName": claim } },
    })
}

/// What is known of a member. What is not known is left out, for the sidecar to find: a server takes no null.
fn member_status(info: &VolumeSnapshotInfo, group: &str) -> Value {
    let mut status = json!({ "volumeGroupSnapshotHandle": group });
    for (field, value) in [
        ("snapshotHandle", json!(info.snapshot_handle)),
        ("creationTime", json!(info.creation_time)),
        ("restoreSize", json!(info.restore_size)),
        ("readyToUse", json!(info.ready_to_use)),
    ] {
        if !value.is_null() {
            status[field] = value;
        }
    }
    status
}

/// It follows from group and volume alone, as upstream writes it.
fn member_name(prefix: &str, group: &Request, volume: &str) -> String {
    hashed(prefix, &group.uid, volume)
}

fn hashed(prefix: &str, group_uid: &str, volume: &str) -> String {
    let digest = Sha256::digest(format!("{group_uid}{volume}"));
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_as_upstream_does() {
        let name = hashed(
            "snapshot",
            "b0e14ea3-138d-11f0-a142-da4b6452e9d8",
            "e8e932dc-4911-40c7-9da3-3f3d85c49458",
        );
        let expected = "snapshot-a1cafe086c8f775046b4d4f51ae8ee57bd72c595399a04c1ec64eedbed64bc49";
        assert_eq!(name, expected);
    }
}
