//! Access modes of Kubernetes in the words of CSI. Pure.
//!
//! Kubernetes lists everything that a volume allows; CSI names one way of using it. A volume is created with one
//! capability per mode ([`csi_modes`]) and attached with one for all of them ([`merged_mode`]).

use stowage_csi::proto::csi::VolumeCapability;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode::{
    self, MultiNodeMultiWriter, MultiNodeReaderOnly, SingleNodeMultiWriter, SingleNodeSingleWriter,
    SingleNodeWriter,
};
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};

/// Access modes that CSI has no word for. The driver has not been called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("no access modes are set: set spec.accessModes")]
    None,
    #[error("access mode `{0}` is unknown: correct spec.accessModes")]
    Unknown(String),
    #[error(
        "CSI has no mode for a volume that is both ReadWriteOnce and ReadOnlyMany: keep one of them in spec.accessModes"
    )]
    ReadersAndOneWriter,
    #[error("ReadWriteOncePod excludes all other access modes: keep it alone in spec.accessModes")]
    NotAlone,
}

/// What Kubernetes calls an access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "Kubernetes' own names")]
enum Allowed {
    ReadWriteMany,
    ReadOnlyMany,
    ReadWriteOnce,
    ReadWriteOncePod,
}

impl Allowed {
    fn read(text: &str) -> Result<Self, AccessError> {
        Ok(match text {
            "ReadWriteMany" => Self::ReadWriteMany,
            "ReadOnlyMany" => Self::ReadOnlyMany,
            "ReadWriteOnce" => Self::ReadWriteOnce,
            "ReadWriteOncePod" => Self::ReadWriteOncePod,
            other => return Err(AccessError::Unknown(other.to_owned())),
        })
    }

    fn read_all(texts: &[String]) -> Result<Vec<Self>, AccessError> {
        if texts.is_empty() {
            return Err(AccessError::None);
        }
        texts.iter().map(|text| Self::read(text)).collect()
    }

    /// Drivers without the capability `SINGLE_NODE_MULTI_WRITER` know one mode for one node, whoever writes there.
    fn to_csi(self, single_node_multi_writer: bool) -> Mode {
        match (self, single_node_multi_writer) {
            (Self::ReadWriteMany, _) => MultiNodeMultiWriter,
            (Self::ReadOnlyMany, _) => MultiNodeReaderOnly,
            (Self::ReadWriteOnce, true) => SingleNodeMultiWriter,
            (Self::ReadWriteOncePod, true) => SingleNodeSingleWriter,
            (Self::ReadWriteOnce | Self::ReadWriteOncePod, false) => SingleNodeWriter,
        }
    }
}

/// One CSI mode per access mode, in their order.
pub(crate) fn csi_modes(
    access_modes: &[String],
    single_node_multi_writer: bool,
) -> Result<Vec<i32>, AccessError> {
    let allowed = Allowed::read_all(access_modes)?.into_iter();
    Ok(allowed
        .map(|mode| mode.to_csi(single_node_multi_writer).into())
        .collect())
}

/// The one CSI mode that covers all access modes: the one that allows most.
pub(crate) fn merged_mode(
    access_modes: &[String],
    single_node_multi_writer: bool,
) -> Result<i32, AccessError> {
    use Allowed::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};
    let allowed = Allowed::read_all(access_modes)?;
    let has = |mode| allowed.contains(&mode);
    let merged = if has(ReadWriteOncePod) {
        if allowed.iter().any(|mode| *mode != ReadWriteOncePod) {
            return Err(AccessError::NotAlone);
        }
        ReadWriteOncePod
    } else if has(ReadWriteMany) {
        ReadWriteMany
    } else if has(ReadOnlyMany) {
        if has(ReadWriteOnce) {
            return Err(AccessError::ReadersAndOneWriter);
        }
        ReadOnlyMany
    } else {
        ReadWriteOnce
    };
    Ok(merged.to_csi(single_node_multi_writer).into())
}

/// How a volume is used, as drivers are told. An empty filesystem type leaves the choice to the driver.
pub(crate) fn capability(
    mode: i32,
    block: bool,
    fs_type: &str,
    mount_options: &[String],
) -> VolumeCapability {
    let access_type = if block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: fs_type.to_owned(),
            mount_flags: mount_options.to_vec(),
            ..MountVolume::default()
        })
    };
    VolumeCapability {
        access_mode: Some(AccessMode { mode }),
        access_type: Some(access_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RWX` and the like, as `kubectl` shows them.
    fn modes(short: &str) -> Vec<String> {
        let long = |short: &str| match short {
            "RWX" => "ReadWriteMany",
            "ROX" => "ReadOnlyMany",
            "RWO" => "ReadWriteOnce",
            "RWOP" => "ReadWriteOncePod",
            _ => "ReadMaybe",
        };
        let short = short.split(' ').filter(|one| !one.is_empty());
        short.map(|one| long(one).to_owned()).collect()
    }

    #[test]
    fn all_access_modes_of_a_volume_become_one() {
        let table: [(&str, Result<[Mode; 2], AccessError>); 11] = [
            ("RWX", Ok([MultiNodeMultiWriter; 2])),
            ("ROX", Ok([MultiNodeReaderOnly; 2])),
            ("RWO", Ok([SingleNodeWriter, SingleNodeMultiWriter])),
            ("RWOP", Ok([SingleNodeWriter, SingleNodeSingleWriter])),
            ("RWO RWX", Ok([MultiNodeMultiWriter; 2])),
            ("RWO ROX RWX", Ok([MultiNodeMultiWriter; 2])),
            ("RWO RWO", Ok([SingleNodeWriter, SingleNodeMultiWriter])),
            ("RWO ROX", Err(AccessError::ReadersAndOneWriter)),
            ("RWX RWOP", Err(AccessError::NotAlone)),
            ("", Err(AccessError::None)),
            ("RWO ?", Err(AccessError::Unknown("ReadMaybe".to_owned()))),
        ];
        for (short, expected) in table {
            for (index, fine) in [false, true].into_iter().enumerate() {
                let merged = merged_mode(&modes(short), fine);
                let expected = expected.clone().map(|both| i32::from(both[index]));
                assert_eq!(merged, expected, "{short}, {fine}");
            }
        }
    }

    #[test]
    fn a_volume_is_created_for_each_of_its_access_modes() {
        let fine = csi_modes(&modes("RWO ROX RWOP"), true).unwrap();
        let expected = [
            SingleNodeMultiWriter,
            MultiNodeReaderOnly,
            SingleNodeSingleWriter,
        ];
        assert_eq!(fine, expected.map(i32::from));
        let coarse = csi_modes(&modes("RWX RWO RWOP"), false).unwrap();
        let expected = [MultiNodeMultiWriter, SingleNodeWriter, SingleNodeWriter];
        assert_eq!(coarse, expected.map(i32::from));
        assert_eq!(csi_modes(&[], true), Err(AccessError::None));
    }

    #[test]
    fn a_raw_device_has_no_filesystem_and_no_mount_options() {
        let options = ["noatime".to_owned()];
        let mounted = capability(1, false, "xfs", &options).access_type;
        let Some(AccessType::Mount(mount)) = mounted else {
            panic!("{mounted:?}");
        };
        assert_eq!(
            (mount.fs_type.as_str(), mount.mount_flags),
            ("xfs", options.to_vec())
        );
        let raw = capability(1, true, "xfs", &options).access_type;
        assert_eq!(raw, Some(AccessType::Block(BlockVolume {})));
    }
}
