//! Sizes as the protocol carries them, and as drivers count them.

use crate::proto::csi::CapacityRange;

/// The limits that a caller set on a size; zero is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// At least this many bytes.
    pub required: u64,
    /// At most this many.
    pub limit: u64,
}

impl From<Option<&CapacityRange>> for Range {
    fn from(range: Option<&CapacityRange>) -> Self {
        // Negative ones are refused by the request checks.
        let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
        range.map_or_else(Self::default, |range| Self {
            required: bytes(range.required_bytes),
            limit: bytes(range.limit_bytes),
        })
    }
}

impl Range {
    /// Whether a volume of this size is what the caller wants.
    pub fn contains(self, bytes: u64) -> bool {
        bytes >= self.required && (self.limit == 0 || bytes <= self.limit)
    }
}

/// A number of bytes as the protocol carries it.
pub fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_zero_is_none() {
        let range = |required, limit| Range { required, limit };
        assert!(range(0, 0).contains(0) && range(3, 0).contains(u64::MAX));
        assert!(range(3, 5).contains(3) && range(3, 5).contains(5));
        assert!(!range(3, 5).contains(2) && !range(3, 5).contains(6));
        assert_eq!(Range::from(None), range(0, 0));
        assert_eq!(signed(u64::MAX), i64::MAX);
    }
}
