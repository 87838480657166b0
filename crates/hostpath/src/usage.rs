//! How a volume is to be used: the typed form of a `VolumeCapability`.

use serde::{Deserialize, Serialize};
use stowage_csi::proto::csi::VolumeCapability;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType};
use stowage_host::filesystem::{FsError, FsKind};

/// What a pod gets to see of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// A device.
    Block,
    /// A mounted filesystem.
    Filesystem,
}

impl Access {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "raw block",
            Self::Filesystem => "filesystem",
        }
    }
}

/// One way to use a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) access: Access,
    /// Only if the caller named one.
    pub(crate) filesystem: Option<FsKind>,
    pub(crate) mount_flags: Vec<String>,
    pub(crate) mode: Mode,
}

/// Why a volume cannot be used so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("the volume capabilities ask for {0}: use only one of them")]
    Contradiction(&'static str),
    #[error("fs_type")]
    Filesystem(#[source] FsError),
    #[error("mount flag `{0}` is not a single option: list options separately")]
    MountFlag(String),
    #[error("the volume is a {} volume and cannot be used as {wanted}", is.name())]
    OtherAccess { is: Access, wanted: String },
}

impl Usage {
    /// Nothing is written in this mode.
    pub(crate) fn reads_only(&self) -> bool {
        matches!(
            self.mode,
            Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly
        )
    }

    /// Volumes live on one node, so all other modes allow several pods there. Even `SINGLE_NODE_WRITER` does: it is
    /// what Kubernetes before 1.22 calls `ReadWriteOnce`, which is about nodes and not about pods.
    pub(crate) fn single_writer(&self) -> bool {
        self.mode == Mode::SingleNodeSingleWriter
    }
}

impl TryFrom<&VolumeCapability> for Usage {
    type Error = UsageError;

    fn try_from(capability: &VolumeCapability) -> Result<Self, UsageError> {
        // The checks of the request made sure that there is a known mode.
        let mode = capability
            .access_mode
            .as_ref()
            .map_or(Mode::Unknown, AccessMode::mode);
        match &capability.access_type {
            Some(AccessType::Mount(mount)) => Ok(Self {
                access: Access::Filesystem,
                filesystem: filesystem(&mount.fs_type)?,
                mount_flags: mount
                    .mount_flags
                    .iter()
                    .map(|flag| mount_flag(flag))
                    .collect::<Result<_, _>>()?,
                mode,
            }),
            Some(AccessType::Block(_)) | None => Ok(Self {
                access: Access::Block,
                filesystem: None,
                mount_flags: Vec::new(),
                mode,
            }),
        }
    }
}

/// What several capabilities of one volume have in common.
pub(crate) fn common_form(
    capabilities: &[VolumeCapability],
) -> Result<(Access, Option<FsKind>), UsageError> {
    let mut form = None;
    for capability in capabilities {
        let usage = Usage::try_from(capability)?;
        let Some((access, filesystem)) = &mut form else {
            form = Some((usage.access, usage.filesystem));
            continue;
        };
        if *access != usage.access {
            return Err(UsageError::Contradiction("raw block and filesystem"));
        }
        match (&filesystem, usage.filesystem) {
            (Some(one), Some(other)) if *one != other => {
                return Err(UsageError::Contradiction("two kinds of filesystem"));
            }
            (None, Some(other)) => *filesystem = Some(other),
            _ => {}
        }
    }
    Ok(form.unwrap_or((Access::Filesystem, None)))
}

fn filesystem(name: &str) -> Result<Option<FsKind>, UsageError> {
    if name.is_empty() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(UsageError::Filesystem)
}

/// Flags reach `mount -o` joined by commas; one that smuggles in nothing else is kept.
fn mount_flag(flag: &str) -> Result<String, UsageError> {
    if flag.is_empty() || flag.contains('\0') {
        return Err(UsageError::MountFlag(flag.escape_debug().to_string()));
    }
    Ok(flag.to_owned())
}

#[cfg(test)]
mod tests {
    use stowage_csi::proto::csi::volume_capability::{BlockVolume, MountVolume};

    use super::*;

    fn mount(fs_type: &str) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(AccessType::Mount(MountVolume {
                fs_type: fs_type.to_owned(),
                ..MountVolume::default()
            })),
        }
    }

    fn block() -> VolumeCapability {
        VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..mount("")
        }
    }

    #[test]
    fn capabilities_of_one_volume_agree_or_are_refused() {
        assert_eq!(
            common_form(&[mount(""), mount("xfs"), mount("")]).unwrap(),
            (Access::Filesystem, Some(FsKind::Xfs))
        );
        assert_eq!(common_form(&[block()]).unwrap(), (Access::Block, None));
        for wrong in [
            &[mount(""), block()][..],
            &[mount("xfs"), mount("ext4")],
            &[mount("ntfs")],
        ] {
            assert!(common_form(wrong).is_err(), "{wrong:?}");
        }
    }
}
