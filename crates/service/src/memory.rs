//! Gives memory back that a process no longer needs.
//!
//! A start needs a lot that nothing needs afterwards: lists that are decoded, code that reads flags and certificates.
//! Neither the allocator nor the kernel lets go of it by itself.

use std::fs;
use std::ops::Range;
use std::time::Duration;

use tokio::time::sleep;

/// By then a process has started.
const STARTED: Duration = Duration::from_secs(3);
/// Between two looks at the heap.
const EVERY: Duration = Duration::from_secs(60);

/// Gives memory back for as long as the process runs.
pub(crate) async fn keep_small() {
    sleep(STARTED).await;
    let_go_of_code();
    loop {
        give_back();
        sleep(EVERY).await;
    }
}

/// Gives memory that was freed back to the system; glibc by itself keeps what lies between pieces that are in use.
///
/// Takes milliseconds: call it after something large, not often. Called twice: there is less to give.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "malloc_trim has no safe wrapper")]
pub fn give_back() {
    // SAFETY: malloc_trim takes an integer, locks the allocator itself and touches no memory that is in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries are left to themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}

/// Unmaps the pages of the program's code; those that are still needed come back as they are used.
///
/// They stay in the page cache, where every process of the same program finds them, but no longer count as this
/// process's, and the kernel may reuse them. Only once: whoever traces a process has put marks into its code.
#[allow(unsafe_code, reason = "madvise has no safe wrapper")]
fn let_go_of_code() {
    let (Ok(maps), Ok(program)) = (
        fs::read_to_string("/proc/self/maps"),
        fs::read_link("/proc/self/exe"),
    ) else {
        return;
    };
    for code in code_of(&maps, &program.to_string_lossy()) {
        let start = std::ptr::without_provenance_mut(code.start);
        // SAFETY: the range is a mapping of a file that was never written to: it is executable and read-only. What is read
        // from it next comes from the same file again.
        unsafe { libc::madvise(start, code.len(), libc::MADV_DONTNEED) };
    }
}

/// The mappings that hold the program's code.
fn code_of(maps: &str, program: &str) -> Vec<Range<usize>> {
    let range = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let is_code = rest.starts_with("r-xp ") && rest.ends_with(&format!(" {program}"));
        let (start, end) = addresses.split_once('-').filter(|_| is_code)?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0100000 r--p 00000000 08:01 42                         /bin/stowage
55d0c0100000-55d0c0300000 r-xp 00100000 08:01 42                         /bin/stowage
55d0c0300000-55d0c0400000 rw-p 00300000 08:01 42                         /bin/stowage
7f0000000000-7f0000100000 r-xp 00000000 08:01 43                         /lib/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 08:01 44                         /other/bin/stowage
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn only_the_programs_own_code_is_let_go() {
        let code = 0x55d0_c010_0000..0x55d0_c030_0000;
        assert_eq!(code_of(MAPS, "/bin/stowage"), [code]);
        assert!(code_of(MAPS, "/bin/gone (deleted)").is_empty());
    }

    /// The pages of the program's code that this process has mapped, in kB.
    fn resident_code() -> usize {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let program = fs::read_link("/proc/self/exe").unwrap();
        let program = program.to_string_lossy().into_owned();
        let mut ours = false;
        let mut sum = 0;
        for line in smaps.lines() {
            if line.contains("-xp ") || line.contains("-p ") {
                ours = line.contains("r-xp") && line.ends_with(&program);
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| ours) {
                sum += size
                    .trim()
                    .trim_end_matches(" kB")
                    .parse::<usize>()
                    .unwrap();
            }
        }
        sum
    }

    #[test]
    fn code_that_was_let_go_can_still_be_run() {
        let before = resident_code();
        let_go_of_code();
        let after = resident_code();
        assert!(before > 0 && after < before, "{before} kB, then {after} kB");
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_was_freed_between_pieces_in_use_is_given_back() {
        let resident = || {
            let statm = fs::read_to_string("/proc/self/statm").unwrap();
            let pages = statm.split(' ').nth(1).unwrap();
            pages.parse::<usize>().unwrap()
        };
        // Each too small for a mapping of its own; every other one stays.
        let pieces: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 32 << 10]).collect();
        let kept: Vec<_> = pieces.into_iter().step_by(2).collect();
        let before = resident();
        give_back();
        let after = resident();
        assert_eq!(kept.len(), 1000);
        assert!(after + 2000 < before, "{before} pages, then {after}");
    }
}
