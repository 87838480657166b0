//! What a ledger says, and what it looks like in its file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::moment::Millis;

/// Bytes are counted in blocks of this size.
pub const BLOCK: u64 = 4096;

/// Bytes that a file of this size is charged with.
pub fn charge_of(size: u64) -> u64 {
    size.div_ceil(BLOCK) * BLOCK
}

/// What a ledger says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// No more than these bytes.
    pub hard: u64,
    /// More than these bytes are worth an alert.
    pub soft: u64,
    /// How long `soft` may be exceeded before it counts as `hard`; 0 means forever.
    pub grace: Millis,
    /// When the limits take effect.
    pub active_at: Millis,
    /// Bytes that are held.
    pub used: u64,
    /// Since when `used` is more than `soft`; 0 if it is not.
    pub over_since: Millis,
}

impl Record {
    /// Whether `more` bytes fit.
    pub fn allows(&self, more: u64, now: Millis) -> bool {
        let after = self.used.saturating_add(more);
        let graceless =
            self.grace > 0 && self.over_since > 0 && now >= self.over_since + self.grace;
        now < self.active_at || (after <= self.hard && !(graceless && after > self.soft))
    }

    /// The same with `delta` bytes more.
    pub(super) fn plus(mut self, delta: i64, now: Millis) -> Self {
        self.used = self.used.saturating_add_signed(delta);
        self.over_since = match (self.used > self.soft, self.over_since) {
            (false, _) => 0,
            (true, 0) => now,
            (true, since) => since,
        };
        self
    }

    fn fields(&mut self) -> [&mut u64; 6] {
        [
            &mut self.hard,
            &mut self.soft,
            &mut self.grace,
            &mut self.active_at,
            &mut self.used,
            &mut self.over_since,
        ]
    }

    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; 48];
        file.read_exact_at(&mut bytes, 0)?;
        let mut record = Self::default();
        for (field, chunk) in record.fields().into_iter().zip(bytes.chunks_exact(8)) {
            *field = u64::from_le_bytes(chunk.try_into().expect("chunks of 8"));
        }
        Ok(record)
    }

    pub(super) fn write(mut self, file: &File) -> io::Result<()> {
        let bytes: Vec<u8> = self
            .fields()
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect();
        file.write_all_at(&bytes, 0)
    }
}

/// What every operation on a filesystem looks at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Grows when a directory gets or loses a quota.
    pub generation: u64,
    /// Whether operations hang.
    pub hung: bool,
}

/// What the file of [`super::Ledgers::open_epoch`] says now.
pub fn read_epoch(file: &File) -> io::Result<Epoch> {
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 0)?;
    let (generation, hung) = bytes.split_at(8);
    Ok(Epoch {
        generation: u64::from_le_bytes(generation.try_into().expect("8 bytes")),
        hung: hung[0] != 0,
    })
}
