//! How large a volume becomes.

use stowage_csi::sizes::Range;
use stowage_host::filesystem::FsKind;

use crate::usage::Access;

/// What a volume gets whose size nobody said.
const DEFAULT_BYTES: u64 = 1 << 30;

/// A loop device has whole sectors only: what is beyond the last one could not be used.
const SECTOR: u64 = 512;

/// Why no size fits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SizeError {
    #[error("{bytes} bytes are too few: {kind} needs at least {}", kind.minimum_bytes())]
    BelowMinimum { kind: FsKind, bytes: u64 },
    #[error("{bytes} bytes are too many: volumes have at most {limit} (--max-volume-size)")]
    AboveMaximum { bytes: u64, limit: u64 },
    #[error(
        "sizes must be multiples of {SECTOR} bytes, and none lies between {required} and {limit}"
    )]
    BetweenSectors { required: u64, limit: u64 },
    #[error("the source has {source_bytes} bytes, more than the {bytes} of the new volume")]
    BelowSource { source_bytes: u64, bytes: u64 },
    #[error(
        "the volume has {bytes} bytes, more than the limit of {limit}, and volumes do not shrink"
    )]
    AboveLimit { bytes: u64, limit: u64 },
}

/// The smallest whole number of sectors in the range.
fn smallest(range: Range, at_least: u64) -> Result<u64, SizeError> {
    // What does not fit into the number is too large for every volume.
    let sectors = range.required.max(at_least).div_ceil(SECTOR);
    let bytes = sectors.saturating_mul(SECTOR);
    if range.limit != 0 && bytes > range.limit {
        return Err(SizeError::BetweenSectors {
            required: range.required.max(at_least),
            limit: range.limit,
        });
    }
    Ok(bytes)
}

/// What a new volume is to hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub(crate) access: Access,
    pub(crate) filesystem: FsKind,
    /// The size of what is copied into it.
    pub(crate) source_bytes: Option<u64>,
}

/// The size of a new volume: as small as allowed. What is asked for is a minimum, so a filesystem that needs more gets
/// it, unless the caller set a limit.
pub(crate) fn choose(range: Range, content: Content, maximum: u64) -> Result<u64, SizeError> {
    let bytes = match content.source_bytes {
        _ if range.required > 0 => smallest(range, 0)?,
        Some(source_bytes) => smallest(range, source_bytes)?,
        None if range.limit == 0 => DEFAULT_BYTES,
        None => range.limit.min(DEFAULT_BYTES) / SECTOR * SECTOR,
    };
    let minimum = match content.access {
        Access::Filesystem => content.filesystem.minimum_bytes(),
        Access::Block => 0,
    };
    let bytes = if range.limit == 0 {
        bytes.max(minimum)
    } else {
        bytes
    };
    if let Some(source_bytes) = content.source_bytes
        && bytes < source_bytes
    {
        return Err(SizeError::BelowSource {
            source_bytes,
            bytes,
        });
    }
    if bytes < minimum {
        return Err(SizeError::BelowMinimum {
            kind: content.filesystem,
            bytes,
        });
    }
    if bytes == 0 {
        return Err(SizeError::BetweenSectors {
            required: 1,
            limit: range.limit,
        });
    }
    within(bytes, maximum)
}

/// The size of a volume that has `bytes` and is to grow into the range; its own if that is enough.
pub(crate) fn grow(bytes: u64, range: Range, maximum: u64) -> Result<u64, SizeError> {
    if range.contains(bytes) {
        return Ok(bytes);
    }
    if bytes > range.required {
        return Err(SizeError::AboveLimit {
            bytes,
            limit: range.limit,
        });
    }
    within(smallest(range, 0)?, maximum)
}

