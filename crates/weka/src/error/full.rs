//! There is no room.

use crate::rest::ApiError;

/// What is full.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FullError {
    #[error(
        "filesystem `{filesystem}` cannot have {bytes} bytes: the Weka cluster has {available} left; delete filesystems, enlarge the cluster, or ask for less"
    )]
    ClusterFull {
        filesystem: String,
        bytes: u64,
        available: u64,
    },
    #[error(
        "the Weka cluster has no room for filesystem `{filesystem}` with {bytes} bytes: delete filesystems, enlarge the cluster, or ask for less"
    )]
    NoRoom {
        filesystem: String,
        bytes: u64,
        #[source]
        source: ApiError,
    },
    #[error(
        "filesystem `{filesystem}` has {total} bytes, of which {promised} are promised to other volumes, so {bytes} do not fit (--enforcedirvoltotalcapacity): delete volumes, enlarge the filesystem, start the driver with --allowautofsexpansion, or ask for less"
    )]
    Overprovisioned {
        filesystem: String,
        bytes: u64,
        promised: u64,
        total: u64,
    },
}
