//! What a whole run proved, kept for `docs/coverage.md`: which tests passed, on which Kubernetes, when.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::results::{Results, Test};

/// A run, as the first line of a record tells it.
pub struct Run<'a> {
    pub kubernetes: &'a str,
    pub date: &'a str,
    pub commit: &'a str,
}

/// The text that is kept: passed and failed tests by package and module.
pub fn text(results: &Results, run: &Run<'_>) -> String {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for test in &results.tests {
        let counts = counts.entry(place(test)).or_default();
        counts.0 += usize::from(test.passed);
        counts.1 += usize::from(!test.passed);
    }
    let mut text = format!("{} on {}, {}\n", run.kubernetes, run.date, run.commit);
    for (module, (passed, failed)) in counts {
        _ = writeln!(text, "{module} {passed} {failed}");
    }
    text
}

/// Where a test is, as `docs/coverage.md` names it below `crates/` or `tests/`.
fn place(test: &Test) -> String {
    let (package, program) = test
        .program
        .split_once("::")
        .unwrap_or((&test.program, "src"));
    let package = package.trim_start_matches("stowage-").replace('-', "_");
    let module = test.name.rsplit_once("::").map_or("", |(module, _)| module);
    // All of them are in one module, for the sake of their names.
    let module = module
        .trim_start_matches("dev_cluster")
        .trim_start_matches("::");
    let program = match program {
        // The one program of a crate.
        "it" => "",
        program if program.starts_with("bin/") => "src",
        program => program,
    };
    let module = module.replace("::", "/");
    let parts = [package.as_str(), program, module.as_str()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_the_module_they_are_in() {
        let mut results = Results::default();
        results
            .read(
                r#"<testsuites>
                <testsuite name="stowage-weka"><testcase name="handle::tests::a" time="1"/></testsuite>
                <testsuite name="stowage-weka::it"><testcase name="nfs::b" time="1"/>
                    <testcase name="nfs::c" time="1"><failure/></testcase></testsuite>
                <testsuite name="stowage-snapshot-controller::it"><testcase name="d" time="1"/></testsuite>
                <testsuite name="stowage-tests::dev_cluster"><testcase name="dev_cluster::weka::e" time="1"/></testsuite>
                </testsuites>"#,
            )
            .unwrap();
        let run = Run {
            kubernetes: "v1.36.4",
            date: "2026-11-17",
            commit: "abc",
        };
        assert_eq!(
            text(&results, &run),
            "v1.36.4 on 2026-11-17, abc\nsnapshot_controller 1 0\ntests/dev_cluster/weka 1 0\n\
             weka/nfs 1 1\nweka/src/handle/tests 1 0\n"
        );
    }
}
