//! Records of volumes and snapshots that are on an array already. Nothing on the array is ever deleted for them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use stowage_api::quantity;
use stowage_api::vpsa::{
    DeletionPolicy, ExternalVolume, ExternalVolumeSpec, NasVolume, Snapshot, SnapshotSpec,
    SnapshotState, SnapshotStatus, VolumeSpec, VolumeState, VolumeStatus, VolumeType,
};

use crate::rest::wire::{DataType, Snapshot as ArraySnapshot, Volume};
use crate::vsc::volume::reconcile::capacity;

/// The longest name that objects of these kinds may have.
const LONGEST: usize = 253;

/// The record of a usable snapshot of this array, which was taken of the volume with this object.
pub fn snapshot(array: &str, volume: &str, snapshot: &ArraySnapshot) -> Snapshot {
    let id = |id: Option<String>| id.filter(|it| !it.is_empty());
    let megabytes = i64::try_from(snapshot.volume_capacity_mb).unwrap_or(i64::MAX);
    Snapshot {
        metadata: ObjectMeta {
            name: Some(name(array, snapshot.id.as_str())),
            ..ObjectMeta::default()
        },
        spec: SnapshotSpec {
            display_name: snapshot.display_name.clone(),
            volume_id: volume.to_owned(),
            deletion_policy: Some(DeletionPolicy::Retain),
            ..SnapshotSpec::default()
        },
        status: Some(SnapshotStatus {
            state: SnapshotState::Ready,
            size: (megabytes > 0)
                .then(|| Quantity(quantity::text(megabytes.saturating_mul(1 << 20)))),
            created_timestamp: snapshot.created_at.map(Time),
            vpsa_id: Some(array.to_owned()),
            cg_id: id(snapshot.cg.as_ref().map(ToString::to_string)),
            pool_id: id(snapshot.pool.as_ref().map(ToString::to_string)),
            vpsa_volume_id: id(snapshot.volume.as_ref().map(ToString::to_string)),
            vpsa_snapshot_id: Some(snapshot.id.to_string()),
            ..SnapshotStatus::default()
        }),
    }
}

/// The record of a volume of this array, by each name that it may have: the first that no other has is its own.
pub fn volume(array: &str, class: &str, volume: &Volume) -> [ExternalVolume; 2] {
    [
        name(array, &volume.display_name),
        longer_name(array, volume),
    ]
    .map(|name| record(name, array, class, volume))
}

fn record(name: String, array: &str, class: &str, volume: &Volume) -> ExternalVolume {
    let is_nas = volume.data_type == DataType::FileSystem;
    let size = capacity(volume);
    let text = |id: Option<String>| id.unwrap_or_default();
    ExternalVolume {
        metadata: ObjectMeta {
            name: Some(name),
            ..ObjectMeta::default()
        },
        spec: ExternalVolumeSpec {
            volume: VolumeSpec {
                vsc_storage_class_name: class.to_owned(),
                display_name: volume.display_name.clone(),
                size: size.clone(),
                volume_type: if is_nas {
                    VolumeType::Nas
                } else {
                    VolumeType::Block
                },
                ..VolumeSpec::default()
            },
        },
        status: Some(VolumeStatus {
            state: VolumeState::Ready,
            vpsa_id: array.to_owned(),
            id: volume.id.to_string(),
            cg_id: text(volume.cg.as_ref().map(ToString::to_string)),
            pool_id: text(volume.pool.as_ref().map(ToString::to_string)),
            capacity: Some(size),
            nas: is_nas.then(|| NasVolume {
                nfs_export_path: volume.nfs_export_path.clone(),
                ..NasVolume::default()
            }),
            ..VolumeStatus::default()
        }),
    }
}

/// `<array>-<name of the volume or identity of the snapshot>`, in letters that names of objects may have.
pub fn name(array: &str, volume: &str) -> String {
    let name = object_name(&format!("{array}-{volume}"), LONGEST);
    // Nothing of it may be left, if the name of the volume has no such letters.
    if name.is_empty() {
        array.to_owned()
    } else {
        name
    }
}

/// The same for a volume whose own name is taken by the record of another: names may differ in letters only that objects
/// cannot have. The identity tells them apart.
fn longer_name(array: &str, volume: &Volume) -> String {
    let end = object_name(volume.id.as_str(), LONGEST);
    let begin = object_name(
        &format!("{array}-{}", volume.display_name),
        LONGEST.saturating_sub(end.len() + 1),
    );
    format!("{begin}-{end}")
}

/// Other letters become `-`. Each part between dots begins and ends with a letter or digit, and none is empty.
fn object_name(text: &str, longest: usize) -> String {
    let allowed = |letter: char| match letter {
        'a'..='z' | '0'..='9' | '.' => letter,
        _ => '-',
    };
    let text: String = text
        .to_lowercase()
        .chars()
        .map(allowed)
        .take(longest)
        .collect();
    let parts = text.split('.').map(|part| part.trim_matches('-'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_names_array_and_volume_and_says_where_it_is() {
        let volume: Volume = serde_json::from_value(json!({
            "name": "volume-00000001", "display_name": "Manual_Test", "cg_name": "cg-1", "pool_name": "pool-1",
            "virtual_capacity": "50", "data_type": "File-System", "nfs_export_path": "10.0.0.1:/export/x",
        }))
        .unwrap();
        let [record, other] = super::volume("vpsa-a", "gold", &volume);
        let other = serde_json::to_value(other).unwrap();
        assert_eq!(
            other["metadata"]["name"],
            "vpsa-a-manual-test-volume-00000001"
        );
        let record = serde_json::to_value(record).unwrap();
        assert_eq!(record["metadata"]["name"], "vpsa-a-manual-test");
        assert_eq!(record["spec"]["size"], "50Gi");
        assert_eq!(record["spec"]["volumeType"], "NAS");
        assert_eq!(record["status"]["ID"], "volume-00000001");
        assert_eq!(
            record["status"]["NAS"]["NFSExportPath"],
            "10.0.0.1:/export/x"
        );
    }

    #[test]
    fn every_name_becomes_one_that_an_object_may_have() {
        for (volume, expected) in [
            ("pvc-1", "a-pvc-1"),
            ("Manual_Test", "a-manual-test"),
            ("ä _", "a"),
            ("x..y", "a-x.y"),
            ("x-.-y.", "a-x.y"),
            (".x", "a.x"),
            ("...", "a"),
        ] {
            assert_eq!(name("a", volume), expected, "{volume}");
        }
        let long = "x".repeat(300);
        assert_eq!(name("a", &long).len(), LONGEST);
        let volume = json!({"name": "volume-00000001", "display_name": long});
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let other = longer_name("a", &volume);
        assert_eq!(
            (other.len(), other.ends_with("x-volume-00000001")),
            (LONGEST, true)
        );
    }
}
