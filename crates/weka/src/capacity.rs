//! How large a volume becomes.

use stowage_csi::sizes::Range;

/// The size of a volume if the request does not say.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Why no size fits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SizeError {
    #[error(
        "{bytes} bytes are more than filesystem `{filesystem}` has, which is {total}: ask for less or enlarge the filesystem"
    )]
    AboveFilesystem {
        filesystem: String,
        bytes: u64,
        total: u64,
    },
    #[error(
        "the volume has {bytes} bytes, more than the limit of {limit}, and volumes do not shrink"
    )]
    AboveLimit { bytes: u64, limit: u64 },
}

/// The size of a new volume.
pub(crate) fn choose(range: Range) -> u64 {
    match (range.required, range.limit) {
        (0, 0) => DEFAULT_BYTES,
        (0, limit) => limit.min(DEFAULT_BYTES),
        (required, _) => required,
    }
}

/// The size of a volume that has `bytes` and is to grow into the range; its own if that is enough.
pub(crate) fn grow(bytes: u64, range: Range) -> Result<u64, SizeError> {
    if bytes < range.required {
        return Ok(range.required);
    }
    if range.contains(bytes) {
        return Ok(bytes);
    }
    Err(SizeError::AboveLimit {
        bytes,
        limit: range.limit,
    })
}

/// A quota cannot promise more than the filesystem has, where that is known.
pub(crate) fn check_fits(filesystem: &str, bytes: u64, total: u64) -> Result<(), SizeError> {
    if bytes <= total || total == 0 {
        return Ok(());
    }
    Err(SizeError::AboveFilesystem {
        filesystem: filesystem.to_owned(),
        bytes,
        total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required: u64, limit: u64) -> Range {
        Range { required, limit }
    }

    #[test]
    fn a_volume_is_as_small_as_allowed() {
        for (required, limit, bytes) in [
            (0, 0, DEFAULT_BYTES),
            (0, 5, 5),
            (0, 1 << 40, DEFAULT_BYTES),
            (7, 0, 7),
            (7, 9, 7),
        ] {
            assert_eq!(choose(range(required, limit)), bytes);
        }
    }

    #[test]
    fn a_volume_grows_and_does_not_shrink() {
        assert_eq!(grow(4, range(8, 0)), Ok(8));
        assert_eq!(grow(4, range(4, 0)), Ok(4));
        assert_eq!(grow(4, range(1, 0)), Ok(4));
        assert_eq!(grow(4, range(1, 8)), Ok(4));
        assert_eq!(
            grow(4, range(1, 2)),
            Err(SizeError::AboveLimit { bytes: 4, limit: 2 })
        );
    }

    #[test]
    fn no_volume_is_larger_than_its_filesystem() {
        assert_eq!(check_fits("fs", 10, 10), Ok(()));
        let error = check_fits("fs", 11, 10).unwrap_err();
        assert!(error.to_string().contains("`fs`"), "{error}");
    }
}
