//! What a volume is to be used as.

use stowage_api::vpsa::VolumeType;
use stowage_csi::access::{is_single_node, mode};
use stowage_csi::proto::csi::VolumeCapability;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;

use super::error::Error;

/// Filesystems that can be on a disk.
pub const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// The type of a volume that can be used in all of these ways. `filesystems` is what a class has for filesystems.
pub fn volume_type(
    capabilities: &[VolumeCapability],
    filesystems: &VolumeType,
) -> Result<VolumeType, Error> {
    let raw = |it: &&VolumeCapability| matches!(it.access_type, Some(AccessType::Block(_)));
    let raw = capabilities.iter().filter(raw).count();
    if raw > 0 && raw < capabilities.len() {
        let text = "a volume is either a raw device or a filesystem, and both are asked for";
        return Err(Error::Usage(text.to_owned()));
    }
    let wanted = if raw > 0 {
        VolumeType::Block
    } else {
        filesystems.clone()
    };
    check(capabilities, &wanted)?;
    Ok(wanted)
}

/// Whether a volume of a type can be used in all of these ways.
pub fn check(capabilities: &[VolumeCapability], volume_type: &VolumeType) -> Result<(), Error> {
    let is_disk = *volume_type == VolumeType::Block;
    for capability in capabilities {
        let text = match &capability.access_type {
            Some(AccessType::Block(_)) if !is_disk => {
                "the volume is a share over NFS and cannot be used as a raw device".to_owned()
            }
            Some(AccessType::Mount(mount)) if is_disk => {
                let filesystem = mount.fs_type.as_str();
                if !filesystem.is_empty() && !FILESYSTEMS.contains(&filesystem) {
                    format!("`{filesystem}` cannot be on a disk of a VPSA: use ext4 or xfs")
                } else if is_written_by_several(capability) {
                    "a filesystem on a disk can be written by one node only: use a share (NAS), or a raw device"
                        .to_owned()
                } else {
                    continue;
                }
            }
            _ => continue,
        };
        return Err(Error::Usage(text));
    }
    Ok(())
}

fn is_written_by_several(capability: &VolumeCapability) -> bool {
    matches!(
        mode(capability),
        Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter
    )
}

/// Whether a volume may be at one target only.
pub fn has_single_writer(capability: &VolumeCapability) -> bool {
    mode(capability) == Mode::SingleNodeSingleWriter
}

/// Whether a volume may be on one node only.
pub fn has_single_node(capability: &VolumeCapability) -> bool {
    is_single_node(mode(capability))
}

/// Whether a volume may only be read.
pub fn is_read_only(capability: &VolumeCapability) -> bool {
    matches!(
        mode(capability),
        Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly
    )
}

#[cfg(test)]
mod tests {
    use stowage_csi::proto::csi::volume_capability::{AccessMode, BlockVolume, MountVolume};

    use super::*;

    fn capability(filesystem: Option<&str>, mode: Mode) -> VolumeCapability {
        let access_type = match filesystem {
            None => AccessType::Block(BlockVolume {}),
            Some(name) => AccessType::Mount(MountVolume {
                fs_type: name.to_owned(),
                ..MountVolume::default()
            }),
        };
        VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn filesystems_are_shares_unless_the_class_has_disks_and_raw_devices_are_disks() {
        let (one, many) = (Mode::SingleNodeWriter, Mode::MultiNodeMultiWriter);
        let (nas, disk) = (VolumeType::Nas, VolumeType::Block);
        for (filesystem, mode, class, expected) in [
            (Some(""), many, &nas, Some(&nas)),
            (Some("ext4"), one, &nas, Some(&nas)),
            (Some("xfs"), one, &disk, Some(&disk)),
            (Some("zfs"), one, &disk, None),
            (Some("ext4"), many, &disk, None),
            (None, many, &nas, Some(&disk)),
        ] {
            let found = volume_type(&[capability(filesystem, mode)], class);
            assert_eq!(found.ok().as_ref(), expected, "{filesystem:?} {mode:?}");
        }
        let both = [capability(None, one), capability(Some(""), one)];
        assert!(volume_type(&both, &nas).is_err());
        assert!(check(&both[..1], &nas).is_err());
        let read = capability(None, Mode::MultiNodeReaderOnly);
        assert!(is_read_only(&read) && !has_single_node(&read));
        assert!(has_single_node(&capability(None, one)));
        assert!(!has_single_node(&capability(None, many)));
    }
}
