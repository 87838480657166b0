//! What a whole run proved, kept for `docs/coverage.md`: which tests passed, on which Kubernetes, when.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Tests by package, program and module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    package: String,
    program: String,
    /// Passed and failed.
    counts: BTreeMap<String, (usize, usize)>,
}

/// A run, as the first line of a record tells it.
pub struct Run<'a> {
    pub kubernetes: &'a str,
    pub date: &'a str,
    pub commit: &'a str,
}

impl Record {
    /// Reads a line of `cargo test`. Programs of a package follow its unit tests, so that their package is known.
    pub fn read(&mut self, line: &str) {
        if let Some(program) = line.trim_start().strip_prefix("Running ") {
            let file = program.rsplit('/').next().unwrap_or_default();
            let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
            if program.starts_with("unittests ") {
                name.clone_into(&mut self.package);
                "src".clone_into(&mut self.program);
            } else {
                name.clone_into(&mut self.program);
            }
            return;
        }
        let Some((name, end)) = line
            .strip_prefix("test ")
            .and_then(|it| it.split_once(" ... "))
        else {
            return;
        };
        let module = name.rsplit_once("::").map_or("", |(module, _)| module);
        // All of them are in one module, for the sake of their names.
        let module = module
            .trim_start_matches("dev_cluster")
            .trim_start_matches("::");
        let package = self.package.trim_start_matches("stowage_");
        let key = format!("{package}/{}/{}", self.program, module.replace("::", "/"));
        let counts = self
            .counts
            .entry(key.trim_end_matches('/').to_owned())
            .or_default();
        counts.0 += usize::from(end == "ok");
        counts.1 += usize::from(end == "FAILED");
    }

    /// The text that is kept.
    pub fn text(&self, run: &Run<'_>) -> String {
        let mut text = format!("{} on {}, {}\n", run.kubernetes, run.date, run.commit);
        for (module, (passed, failed)) in &self.counts {
            _ = writeln!(text, "{module} {passed} {failed}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_the_module_they_are_in() {
        let mut record = Record::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/stowage_weka-0123)",
            "test handle::tests::a ... ok",
            "     Running tests/real/main.rs (target/debug/deps/real-4567)",
            "test nfs::b ... ok",
            "test nfs::c ... FAILED",
            "     Running unittests lib.rs (target/debug/deps/stowage_tests-89ab)",
            "     Running dev_cluster/main.rs (target/debug/deps/dev_cluster-cdef)",
            "test dev_cluster::weka::d ... ok",
        ] {
            record.read(line);
        }
        let run = Run {
            kubernetes: "v1.36.4",
            date: "2026-11-17",
            commit: "abc",
        };
        assert_eq!(
            record.text(&run),
            "v1.36.4 on 2026-11-17, abc\ntests/dev_cluster/weka 1 0\nweka/real/nfs 1 1\nweka/src/handle/tests 1 0\n"
        );
    }
}
