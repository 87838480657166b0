//! A hash index over lines that are owned by somebody else: two arrays of numbers, built in one pass.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Chains of positions, one per bucket. Holds no keys: who looks up compares.
pub(super) struct Index {
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Index {
    /// Indexes each item by its hash. Positions beyond `u32` are not indexed: no kernel has that many mounts.
    pub(super) fn build<T>(items: &[T], hash_of: impl Fn(&T) -> u64) -> Self {
        let mut heads = vec![NONE; (items.len() * 2).next_power_of_two()];
        let mut next = vec![NONE; items.len()];
        // Backwards, so that a chain yields its items in their order.
        for (position, item) in items.iter().enumerate().rev() {
            let Ok(number) = u32::try_from(position) else {
                continue;
            };
            let bucket = bucket(hash_of(item), heads.len());
            next[position] = heads[bucket];
            heads[bucket] = number;
        }
        Self { heads, next }
    }

    /// The positions that may have this hash; others may be among them.
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> {
        let mut number = self.heads[bucket(hash, self.heads.len())];
        std::iter::from_fn(move || {
            let position = (number != NONE).then_some(number as usize)?;
            number = self.next[position];
            Some(position)
        })
    }
}

pub(super) fn hash(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn bucket(hash: u64, buckets: usize) -> usize {
    // The number of buckets is a power of two; the low bits are enough.
    usize::try_from(hash & (buckets as u64 - 1)).unwrap_or(0)
}
