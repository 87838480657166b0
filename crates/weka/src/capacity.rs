//! How large a volume becomes.

use stowage_csi::sizes::Range;

use crate::rest::wire::Thin;

/// The size of a volume if the request does not say.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Why no size fits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SizeError {
    #[error(
        "{bytes} bytes are more than filesystem `{filesystem}` has, which is {total}: ask for less, enlarge the filesystem, or start the driver with --allowautofsexpansion"
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
    #[error(
        "the source has {source_bytes} bytes, and its copy cannot have less: ask for at least that"
    )]
    BelowSource { source_bytes: u64 },
}

/// The size of a new volume.
pub(crate) fn choose(range: Range) -> u64 {
    match (range.required, range.limit) {
        (0, 0) => DEFAULT_BYTES,
        (0, limit) => limit.min(DEFAULT_BYTES),
        (required, _) => required,
    }
}

/// The size of a copy of a volume of this size, where that is known.
pub(crate) fn choose_copy(range: Range, source_bytes: Option<u64>) -> Result<u64, SizeError> {
    let Some(source_bytes) = source_bytes else {
        return Ok(choose(range));
    };
    let asked = match (range.required, range.limit) {
        (0, 0) => source_bytes,
        (0, limit) => limit.min(source_bytes),
        (required, _) => required,
    };
    if asked < source_bytes {
        return Err(SizeError::BelowSource { source_bytes });
    }
    Ok(asked)
}

/// How much of a thin filesystem is on drives when it grows: as much of it as before, rounded down, or what it was.
pub(crate) fn grow_thin(thin: Thin, from: u64, to: u64, keep_ratio: bool) -> Thin {
    if !keep_ratio || from == 0 {
        return thin;
    }
    let scaled = |bytes: u64| {
        let bytes = u128::from(bytes) * u128::from(to) / u128::from(from);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    Thin {
        min: scaled(thin.min),
        max: scaled(thin.max),
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
    fn a_copy_is_at_least_as_large_as_its_source() {
        let below = Err(SizeError::BelowSource { source_bytes: 7 });
        for (required, limit, source, bytes) in [
            (0, 0, Some(7), Ok(7)),
            (0, 9, Some(7), Ok(7)),
            (9, 0, Some(7), Ok(9)),
            (7, 7, Some(7), Ok(7)),
            (6, 0, Some(7), below),
            (
                0,
                6,
                Some(7),
                Err(SizeError::BelowSource { source_bytes: 7 }),
            ),
            (6, 0, None, Ok(6)),
            (0, 0, None, Ok(DEFAULT_BYTES)),
        ] {
            assert_eq!(choose_copy(range(required, limit), source), bytes);
        }
    }

    #[test]
    fn a_thin_filesystem_keeps_its_ratio_or_its_drives() {
        let thin = |min, max| Thin { min, max };
        let tib = 1 << 40;
        for (from, to, keep, after) in [
            (100, 200, true, thin(20, 100)),
            (100, 150, true, thin(15, 75)),
            (300, 400, true, thin(13, 66)),
            (100, 200, false, thin(10, 50)),
            (0, 200, true, thin(10, 50)),
            (1, u64::MAX, true, thin(u64::MAX, u64::MAX)),
        ] {
            assert_eq!(
                grow_thin(thin(10, 50), from, to, keep),
                after,
                "{from} {to}"
            );
        }
        let large = thin(600 * tib, 800 * tib);
        let grown = grow_thin(large, 1000 * tib, 3000 * tib, true);
        assert_eq!(
            grown,
            thin(1800 * tib, 2400 * tib),
            "no number is too large for it"
        );
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
