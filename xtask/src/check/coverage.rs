//! The last column of `docs/coverage.md`: on which newer Kubernetes the tests of a row passed, by the records of whole runs in `docs/runs`.
//!
//! A row is proven where every file that it names had tests that passed and none that failed; everywhere else it is open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

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

/// What a cell names: `crates/vpsa/tests/vsc/{arrays,classes}.rs` is two places of the program `vsc`.
fn places(cell: &str) -> Vec<String> {
    let quoted = cell.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|it| it.starts_with("crates/") || it.starts_with("tests/"));
    paths.flat_map(expanded).map(|path| place(&path)).collect()
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
        .strip_prefix("tests")
        .map_or(inside, |it| it.trim_start_matches('/'));
    format!("{name}/{inside}").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "v1.36.4 on 2026-11-17, abc\nvpsa/vsc/arrays 3 0\nvpsa/vsc/classes 1 0\ntests/dev_cluster/vpsa 1 1\n";

    #[test]
    fn a_row_is_proven_where_all_that_it_names_passed() {
        let runs = [parsed(RECORD).unwrap()];
        for (test, newer) in [
            (
                "`crates/vpsa/tests/vsc/{arrays,classes}.rs`",
                "v1.36.4 on 2026-11-17",
            ),
            (
                "`crates/vpsa/tests/vsc`, `names::a_test`",
                "v1.36.4 on 2026-11-17",
            ),
            (
                "`crates/vpsa/tests/vsc/arrays.rs`; `tests/dev_cluster/vpsa.rs`",
                "open",
            ),
            ("`crates/vpsa/tests/vsc/nodes.rs`", "open"),
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
