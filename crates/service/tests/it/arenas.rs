//! In a process of its own: the heaps of other tests' threads would be counted.
#![cfg(target_env = "gnu")]
#![allow(clippy::disallowed_methods, reason = "tests run programs")]

use std::process::Command;
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

/// Set in the process that is counted.
const APART: &str = "STOWAGE_TEST_APART";

#[test]
fn many_threads_share_one_heap() {
    if std::env::var_os(APART).is_some() {
        return in_this_process();
    }
    let this = std::env::current_exe().expect("a test has a program");
    let output = Command::new(this)
        .args(["--exact", "arenas::many_threads_share_one_heap"])
        .args(["--nocapture", "--test-threads=1"])
        .env(APART, "1")
        .output()
        .expect("the program can be started again");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{complaint}"
    );
}

fn in_this_process() {
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
