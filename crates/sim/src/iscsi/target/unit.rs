//! What a disk answers.

use std::os::unix::fs::FileExt;

use super::{Storage, Unit};
use crate::iscsi::pdu::encode_lun;
use crate::iscsi::scsi::{BLOCK, Cdb, Command, Range, Sense, Status};

const VENDOR: &[u8; 8] = b"Zadara  ";
const PRODUCT: &[u8; 16] = b"VPSA            ";
const REVISION: &[u8; 4] = b"sim ";

/// Nothing is wrong.
const NO_SENSE: [u8; 18] = [0x70, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A unit that is not there.
const NO_UNIT: u8 = 0x7f;

/// What came of a command.
pub struct Answer {
    /// How it ended.
    pub status: Status,
    /// What was read.
    pub data: Vec<u8>,
    /// How many bytes the command moves, if all of them are there.
    pub whole: u64,
}

impl Answer {
    /// It was done, and this was read.
    fn good(data: Vec<u8>) -> Self {
        Self {
            status: Status::Good,
            whole: data.len() as u64,
            data,
        }
    }

    /// It was not done.
    pub fn check(sense: Sense) -> Self {
        Self {
            status: Status::Check(sense),
            data: Vec::new(),
            whole: 0,
        }
    }
}

/// Carries a command out. Blocks.
pub fn carry_out(
    storage: &dyn Storage,
    guest: &str,
    lun: Option<u64>,
    cdb: &Cdb,
    written: &[u8],
) -> Answer {
    let command = match Command::read(cdb) {
        Ok(command) => command,
        Err(sense) => return Answer::check(sense),
    };
    let unit = lun.and_then(|lun| storage.unit(guest, lun));
    let answer = match (command, &unit) {
        (Command::ReportLuns, _) => Ok(report_luns(&storage.units(guest))),
        (Command::RequestSense, _) => Ok(NO_SENSE.to_vec()),
        (Command::Inquiry { page }, unit) => inquiry(unit.as_ref(), page),
        (_, None) => Err(Sense::NO_UNIT),
        (command, Some(unit)) => serve(unit, command, written),
    };
    match answer {
        Ok(mut data) => {
            data.truncate(allocated(command, cdb));
            let mut answer = Answer::good(data);
            if let Command::Write { range, .. }
            | Command::Verify {
                range,
                compare: true,
            } = command
            {
                answer.whole = range.length();
            }
            answer
        }
        Err(sense) => Answer::check(sense),
    }
}

/// How long the initiator lets an answer be.
fn allocated(command: Command, cdb: &Cdb) -> usize {
    let number = |bytes: &[u8]| {
        let number = bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    match command {
        Command::Inquiry { .. } => number(&cdb[3..5]),
        Command::RequestSense | Command::ModeSense { long: false } => number(&cdb[4..5]),
        Command::ModeSense { long: true } => number(&cdb[7..9]),
        Command::ReportLuns => number(&cdb[6..10]),
        Command::ReadCapacity { long: true } => number(&cdb[10..14]),
        _ => usize::MAX,
    }
}

fn serve(unit: &Unit, command: Command, written: &[u8]) -> Result<Vec<u8>, Sense> {
    match command {
        Command::Read(range) => {
            check_range(unit, range)?;
            let length = usize::try_from(range.length()).map_err(|_| Sense::INVALID_FIELD)?;
            let mut data = vec![0; length];
            unit.file
                .read_exact_at(&mut data, range.offset())
                .map_err(|_| Sense::READ_ERROR)?;
            Ok(data)
        }
        Command::Write { range, durable } => {
            check_range(unit, range)?;
            if unit.read_only {
                return Err(Sense::WRITE_PROTECTED);
            }
            unit.file
                .write_all_at(common(written, range), range.offset())
                .map_err(|_| Sense::WRITE_ERROR)?;
            if durable {
                unit.file.sync_data().map_err(|_| Sense::WRITE_ERROR)?;
            }
            Ok(Vec::new())
        }
        Command::Verify { range, compare } => {
            check_range(unit, range)?;
            let wanted = common(written, range);
            let mut found = vec![0; wanted.len()];
            unit.file
                .read_exact_at(&mut found, range.offset())
                .map_err(|_| Sense::READ_ERROR)?;
            if compare && found != wanted {
                return Err(Sense::MISCOMPARE);
            }
            Ok(Vec::new())
        }
        Command::Synchronize => {
            unit.file.sync_data().map_err(|_| Sense::WRITE_ERROR)?;
            Ok(Vec::new())
        }
        Command::ReadCapacity { long } => Ok(capacity(unit, long)),
        Command::ModeSense { long } => Ok(modes(unit, long)),
        Command::TestUnitReady
        | Command::Nothing
        | Command::RequestSense
        | Command::ReportLuns
        | Command::Inquiry { .. } => Ok(Vec::new()),
    }
}

/// What was sent of the blocks that a command is about: it may be more or less.
fn common(written: &[u8], range: Range) -> &[u8] {
    let length = usize::try_from(range.length()).unwrap_or(usize::MAX);
    &written[..written.len().min(length)]
}

fn check_range(unit: &Unit, range: Range) -> Result<(), Sense> {
    if range.is_within(unit.size) {
        Ok(())
    } else {
        Err(Sense::OUT_OF_RANGE)
    }
}

fn report_luns(luns: &[u64]) -> Vec<u8> {
    let length = u32::try_from(luns.len() * 8).unwrap_or(u32::MAX);
    let mut data = length.to_be_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(luns.iter().flat_map(|lun| encode_lun(*lun)));
    data
}

fn inquiry(unit: Option<&Unit>, page: Option<u8>) -> Result<Vec<u8>, Sense> {
    let peripheral = if unit.is_some() { 0 } else { NO_UNIT };
    let Some(page) = page else {
        let mut data = vec![peripheral, 0, 0x05, 0x02, 31, 0, 0, 0x02];
        data.extend_from_slice(VENDOR);
        data.extend_from_slice(PRODUCT);
        data.extend_from_slice(REVISION);
        return Ok(data);
    };
    let unit = unit.ok_or(Sense::NO_UNIT)?;
    let body = match page {
        0x00 => vec![0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2],
        0x80 => unit.serial.clone().into_bytes(),
        0x83 => identification(&unit.serial),
        0xb0 => vec![0; 60],
        // Nothing that turns.
        0xb1 => [&[0, 1], [0; 58].as_slice()].concat(),
        0xb2 => vec![0; 4],
        _ => return Err(Sense::INVALID_FIELD),
    };
    let length = u8::try_from(body.len()).map_err(|_| Sense::INVALID_FIELD)?;
    let mut data = vec![peripheral, page, 0, length];
    data.extend(body);
    Ok(data)
}

/// What tells the unit from all others, in the form that `multipath` takes for a WWID: NAA 6 with 32 digits.
fn identification(serial: &str) -> Vec<u8> {
    let mut name = naa(serial);
    let mut data = vec![0x01, 0x03, 0x00, 16];
    data.append(&mut name);
    data
}

/// A name of 16 bytes that is the same for the same serial.
pub fn naa(serial: &str) -> Vec<u8> {
    use md5::{Digest, Md5};
    let mut name = Md5::digest(serial.as_bytes()).to_vec();
    name[0] = 0x60 | name[0] & 0x0f;
    name
}

fn capacity(unit: &Unit, long: bool) -> Vec<u8> {
    let last = (unit.size / BLOCK).saturating_sub(1);
    let block = 512_u32.to_be_bytes();
    if long {
        let mut data = last.to_be_bytes().to_vec();
        data.extend(block);
        data.resize(32, 0);
        return data;
    }
    let last = u32::try_from(last).unwrap_or(u32::MAX);
    [last.to_be_bytes(), block].concat()
}

/// No pages; only that writes can be made durable at once, and whether it can be written.
fn modes(unit: &Unit, long: bool) -> Vec<u8> {
    let protected = if unit.read_only { 0x90 } else { 0x10 };
    if long {
        vec![0, 6, 0, protected, 0, 0, 0, 0]
    } else {
        vec![3, 0, protected, 0]
    }
}
