//! The limit on malloc arenas.
//!
//! glibc gives every thread that allocates an arena of its own, up to eight per core, and each keeps the memory that
//! was once freed in it. A process with a handful of mostly idle threads then holds a multiple of what it needs.

/// Two arenas: one for the main thread, one for all others to share.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Limits glibc to two arenas; elsewhere does nothing.
///
/// Call it before the first thread starts where possible: arenas that exist already stay. Called twice: no effect.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "mallopt has no safe wrapper, and the environment variable would need a re-exec"
)]
pub fn limit() {
    // SAFETY: mallopt takes two integers, locks the allocator itself and touches no memory of ours.
    let accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    debug_assert_eq!(accepted, 1, "glibc refused M_ARENA_MAX");
}

/// Other C libraries have one heap for all threads.
#[cfg(not(target_env = "gnu"))]
pub fn limit() {}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    /// Counts the heaps that malloc made for threads: 64 MiB reservations, aligned to their size.
    fn thread_heaps() -> usize {
        const HEAP: u64 = 64 << 20;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let starts = maps.lines().filter_map(|line| {
            let (start, _) = line.split_once('-')?;
            u64::from_str_radix(start, 16).ok()
        });
        starts
            .filter(|start| *start != 0 && start % HEAP == 0)
            .count()
    }

    #[test]
    fn many_threads_share_one_heap() {
        super::limit();
        let before = thread_heaps();
        let all_allocated = Barrier::new(17);
        thread::scope(|scope| {
            for size in 0..16 {
                let all_allocated = &all_allocated;
                scope.spawn(move || {
                    let memory = vec![1_u8; 1000 + size];
                    all_allocated.wait();
                    all_allocated.wait();
                    drop(memory);
                });
            }
            all_allocated.wait();
            let grown = thread_heaps().saturating_sub(before);
            all_allocated.wait();
            assert!(grown <= 2, "16 threads made {grown} heaps");
        });
    }
}
