//! The last column of `docs/coverage.md`: on which newer Kubernetes the tests of a row passed, by the records of whole runs in `docs/runs`.
//!
//! A row is proven where every file that it names had tests that passed and none that failed; everywhere else it is open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::finding::Finding;

/// The page.
pub const FILE: &str = "docs/coverage.md";
const RUNS: &str = "docs/runs";

/// A recorded run: `v1.36.4 on 2026-11-17`, and passed and failed tests by module.
#[derive(Debug)]
struct Run {
    when: String,
    modules: BTreeMap<String, (usize, usize)>,
}

/// The page as it should be.
pub fn page(root: &Path) -> anyhow::Result<String> {
    let page =
        fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read `{FILE}`"))?;
    let runs = runs(&root.join(RUNS))?;
    let lines = page.lines().map(|line| filled(line, &runs));
    Ok(lines.map(|line| line + "\n").collect())
}

fn runs(directory: &Path) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "txt"));
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file)?;
        runs.push(
            parsed(&text)
                .with_context(|| format!("`{}` is not a record of a run", file.display()))?,
        );
    }
    Ok(runs)
}

fn parsed(text: &str) -> Option<Run> {
    let mut lines = text.lines();
    let when = lines.next()?.split_once(',')?.0.to_owned();
    let mut modules = BTreeMap::new();
    for line in lines {
        let mut words = line.split(' ');
        let module = words.next()?.to_owned();
        modules.insert(
            module,
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        );
    }
    Some(Run { when, modules })
}

/// Rows of promises have an id, a test and two columns; other lines stay as they are.
fn filled(line: &str, runs: &[Run]) -> String {
    let cells: Vec<_> = line.split(" | ").collect();
    let id = line
        .trim_start_matches("| ")
        .split(' ')
        .next()
        .unwrap_or_default();
    let is_promise = id.len() >= 2
        && id.starts_with(|it: char| ('A'..='E').contains(&it))
        && id[1..].parse::<u32>().is_ok();
    let (true, [id, what, test, old, _]) = (is_promise, cells.as_slice()) else {
        return line.to_owned();
    };
    let proven = runs.iter().filter(|run| proves(run, test));
    let proven: Vec<_> = proven.map(|run| run.when.as_str()).collect();
    let newer = if proven.is_empty() {
        "open".to_owned()
    } else {
        proven.join(", ")
    };
    [*id, *what, *test, *old, &format!("{newer} |")].join(" | ")
}

fn proves(run: &Run, cell: &str) -> bool {
    let places = places(cell);
    !places.is_empty()
        && places.iter().all(|place| {
            let of_place = run
                .modules
                .iter()
                .filter(|(module, _)| is_at(module, place));
            let (passed, failed) =
                of_place.fold((0, 0), |sum, (_, it)| (sum.0 + it.0, sum.1 + it.1));
            passed > 0 && failed == 0
        })
}

fn is_at(module: &str, place: &str) -> bool {
    let rest = module.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Rows without which the last column could never be filled: what is said to pass names a place, and places that are named exist.
pub fn check(page: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in page.lines().zip(1..) {
        let cells: Vec<_> = line.split(" | ").collect();
        let [.., test, old, _] = cells.as_slice() else {
            continue;
        };
        let mut complain = |what: String| findings.push(Finding::at(Path::new(FILE), number, what));
        let paths = paths(test);
        if *old == "yes" && paths.is_empty() {
            complain("names no test below `crates/` or `tests/`, and says `yes`".to_owned());
        }
        for path in paths.iter().filter(|path| !exists(path)) {
            complain(format!("`{path}` does not exist"));
        }
    }
    findings
}

/// The places that a cell names, as records of runs call them.
fn places(cell: &str) -> Vec<String> {
    paths(cell).iter().map(|path| place(path)).collect()
}

/// What a cell names: `crates/vpsa/tests/it/vsc/{arrays,classes}.rs` is two modules of the tests of `vpsa`.
fn paths(cell: &str) -> Vec<String> {
    let quoted = cell.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|it| it.starts_with("crates/") || it.starts_with("tests/"));
    paths.flat_map(expanded).collect()
}

fn expanded(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| {
        rest.split_once('}')
            .map(|(words, after)| (before, words, after))
    }) {
        Some((before, words, after)) => words
            .split(',')
            .map(|word| format!("{before}{word}{after}"))
            .collect(),
        None => vec![path.to_owned()],
    }
}

fn place(path: &str) -> String {
    let path = path.trim_end_matches(".rs").trim_end_matches('/');
    let Some(of_crate) = path.strip_prefix("crates/") else {
        return path.to_owned();
    };
    let (name, inside) = of_crate.split_once('/').unwrap_or((of_crate, ""));
    let name = if name == "cli" { "stowage" } else { name };
    let inside = inside
        .strip_prefix("tests/it")
        .map_or(inside, |it| it.trim_start_matches('/'));
    format!("{name}/{inside}").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn a_row_that_says_yes_names_tests_and_all_that_rows_name_exists() {
        let page = "| id | what | test | 1.20 | newer |\n|---|---|---|---|---|\n\
                    | A1 | a | `tests/a.rs`, `a::b` | yes | open |\n\
                    | A2 | b | golden manifests | yes | open |\n\
                    | A3 | c | open | | |\n\
                    | d | `crates/d/{e,f}.rs` | - | - |\n";
        let there = ["tests/a.rs", "crates/d/e.rs"];
        let found = check(page, |path| there.contains(&path));
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "docs/coverage.md:4: names no test below `crates/` or `tests/`, and says `yes`",
                "docs/coverage.md:6: `crates/d/f.rs` does not exist",
            ]
        );
    }

    #[test]
    fn our_own_page_keeps_the_rule() {
        let root = workspace::root();
        let page = fs::read_to_string(root.join(FILE)).unwrap();
        let found = check(&page, |path| root.join(path).exists());
        assert_eq!(found, Vec::<Finding>::new());
    }

    const RECORD: &str = "v1.36.4 on 2026-11-17, abc\nvpsa/vsc/arrays 3 0\nvpsa/vsc/classes 1 0\ntests/dev_cluster/vpsa 1 1\n";

    #[test]
    fn a_row_is_proven_where_all_that_it_names_passed() {
        let runs = [parsed(RECORD).unwrap()];
        for (test, newer) in [
            (
                "`crates/vpsa/tests/it/vsc/{arrays,classes}.rs`",
                "v1.36.4 on 2026-11-17",
            ),
            (
                "`crates/vpsa/tests/it/vsc`, `names::a_test`",
                "v1.36.4 on 2026-11-17",
            ),
            (
                "`crates/vpsa/tests/it/vsc/arrays.rs`; `tests/dev_cluster/vpsa.rs`",
                "open",
            ),
            ("`crates/vpsa/tests/it/vsc/nodes.rs`", "open"),
            ("open", "open"),
        ] {
            let row = format!("| D1 | health | {test} | yes | |");
            let expected = format!("| D1 | health | {test} | yes | {newer} |");
            assert_eq!(filled(&row, &runs), expected);
            assert_eq!(filled(&expected, &runs), expected, "twice");
        }
        for line in [
            "| id | what | test | 1.20 | newer |",
            "|---|---|---|---|---|",
            "Text | with | bars | in | it |",
            "",
        ] {
            assert_eq!(filled(line, &runs), line);
        }
    }
}
