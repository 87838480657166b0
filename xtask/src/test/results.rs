//! How each test ended, as nextest writes it down for machines (JUnit).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use roxmltree::{Document, Node};

/// A test that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Such as `stowage-weka::it`, and without a second part where tests stand beside the code.
    pub program: String,
    pub name: String,
    pub took: Duration,
    pub passed: bool,
    /// It passed only when it was tried again.
    pub wavered: bool,
}

/// What a program of tests took: the sum of its tests.
#[derive(Debug, PartialEq)]
pub struct Program<'a> {
    pub name: &'a str,
    pub tests: usize,
    pub took: Duration,
}

/// All tests of a run.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    pub tests: Vec<Test>,
    /// Reasons for which tests left themselves out, and how many did.
    pub left_out: BTreeMap<String, usize>,
}

impl Results {
    /// Adds what a file says.
    pub fn read(&mut self, junit: &str) -> anyhow::Result<()> {
        let document = Document::parse(junit).context("nextest's report is not XML")?;
        let cases = document
            .descendants()
            .filter(|node| node.has_tag_name("testcase"));
        for case in cases {
            self.tests.push(test(case)?);
        }
        Ok(())
    }

    /// Those that a test itself said it left out did not pass; each with its reason.
    pub fn leave_out(&mut self, mut tests: BTreeMap<String, String>) {
        self.tests.retain(|test| {
            let reason = tests.remove(&format!("{} {}", test.program, test.name));
            let is_left_out = reason.is_some();
            if let Some(reason) = reason {
                *self.left_out.entry(reason).or_default() += 1;
            }
            !is_left_out
        });
    }

    /// Adds those of another part of the run.
    pub fn add(&mut self, other: Self) {
        self.tests.extend(other.tests);
        for (reason, count) in other.left_out {
            *self.left_out.entry(reason).or_default() += count;
        }
    }

    pub fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.passed).count()
    }

    /// Names of those that failed.
    pub fn failed(&self) -> Vec<String> {
        self.names(|test| !test.passed)
    }

    /// Names of those that passed only when they were tried again.
    pub fn wavered(&self) -> Vec<String> {
        self.names(|test| test.wavered)
    }

    fn names(&self, are: impl Fn(&Test) -> bool) -> Vec<String> {
        let those = self.tests.iter().filter(|test| are(test));
        those
            .map(|test| format!("{} {}", test.program, test.name))
            .collect()
    }

    /// The slowest first.
    pub fn slowest(&self) -> Vec<&Test> {
        let mut tests: Vec<_> = self.tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        tests
    }

    /// The slowest first.
    pub fn programs(&self) -> Vec<Program<'_>> {
        let mut programs: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for test in &self.tests {
            let program = programs.entry(&test.program).or_default();
            program.0 += 1;
            program.1 += test.took;
        }
        let mut programs: Vec<_> = programs
            .into_iter()
            .map(|(name, (tests, took))| Program { name, tests, took })
            .collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.took));
        programs
    }
}

fn test(case: Node<'_, '_>) -> anyhow::Result<Test> {
    let program = case.parent().and_then(|suite| suite.attribute("name"));
    let name = case.attribute("name");
    let seconds = case.attribute("time").and_then(|time| time.parse().ok());
    let (Some(program), Some(name), Some(seconds)) = (program, name, seconds) else {
        anyhow::bail!("nextest's report has a test without a name or a time");
    };
    let is_bad = |node: Node<'_, '_>| node.has_tag_name("failure") || node.has_tag_name("error");
    Ok(Test {
        program: program.to_owned(),
        name: name.to_owned(),
        took: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        passed: !case.children().any(is_bad),
        wavered: case
            .children()
            .any(|node| node.has_tag_name("flakyFailure") || node.has_tag_name("flakyError")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nextest 0.9.143 writes it.
    const JUNIT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="1" uuid="x" timestamp="2026-11-19T20:00:00.000+00:00" time="1.2">
    <testsuite name="stowage-weka::it" tests="2" disabled="0" errors="0" failures="1">
        <testcase name="nfs::a" classname="stowage-weka::it" timestamp="2026-11-19T20:00:00.000+00:00" time="1.500">
            <flakyFailure timestamp="2026-11-19T20:00:00.000+00:00" time="0.5" message="x" type="test failure"/>
        </testcase>
        <testcase name="nfs::b" classname="stowage-weka::it" timestamp="2026-11-19T20:00:00.000+00:00" time="0.250">
            <failure message="it &lt;says&gt; no" type="test failure with exit code 101">why</failure>
            <system-out>running 1 test</system-out>
        </testcase>
    </testsuite>
    <testsuite name="stowage-api" tests="1" disabled="0" errors="1" failures="0">
        <testcase name="quantity::tests::c" classname="stowage-api" timestamp="2026-11-19T20:00:00.000+00:00" time="360.0">
            <error type="test timeout"/>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn tests_are_counted_and_those_that_failed_are_named() {
        let mut results = Results::default();
        results.read(JUNIT).unwrap();
        assert_eq!(results.passed(), 1);
        let failed = ["stowage-weka::it nfs::b", "stowage-api quantity::tests::c"];
        assert_eq!(results.failed(), failed);
        assert_eq!(results.wavered(), ["stowage-weka::it nfs::a"]);
        assert_eq!(results.slowest()[0].name, "quantity::tests::c");
        let weka = &results.programs()[1];
        assert_eq!((weka.name, weka.tests), ("stowage-weka::it", 2));
        assert_eq!(weka.took, Duration::from_millis(1750));
    }

    #[test]
    fn what_was_left_out_did_not_pass() {
        let mut results = Results::default();
        results.read(JUNIT).unwrap();
        let reason = "it mounts".to_owned();
        let left_out = ("stowage-weka::it nfs::a".to_owned(), reason.clone());
        results.leave_out(BTreeMap::from([left_out]));
        assert_eq!((results.passed(), results.failed().len()), (0, 2));
        assert_eq!(results.left_out, BTreeMap::from([(reason, 1)]));
    }

    #[test]
    fn half_a_report_is_refused() {
        for text in [
            "",
            "<testsuites><testcase",
            "<testsuites><testcase name=\"a\"/></testsuites>",
        ] {
            assert!(Results::default().read(text).is_err(), "{text}");
        }
    }
}
