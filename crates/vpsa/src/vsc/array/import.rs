//! Records of volumes that are on an array already. Nothing on the array is ever deleted for them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use stowage_api::quantity;
use stowage_api::vpsa::{
    ExternalVolume, ExternalVolumeSpec, NasVolume, VolumeSpec, VolumeState, VolumeStatus,
    VolumeType,
};

use crate::rest::wire::{DataType, Volume};

/// The longest name that objects of these kinds may have.
const LONGEST: usize = 253;

/// The record of a volume of this array.
pub fn record(array: &str, class: &str, volume: &Volume) -> ExternalVolume {
    let is_nas = volume.data_type == DataType::FileSystem;
    let gigabytes = i64::try_from(volume.virtual_capacity).unwrap_or(i64::MAX);
    let size = Quantity(quantity::text(gigabytes.saturating_mul(1 << 30)));
    let text = |id: Option<String>| id.unwrap_or_default();
    ExternalVolume {
        metadata: ObjectMeta {
            name: Some(name(array, &volume.display_name)),
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

/// `<array>-<name of the volume>`, in letters that names of objects may have.
fn name(array: &str, volume: &str) -> String {
    let raw = format!("{array}-{volume}").to_lowercase();
    let allowed = |letter: char| match letter {
        'a'..='z' | '0'..='9' | '.' => letter,
        _ => '-',
    };
    let name: String = raw.chars().map(allowed).take(LONGEST).collect();
    name.trim_matches(|letter: char| !letter.is_ascii_alphanumeric())
        .to_owned()
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
        let record = serde_json::to_value(record("vpsa-a", "gold", &volume)).unwrap();
        assert_eq!(record["metadata"]["name"], "vpsa-a-manual-test");
        assert_eq!(record["spec"]["size"], "50Gi");
        assert_eq!(record["spec"]["volumeType"], "NAS");
        assert_eq!(record["status"]["ID"], "volume-00000001");
        assert_eq!(
            record["status"]["NAS"]["NFSExportPath"],
            "10.0.0.1:/export/x"
        );
        assert_eq!(name("a", "ä _"), "a");
    }
}
