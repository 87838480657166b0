//! What tests of one run agree on although each may be a process: locks of files, which end with whoever holds them.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, thread};

/// The directory of a run of tests: set by `./x test`.
pub const RUN_VARIABLE: &str = "STOWAGE_TEST_RUN";

/// Does something once for all tests to which a directory means the same, and returns when it is done. Where it fails
/// the next test tries again.
pub fn once(directory: &Path, name: &str, work: impl FnOnce()) {
    let done = directory.join(format!("{name}.done"));
    let _turn = Turn::wait(directory, name);
    if !done.exists() {
        work();
        fs::write(&done, "").unwrap();
    }
}

/// Does something once in a run of tests.
pub fn once_in_run(name: &str, work: impl FnOnce()) {
    once(run_directory(), name, work);
}

/// What all tests of a run see of each other. Without `./x test` each process is a run of its own.
pub(crate) fn run_directory() -> &'static Path {
    static OF_PROCESS: OnceLock<PathBuf> = OnceLock::new();
    OF_PROCESS.get_or_init(|| match run_directory_of_all() {
        Some(directory) => directory,
        // Small, and needed until the process ends.
        None => tempfile::tempdir().unwrap().keep(),
    })
}

/// The same, if `./x test` started this test.
pub(crate) fn run_directory_of_all() -> Option<PathBuf> {
    let directory = env::var_os(RUN_VARIABLE).filter(|it| !it.is_empty())?;
    Some(PathBuf::from(directory))
}

/// Something that one test has at a time, or a few have.
pub struct Turn {
    _file: File,
}

impl Turn {
    /// Of all tests of a run.
    pub fn of_run(name: &str) -> Self {
        Self::wait(run_directory(), name)
    }

    /// One of so many that all tests of a run have together.
    pub fn one_of(count: usize, name: &str) -> Self {
        let turn = |number| File::create(run_directory().join(format!("{name}-{number}.lock")));
        let turns: Vec<File> = (0..count).map(|number| turn(number).unwrap()).collect();
        loop {
            if let Some(free) = turns.iter().position(|file| file.try_lock().is_ok()) {
                let mut turns = turns;
                return Self {
                    _file: turns.swap_remove(free),
                };
            }
            // The kernel cannot wait for whichever comes first.
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits for it.
    pub fn wait(directory: &Path, name: &str) -> Self {
        fs::create_dir_all(directory).unwrap();
        let file = File::create(directory.join(format!("{name}.lock"))).unwrap();
        file.lock().unwrap();
        Self { _file: file }
    }
}

/// A word for names that no other test uses, of this process or another, now or later in the run.
pub fn unique() -> String {
    // Process ids come again in a long run.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:08x}", random & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn work_that_failed_is_done_again_and_work_that_is_done_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let failed = std::panic::catch_unwind(|| {
            once(directory.path(), "work", || panic!("it fails"));
        });
        assert!(failed.is_err());
        let done = Cell::new(0);
        for _ in 0..2 {
            once(directory.path(), "work", || done.set(done.get() + 1));
        }
        assert_eq!(done.get(), 1);
    }

    #[test]
    fn names_differ() {
        assert_ne!(unique(), unique());
    }
}
