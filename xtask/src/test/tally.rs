//! What a run of `cargo test` says of itself, line by line.

/// How many failed tests are tried again at most.
const TRIED_AGAIN: usize = 5;

/// What ran, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: Vec<String>,
    /// Programs of which cargo says that they failed.
    programs: usize,
    /// Those of them that lived to say so themselves.
    summaries: usize,
}

impl Tally {
    pub fn read(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            self.passed += usize::from(line.ends_with("... ok"));
            let failed = test
                .split_once(" ... FAILED")
                .map(|(name, _)| name.to_owned());
            self.failed
                .extend(failed.filter(|name| !self.failed.contains(name)));
            // What a test shows of a program that it started for itself alone is not a summary of the run.
            let is_whole = !test.contains(" filtered out") || test.contains(" 0 filtered out");
            self.summaries += usize::from(is_whole && test.starts_with("result: FAILED"));
        }
        let is_told = line.starts_with("error: ") && line.contains(", to rerun pass ");
        self.programs += usize::from(is_told);
    }

    /// Whether trying again tells anything: all that went wrong is in the list of failed tests, which a program that
    /// died does not add to, and it is not so much that something must be broken.
    pub fn is_worth_another_try(&self) -> bool {
        self.programs == self.summaries && (1..=TRIED_AGAIN).contains(&self.failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &str) -> Tally {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn tests_are_counted_and_those_that_failed_are_named() {
        let run = tally(
            "running 3 tests\n\
             test a::first ... ok\n\
             test a::slow has been running for over 60 seconds\n\
             test a::slow ... ok\n\
             test b::bad ... FAILED\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored\n\
             error: test failed, to rerun pass `-p x --test y`\n\
             test result: ok. 0 passed; 0 failed\n\
             error: 1 target failed:",
        );
        assert_eq!(
            (run.passed, run.failed.as_slice()),
            (2, &["b::bad".to_owned()][..])
        );
        assert!(run.is_worth_another_try());
    }

    #[test]
    fn what_a_test_shows_of_its_own_process_is_not_counted() {
        let run = tally(
            "test a::apart ... FAILED\n\
             ---- a::apart stdout ----\n\
             test a::apart ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 90 filtered out; finished in 1s\n\
             test result: FAILED. 8 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2s\n\
             error: test failed, to rerun pass `-p x --test y`",
        );
        assert_eq!(run.failed, ["a::apart"]);
        assert!(run.is_worth_another_try());
    }

    #[test]
    fn a_program_that_died_is_not_taken_for_a_failed_test() {
        let run = tally(
            "test b::bad ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed\n\
             error: test failed, to rerun pass `-p x --test y`\n\
             test c::first ... ok\n\
             error: test failed, to rerun pass `-p x --test z`",
        );
        assert!(!run.is_worth_another_try());
        assert!(!tally("error: could not compile `x`").is_worth_another_try());
    }

    #[test]
    fn where_much_fails_nothing_is_tried_again() {
        let line = |number| format!("test a{number} ... FAILED\n");
        let failed =
            |count| tally(&(0..count).map(line).collect::<String>()).is_worth_another_try();
        assert_eq!([0, 1, 5, 6].map(failed), [false, true, true, false]);
    }
}
