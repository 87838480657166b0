//! How many may use a volume at a time, as a capability says.

use crate::proto::csi::VolumeCapability;
use crate::proto::csi::volume_capability::AccessMode;
use crate::proto::csi::volume_capability::access_mode::Mode;

/// The access mode of a capability; unknown where it has none that is known.
pub fn mode(capability: &VolumeCapability) -> Mode {
    let mode = capability.access_mode.as_ref();
    mode.map_or(Mode::Unknown, AccessMode::mode)
}

/// Whether a volume may be on one node only.
pub fn is_single_node(mode: Mode) -> bool {
    matches!(
        mode,
        Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter
    )
}
