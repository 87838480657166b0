//! Where the time of a run went: its stages, its slowest programs and its slowest tests. For people at the end of a run, for
//! programs in `target/test-profile.json`.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::results::Results;
use crate::workspace;

/// How many of the slowest are shown.
const SHOWN: usize = 20;

/// The stages of a run; some are under way at the same time.
pub struct Profile {
    started: Instant,
    stages: RefCell<Vec<Stage>>,
}

struct Stage {
    name: String,
    began: Duration,
    took: Duration,
}

impl Profile {
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            stages: RefCell::default(),
        }
    }

    /// Does something, and remembers how long it took, however it ended.
    pub fn stage<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let began = self.started.elapsed();
        let outcome = work();
        self.stages.borrow_mut().push(Stage {
            name: name.to_owned(),
            began,
            took: self.started.elapsed().saturating_sub(began),
        });
        outcome
    }

    /// Writes the file and returns what people read.
    pub fn conclude(&self, results: &Results) -> anyhow::Result<String> {
        let file = path();
        let text = format!("{:#}\n", self.as_json(results));
        std::fs::write(&file, text)
            .with_context(|| format!("cannot write `{}`", file.display()))?;
        Ok(self.as_text(results) + &format!("The same as JSON: {}\n", file.display()))
    }

    fn as_json(&self, results: &Results) -> Value {
        let stages = self.stages.borrow();
        let stages = stages.iter().map(|stage| {
            json!({"name": stage.name, "began": seconds(stage.began), "seconds": seconds(stage.took)})
        });
        let programs = results.programs();
        let programs = programs.iter().map(|program| {
            json!({"name": program.name, "tests": program.tests, "seconds": seconds(program.took)})
        });
        let tests = results.slowest();
        let tests = tests.iter().map(|test| {
            json!({"program": test.program, "name": test.name, "seconds": seconds(test.took), "passed": test.passed})
        });
        json!({
            "seconds": seconds(self.started.elapsed()),
            "stages": stages.collect::<Vec<_>>(),
            "programs": programs.collect::<Vec<_>>(),
            "tests": tests.collect::<Vec<_>>(),
        })
    }

    fn as_text(&self, results: &Results) -> String {
        let mut text = format!(
            "Where the time went ({} s in all):\n",
            self.started.elapsed().as_secs()
        );
        for stage in self.stages.borrow().iter() {
            _ = writeln!(text, "{:>8.0} s  {}", seconds(stage.took), stage.name);
        }
        text += "The slowest programs (the times of their tests, which run side by side, put together):\n";
        for program in results.programs().iter().take(SHOWN) {
            let (took, name, tests) = (seconds(program.took), program.name, program.tests);
            _ = writeln!(text, "{took:>8.0} s  {name} ({tests} tests)");
        }
        text += "The slowest tests:\n";
        for test in results.slowest().iter().take(SHOWN) {
            let took = seconds(test.took);
            _ = writeln!(text, "{took:>8.1} s  {} {}", test.program, test.name);
        }
        text
    }
}

fn path() -> PathBuf {
    workspace::target().join("test-profile.json")
}

/// To a tenth.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_programs_and_tests_are_listed_slowest_first() {
        let profile = Profile::start();
        profile.stage("Building the tests", || ());
        let mut results = Results::default();
        results
            .read(
                r#"<testsuites name="nextest-run">
                <testsuite name="a::it"><testcase name="x::quick" time="0.5"/></testsuite>
                <testsuite name="b::it"><testcase name="y::slow" time="12.34"/></testsuite>
                </testsuites>"#,
            )
            .unwrap();
        let text = profile.as_text(&results);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "       0 s  Building the tests");
        assert_eq!(lines[2], "      12 s  b::it (1 tests)");
        assert_eq!(lines[5], "    12.3 s  b::it y::slow");
        let json = profile.as_json(&results);
        assert_eq!(json["tests"][0]["seconds"], 12.3);
        assert_eq!(json["programs"][1]["name"], "a::it");
    }
}
