//! A process of its own: the heaps of other tests' threads would be counted.
#![cfg(target_env = "gnu")]

use std::sync::Barrier;
use std::thread;

/// Counts the heaps that malloc made for threads: 64 MiB reservations, aligned to their size.
fn thread_heaps() -> usize {
    const HEAP: u64 = 64 << 20;
    let maps =
        std::fs::read_to_string("/proc/self/maps").expect("Linux shows every process its memory");
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
    stowage_service::arenas::limit();
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
