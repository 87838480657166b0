//! The few bytes of superblocks that no tool reports.

/// Where an xfs superblock has what is looked for here; all numbers in it are big-endian.
mod xfs {
    pub(super) const MAGIC: &[u8] = b"XFSB";
    pub(super) const VERSION: usize = 100;
    pub(super) const SECTOR_SIZE: usize = 102;
    pub(super) const IN_PROGRESS: usize = 126;
    pub(super) const CHECKSUM: usize = 224;
}

/// Where a btrfs superblock is on the device, and what is looked for in it; its numbers are little-endian.
mod btrfs {
    pub(super) const START: usize = 64 * 1024;
    pub(super) const MAGIC: &[u8] = b"_BHRfS_M";
    pub(super) const MAGIC_AT: usize = START + 64;
    pub(super) const LOG_ROOT_AT: usize = START + 96;
}

/// Where an ext4 superblock is on the device, and what is looked for in it; its numbers are little-endian.
mod ext4 {
    pub(super) const START: usize = 1024;
    pub(super) const BLOCKS_LOW: usize = START + 0x4;
    pub(super) const LOG_BLOCK_SIZE: usize = START + 0x18;
    pub(super) const MAGIC: usize = START + 0x38;
    pub(super) const INCOMPATIBLE: usize = START + 0x60;
    pub(super) const BLOCKS_HIGH: usize = START + 0x150;
    pub(super) const IS_64_BIT: u32 = 0x80;
    pub(super) const NEEDS_RECOVERY: u32 = 0x4;
}

/// How much of a device's beginning holds both.
pub(super) const HEAD: usize = 128 * 1024;

/// Whether this is an xfs whose `mkfs` never came to its end.
///
/// `mkfs.xfs` writes the superblock first, marked as in progress, and takes the mark away last: killed in between it
/// leaves something that `blkid` calls an xfs and no kernel mounts. ext4 and btrfs write their signature last. Only a
/// superblock with a right checksum counts: in a damaged one the mark says nothing.
pub(super) fn is_unfinished_xfs(head: &[u8]) -> bool {
    let Some(version) = be16(head, xfs::VERSION) else {
        return false;
    };
    if !head.starts_with(xfs::MAGIC) || version & 0xF != 5 || head.get(xfs::IN_PROGRESS) != Some(&1)
    {
        return false;
    }
    let sector = be16(head, xfs::SECTOR_SIZE).map_or(0, usize::from);
    let Some(sector) = head
        .get(..sector)
        .filter(|sector| sector.len() > xfs::CHECKSUM + 4)
    else {
        return false;
    };
    let (before, rest) = sector.split_at(xfs::CHECKSUM);
    let (stored, after) = rest.split_at(4);
    let sum = [before, &[0; 4], after].into_iter().fold(!0, crc32c);
    stored == (!sum).to_le_bytes()
}

/// Whether this is a btrfs with data that was synced by files but not yet by a commit, kept in a log for the next
/// mount. `btrfstune` overlooks it and leaves a filesystem that cannot be mounted.
pub(super) fn has_btrfs_log(head: &[u8]) -> bool {
    let magic = head
        .get(btrfs::MAGIC_AT..)
        .is_some_and(|rest| rest.starts_with(btrfs::MAGIC));
    let log = head.get(btrfs::LOG_ROOT_AT..btrfs::LOG_ROOT_AT + 8);
    magic && log.is_some_and(|root| root.iter().any(|&byte| byte != 0))
}

fn is_ext4(head: &[u8]) -> bool {
    head.get(ext4::MAGIC..ext4::MAGIC + 2) == Some(&[0x53, 0xEF])
}

/// Whether this is an ext4 whose journal has to be applied: it was not unmounted, or is a copy of one in use.
pub(super) fn has_ext4_log(head: &[u8]) -> bool {
    let features = le32(head, ext4::INCOMPATIBLE);
    is_ext4(head) && features.is_some_and(|features| features & ext4::NEEDS_RECOVERY != 0)
}

/// The size of the ext4 at the beginning of a device, in blocks, and the size of a block.
pub(super) fn ext4_size(head: &[u8]) -> Option<(u64, u64)> {
    if !is_ext4(head) {
        return None;
    }
    let is_64_bit = le32(head, ext4::INCOMPATIBLE)? & ext4::IS_64_BIT != 0;
    let high = if is_64_bit {
        le32(head, ext4::BLOCKS_HIGH)?
    } else {
        0
    };
    let blocks = u64::from(high) << 32 | u64::from(le32(head, ext4::BLOCKS_LOW)?);
    Some((
        blocks,
        1024_u64.checked_shl(le32(head, ext4::LOG_BLOCK_SIZE)?)?,
    ))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// CRC-32C, bit by bit: it sums up one sector.
fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    bytes.iter().fold(sum, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An xfs superblock in progress, as `mkfs.xfs` would have it on the disk.
    fn unfinished() -> Vec<u8> {
        let mut head = vec![0; HEAD];
        head[..4].copy_from_slice(xfs::MAGIC);
        head[xfs::VERSION..][..2].copy_from_slice(&0xB4B5_u16.to_be_bytes());
        head[xfs::SECTOR_SIZE..][..2].copy_from_slice(&512_u16.to_be_bytes());
        head[xfs::IN_PROGRESS] = 1;
        let sum = !crc32c(!0, &head[..512]);
        head[xfs::CHECKSUM..][..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn only_a_sound_superblock_in_progress_is_unfinished() {
        assert!(is_unfinished_xfs(&unfinished()));
        for change in [0, xfs::VERSION + 1, xfs::IN_PROGRESS, xfs::CHECKSUM, 300] {
            let mut damaged = unfinished();
            damaged[change] ^= 0xF;
            assert!(!is_unfinished_xfs(&damaged), "byte {change}");
        }
        assert!(!is_unfinished_xfs(&[]));
        assert!(!is_unfinished_xfs(&unfinished()[..400]));
    }

    #[test]
    fn an_ext4_that_was_not_unmounted_is_seen() {
        let mut head = vec![0; HEAD];
        head[ext4::INCOMPATIBLE] = 0xC4;
        assert!(!has_ext4_log(&head), "not an ext4");
        head[ext4::MAGIC..][..2].copy_from_slice(&[0x53, 0xEF]);
        assert!(has_ext4_log(&head));
        head[ext4::INCOMPATIBLE] = 0xC0;
        assert!(!has_ext4_log(&head));
        assert!(!has_ext4_log(&head[..1000]));
    }

    #[test]
    fn a_btrfs_log_is_seen() {
        let mut head = vec![0; HEAD];
        head[btrfs::LOG_ROOT_AT] = 1;
        assert!(!has_btrfs_log(&head), "not a btrfs");
        head[btrfs::MAGIC_AT..][..8].copy_from_slice(btrfs::MAGIC);
        assert!(has_btrfs_log(&head));
        head[btrfs::LOG_ROOT_AT] = 0;
        assert!(!has_btrfs_log(&head));
        assert!(!has_btrfs_log(&head[..1000]));
    }
}
