//! Commands of SCSI, and what is said when they fail.

/// Bytes of a block.
pub const BLOCK: u64 = 512;

/// What a command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Good,
    /// It was not, and here is why.
    Check(Sense),
}

/// Why a command was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// What kind of trouble.
    pub key: u8,
    /// Which, and more exactly.
    pub code: (u8, u8),
}

impl Sense {
    /// The command is not known.
    pub const UNKNOWN_COMMAND: Self = Self::new(0x05, (0x20, 0x00));
    /// It begins or ends beyond the last block.
    pub const OUT_OF_RANGE: Self = Self::new(0x05, (0x21, 0x00));
    /// A field of the command is wrong.
    pub const INVALID_FIELD: Self = Self::new(0x05, (0x24, 0x00));
    /// There is no such unit.
    pub const NO_UNIT: Self = Self::new(0x05, (0x25, 0x00));
    /// Nothing can be written.
    pub const WRITE_PROTECTED: Self = Self::new(0x07, (0x27, 0x00));
    /// What is there is not what it was compared with.
    pub const MISCOMPARE: Self = Self::new(0x0e, (0x1d, 0x00));
    /// It could not be read.
    pub const READ_ERROR: Self = Self::new(0x03, (0x11, 0x00));
    /// It could not be written.
    pub const WRITE_ERROR: Self = Self::new(0x03, (0x0c, 0x00));

    const fn new(key: u8, code: (u8, u8)) -> Self {
        Self { key, code }
    }

    /// In the fixed form.
    pub fn bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key;
        bytes[7] = 10;
        (bytes[12], bytes[13]) = self.code;
        bytes
    }

    /// From the fixed form.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let key = bytes.get(2)? & 0x0f;
        Some(Self::new(key, (*bytes.get(12)?, *bytes.get(13)?)))
    }
}

/// A command, as it is on the wire.
pub type Cdb = [u8; 16];

/// What a command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Whether the unit is there.
    TestUnitReady,
    /// Why the last command was not done.
    RequestSense,
    /// What the unit is; one page of it, if a page is named.
    Inquiry {
        /// The page.
        page: Option<u8>,
    },
    /// How the unit is set; nothing here can be.
    ModeSense {
        /// Whether the answer has the longer header.
        long: bool,
    },
    /// How many blocks there are.
    ReadCapacity {
        /// Whether the answer has room for more than 2 TB.
        long: bool,
    },
    /// Which units there are.
    ReportLuns,
    /// Reads blocks.
    Read(Range),
    /// Writes blocks.
    Write {
        /// Which.
        range: Range,
        /// Whether they must be durable before the answer.
        durable: bool,
    },
    /// Checks that blocks can be read.
    Verify {
        /// Which.
        range: Range,
        /// Whether they must be those that are sent along.
        compare: bool,
    },
    /// Makes durable what was written.
    Synchronize,
    /// Has no effect on a file.
    Nothing,
}

/// Blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Range {
    /// What a command says at these places.
    fn read(cdb: &Cdb, first: std::ops::Range<usize>, count: std::ops::Range<usize>) -> Self {
        Self {
            first: number(&cdb[first]),
            count: number(&cdb[count]),
        }
    }

    /// What a command of six bytes says.
    fn read_short(cdb: &Cdb) -> Self {
        Self {
            first: number(&cdb[1..4]) & 0x001f_ffff,
            count: match cdb[4] {
                0 => 256,
                count => count.into(),
            },
        }
    }

    /// Where they are, in bytes.
    pub fn offset(self) -> u64 {
        self.first * BLOCK
    }

    /// How long they are, in bytes.
    pub fn length(self) -> u64 {
        self.count * BLOCK
    }

    /// Whether they are within a unit of so many bytes.
    pub fn is_within(self, bytes: u64) -> bool {
        let end = self.first.checked_add(self.count);
        end.is_some_and(|end| end <= bytes / BLOCK)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Command {
    /// Reads a command.
    pub fn read(cdb: &Cdb) -> Result<Self, Sense> {
        let (ten, twelve, sixteen) = (
            || Range::read(cdb, 2..6, 7..9),
            || Range::read(cdb, 2..6, 6..10),
            || Range::read(cdb, 2..10, 10..14),
        );
        let write = |range| Self::Write {
            range,
            durable: cdb[1] & 0x08 != 0,
        };
        let verify = |range| Self::Verify {
            range,
            compare: cdb[1] & 0x02 != 0,
        };
        // Blocks have no protection information: nobody can ask to check it.
        if matches!(cdb[0] >> 4, 0x2 | 0x8 | 0xa) && cdb[0] & 0x08 != 0 && cdb[1] & 0xe0 != 0 {
            return Err(Sense::INVALID_FIELD);
        }
        Ok(match cdb[0] {
            0x00 => Self::TestUnitReady,
            0x03 => Self::RequestSense,
            0x08 => Self::Read(Range::read_short(cdb)),
            0x0a => Self::Write {
                range: Range::read_short(cdb),
                durable: false,
            },
            0x12 if cdb[1] & 1 == 0 && cdb[2] != 0 => return Err(Sense::INVALID_FIELD),
            0x12 => Self::Inquiry {
                page: (cdb[1] & 1 != 0).then_some(cdb[2]),
            },
            0x1a => Self::ModeSense { long: false },
            0x1b | 0x1e => Self::Nothing,
            0x25 => Self::ReadCapacity { long: false },
            0x28 => Self::Read(ten()),
            0x2a | 0x2e => write(ten()),
            0x2f => verify(ten()),
            0x35 | 0x91 => Self::Synchronize,
            0x5a => Self::ModeSense { long: true },
            0x88 => Self::Read(sixteen()),
            0x8a | 0x8e => write(sixteen()),
            0x8f => verify(sixteen()),
            0x9e if cdb[1] & 0x1f == 0x10 => Self::ReadCapacity { long: true },
            0xa0 => Self::ReportLuns,
            0xa8 => Self::Read(twelve()),
            0xaa | 0xae => write(twelve()),
            0xaf => verify(twelve()),
            _ => return Err(Sense::UNKNOWN_COMMAND),
        })
    }
}

/// The command that reads or writes blocks.
pub fn transfer(range: Range, write: bool) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = if write { 0x8a } else { 0x88 };
    cdb[2..10].copy_from_slice(&range.first.to_be_bytes());
    let count = u32::try_from(range.count).unwrap_or(u32::MAX);
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// The command that asks what a unit is.
pub fn inquiry(page: Option<u8>) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x12;
    cdb[1] = u8::from(page.is_some());
    cdb[2] = page.unwrap_or(0);
    cdb[4] = 255;
    cdb
}

/// The command that asks which units there are, and how long its answer may be.
pub fn report_luns(longest: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0xa0;
    cdb[6..10].copy_from_slice(&longest.to_be_bytes());
    cdb
}

/// The command that asks how many blocks there are.
pub fn read_capacity() -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
    cdb
}

/// The command that makes durable what was written.
pub fn synchronize() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x91;
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_in_every_length() {
        let range = Range {
            first: 0x0102_0304,
            count: 0x0506,
        };
        assert_eq!(
            Command::read(&transfer(range, true)),
            Ok(Command::Write {
                range,
                durable: false
            })
        );
        let mut cdb = [0; 16];
        cdb[..10].copy_from_slice(&[0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]);
        assert_eq!(Command::read(&cdb), Ok(Command::Read(range)));
        cdb[..10].copy_from_slice(&[0xa8, 0, 1, 2, 3, 4, 0, 0, 5, 6]);
        assert_eq!(Command::read(&cdb), Ok(Command::Read(range)));
        let mut six = [0; 16];
        six[..6].copy_from_slice(&[0x08, 0xe1, 2, 3, 0, 0]);
        let short = Range {
            first: 0x0001_0203,
            count: 256,
        };
        assert_eq!(Command::read(&six), Ok(Command::Read(short)));
        assert_eq!(
            Command::read(&inquiry(Some(0x83))),
            Ok(Command::Inquiry { page: Some(0x83) })
        );
        assert_eq!(
            Command::read(&read_capacity()),
            Ok(Command::ReadCapacity { long: true })
        );
        assert_eq!(Command::read(&[0xff; 16]), Err(Sense::UNKNOWN_COMMAND));
        let end = |first| Range { first, count: 2 }.is_within(10 * BLOCK);
        assert!(end(8) && !end(9) && !end(u64::MAX));
        assert_eq!(Sense::read(&Sense::NO_UNIT.bytes()), Some(Sense::NO_UNIT));
    }
}
