//! How large a volume becomes.

use stowage_csi::proto::csi::CapacityRange;

/// What a volume gets whose size nobody said.
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

/// The limits that a caller set; zero is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    required: u64,
    limit: u64,
}

impl From<Option<&CapacityRange>> for Range {
    fn from(range: Option<&CapacityRange>) -> Self {
        // Negative ones were refused before.
        let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
        range.map_or_else(Self::default, |range| Self {
            required: bytes(range.required_bytes),
            limit: bytes(range.limit_bytes),
        })
    }
}

impl Range {
    /// Whether a volume of this size is what the caller wants.
    pub(crate) fn contains(self, bytes: u64) -> bool {
        bytes >= self.required && (self.limit == 0 || bytes <= self.limit)
    }

    /// The size of a new volume.
    pub(crate) fn choose(self) -> u64 {
        match (self.required, self.limit) {
            (0, 0) => DEFAULT_BYTES,
            (0, limit) => limit.min(DEFAULT_BYTES),
            (required, _) => required,
        }
    }

    /// The size of a volume that has `bytes` and is to grow into the range; its own if that is enough.
    pub(crate) fn grow(self, bytes: u64) -> Result<u64, SizeError> {
        if bytes < self.required {
            return Ok(self.required);
        }
        if self.contains(bytes) {
            return Ok(bytes);
        }
        Err(SizeError::AboveLimit {
            bytes,
            limit: self.limit,
        })
    }
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

/// A number of bytes as the protocol carries it.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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
            assert_eq!(range(required, limit).choose(), bytes);
        }
    }

    #[test]
    fn a_volume_grows_and_does_not_shrink() {
        assert_eq!(range(8, 0).grow(4), Ok(8));
        assert_eq!(range(4, 0).grow(4), Ok(4));
        assert_eq!(range(1, 0).grow(4), Ok(4));
        assert_eq!(range(1, 8).grow(4), Ok(4));
        assert_eq!(
            range(1, 2).grow(4),
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
