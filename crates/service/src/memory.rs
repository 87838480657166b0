//! Gives memory back that a process no longer needs.
//!
//! A start needs a lot that nothing needs afterwards, such as lists that are decoded. The allocator keeps it.

use std::time::Duration;

use tokio::time::sleep;

/// By then a process has started.
const STARTED: Duration = Duration::from_secs(3);
/// Between two looks at the heap.
const EVERY: Duration = Duration::from_secs(60);

/// Gives memory back for as long as the process runs.
pub(crate) async fn keep_small() {
    sleep(STARTED).await;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