fn within(bytes: u64, limit: u64) -> Result<u64, SizeError> {
    if bytes > limit {
        return Err(SizeError::AboveMaximum { bytes, limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;
    const MIB: u64 = 1 << 20;

    fn sized(required: u64, limit: u64, content: Content) -> Result<u64, SizeError> {
        choose(Range { required, limit }, content, TIB)
    }

    fn empty(access: Access, filesystem: FsKind) -> Content {
        Content {
            access,
            filesystem,
            source_bytes: None,
        }
    }

    #[test]
    fn a_volume_is_as_large_as_asked_in_whole_sectors() {
        let block = empty(Access::Block, FsKind::Ext4);
        assert_eq!(sized(0, 0, block), Ok(DEFAULT_BYTES));
        assert_eq!(sized(0, 10 * MIB, block), Ok(10 * MIB));
        assert_eq!(sized(0, 2 * TIB, block), Ok(DEFAULT_BYTES));
        assert_eq!(sized(MIB, MIB, block), Ok(MIB));
        assert_eq!(sized(100_000_000, 0, block), Ok(100_000_256));
        assert!(sized(1000, 1001, block).is_err());
        assert!(sized(0, 1, block).is_err());
        for bytes in [TIB + 1, u64::MAX >> 1, u64::MAX] {
            let refused = sized(bytes, 0, block);
            assert!(
                matches!(refused, Err(SizeError::AboveMaximum { .. })),
                "{bytes}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_filesystem_has_its_minimum_and_the_error_names_it() {
        for (required, limit) in [(100 * MIB, 100 * MIB), (0, 100 * MIB)] {
            let xfs = empty(Access::Filesystem, FsKind::Xfs);
            assert_eq!(
                sized(required, limit, xfs).unwrap_err().to_string(),
                "104857600 bytes are too few: xfs needs at least 314572800"
            );
        }
        let block = empty(Access::Block, FsKind::Xfs);
        assert_eq!(sized(100 * MIB, 100 * MIB, block), Ok(100 * MIB));
    }

    /// Claims of 1Mi are what Kubernetes' own suite makes.
    #[test]
    fn without_a_limit_a_filesystem_gets_what_it_needs() {
        for (kind, asked) in [
            (FsKind::Ext4, MIB),
            (FsKind::Xfs, MIB),
            (FsKind::Btrfs, 100 * MIB),
        ] {
            let content = empty(Access::Filesystem, kind);
            assert_eq!(sized(asked, 0, content), Ok(kind.minimum_bytes()));
        }
        let block = empty(Access::Block, FsKind::Ext4);
        assert_eq!(sized(MIB, 0, block), Ok(MIB));
        // A copy that asks for as little as its source did gets as much.
        let minimum = FsKind::Ext4.minimum_bytes();
        let copy = Content {
            source_bytes: Some(minimum),
            ..empty(Access::Filesystem, FsKind::Ext4)
        };
        assert_eq!(sized(MIB, 0, copy), Ok(minimum));
    }

    #[test]
    fn a_copy_is_never_smaller_than_its_source() {
        let copy = Content {
            source_bytes: Some(8 * MIB),
            ..empty(Access::Filesystem, FsKind::Ext4)
        };
        assert_eq!(sized(0, 0, copy), Ok(8 * MIB));
        assert_eq!(sized(9 * MIB, 0, copy), Ok(9 * MIB));
        assert!(matches!(
            sized(4 * MIB, 0, copy),
            Err(SizeError::BelowSource { .. })
        ));
        assert!(sized(0, 4 * MIB, copy).is_err());
    }

    #[test]
    fn a_volume_grows_and_does_not_shrink() {
        let to = |required, limit| grow(4 * MIB, Range { required, limit }, TIB);
        assert_eq!(to(8 * MIB, 0), Ok(8 * MIB));
        assert_eq!(to(4 * MIB, 0), Ok(4 * MIB));
        assert_eq!(to(MIB, 0), Ok(4 * MIB));
        assert!(matches!(
            to(MIB, 2 * MIB),
            Err(SizeError::AboveLimit { .. })
        ));
        assert!(to(2 * TIB, 0).is_err());
    }
}
