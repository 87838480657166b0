//! `./x test --repeat N`: the same tests again and again, with every core busy, to find those that waver.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::results::Results;

/// Threads that keep every core busy until they are dropped.
pub struct Load {
    ends: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    pub fn on_every_core() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let ends = Arc::clone(&ends);
            thread::spawn(move || {
                while !black_box(ends.load(Ordering::Relaxed)) {
                    std::hint::spin_loop();
                }
            })
        };
        Self {
            threads: (0..cores).map(spin).collect(),
            ends,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How often each test failed.
#[derive(Debug, Default)]
pub struct Wavering {
    rounds: usize,
    failures: BTreeMap<String, usize>,
}

impl Wavering {
    pub fn add(&mut self, results: &Results) {
        self.rounds += 1;
        for failed in results.failed() {
            *self.failures.entry(failed).or_default() += 1;
        }
    }

    /// What people read: the worst first.
    pub fn told(&self) -> String {
        if self.failures.is_empty() {
            return format!("No test wavered in {} rounds.", self.rounds);
        }
        let mut failures: Vec<_> = self.failures.iter().collect();
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let line = |(test, count): (&String, &usize)| {
            let how = if *count == self.rounds {
                "fails"
            } else {
                "wavers"
            };
            format!("  {count} of {} {how}: {test}\n", self.rounds)
        };
        let lines: String = failures.into_iter().map(line).collect();
        format!("Failed in {} rounds:\n{lines}", self.rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_sometimes_is_told_from_one_that_always_does() {
        let junit = |second: &str| {
            format!(
                r#"<testsuites><testsuite name="a::it"><testcase name="bad" time="1"><failure/></testcase>
                <testcase name="flaky" time="1">{second}</testcase></testsuite></testsuites>"#
            )
        };
        let mut wavering = Wavering::default();
        for second in ["", "<failure/>", ""] {
            let mut results = Results::default();
            results.read(&junit(second)).unwrap();
            wavering.add(&results);
        }
        assert_eq!(
            wavering.told(),
            "Failed in 3 rounds:\n  3 of 3 fails: a::it bad\n  1 of 3 wavers: a::it flaky\n"
        );
        assert_eq!(Wavering::default().told(), "No test wavered in 0 rounds.");
    }
}
