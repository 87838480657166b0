//! Usage and condition of a volume, as `NodeGetVolumeStats` reports them.

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

/// The condition of a mounted volume.
pub fn condition(health: Health) -> VolumeCondition {
    match health {
        Health::Alive => healthy(),
        Health::Corrupted(errno) => {
            abnormal(format!("every access to the filesystem fails: {errno}"))
        }
        Health::Hung => abnormal("the filesystem does not answer".to_owned()),
        Health::Missing => abnormal("the mount point does not exist".to_owned()),
    }
}

/// The condition of a volume without problems.
pub fn healthy() -> VolumeCondition {
    VolumeCondition {
        abnormal: false,
        message: "the volume is healthy".to_owned(),
    }
}

/// The condition of a volume with a problem.
pub fn abnormal(message: String) -> VolumeCondition {
    VolumeCondition {
        abnormal: true,
        message,
    }
}
