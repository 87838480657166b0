//! How full a volume is and how it does, as `NodeGetVolumeStats` answers.

use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{VolumeCondition, VolumeUsage};
use stowage_csi::sizes::signed;

use crate::stat::{Amount, Health};

/// Of bytes or inodes, how many there are.
pub fn figures(amount: Amount, unit: Unit) -> VolumeUsage {
    VolumeUsage {
        available: signed(amount.available),
        total: signed(amount.total),
        used: signed(amount.used),
        unit: unit.into(),
    }
}

/// How a mounted volume does.
pub fn condition(health: Health) -> VolumeCondition {
    match health {
        Health::Alive => well(),
        Health::Corrupted(errno) => unwell(format!(
            "the filesystem answers with an error only: {errno}"
        )),
        Health::Hung => unwell("the filesystem does not answer".to_owned()),
        Health::Missing => unwell("the mount point is gone".to_owned()),
    }
}

/// Nothing is wrong with it.
pub fn well() -> VolumeCondition {
    VolumeCondition {
        abnormal: false,
        message: "the volume is well".to_owned(),
    }
}

/// Something is.
pub fn unwell(message: String) -> VolumeCondition {
    VolumeCondition {
        abnormal: true,
        message,
    }
}
