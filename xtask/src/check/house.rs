//! The arrows between the crates of the workspace are those of the table in `ARCHITECTURE.md`, and they point down.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::metadata::{Dependency, Kind, Package};

/// Where the table is.
pub const FILE: &str = "ARCHITECTURE.md";

/// Its first line.
const HEADER: [&str; 4] = ["crate", "holds", "uses", "its tests also use"];

/// What one crate uses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arrows {
    /// In what it is.
    uses: BTreeSet<String>,
    /// In its tests besides.
    in_tests: BTreeSet<String>,
}

/// Compares the table with what the `Cargo.toml` files say.
pub fn check<'a>(document: &str, members: impl Iterator<Item = &'a Package>) -> Vec<Finding> {
    let Some(rows) = table(document) else {
        let what = format!("there is no table `| {} |`", HEADER.join(" | "));
        return vec![Finding::new(FILE, what)];
    };
    let order: Vec<&str> = rows.iter().map(|(room, _)| room.as_str()).collect();
    let mut drawn: BTreeMap<&str, &Arrows> = rows
        .iter()
        .map(|(room, arrows)| (room.as_str(), arrows))
        .collect();
    let mut findings = Vec::new();
    for package in members {
        let room = package.room();
        let Some(drawn) = drawn.remove(room.as_str()) else {
            findings.push(Finding::new(
                FILE,
                format!("`{room}` has no row in the table of crates: add one"),
            ));
            continue;
        };
        let real = real(package);
        compare(&room, "uses", &real.uses, &drawn.uses, &mut findings);
        compare(
            &room,
            "uses in its tests",
            &real.in_tests,
            &drawn.in_tests,
            &mut findings,
        );
    }
    for room in drawn.into_keys() {
        findings.push(Finding::new(
            FILE,
            format!("`{room}` has a row in the table of crates and is none: remove it"),
        ));
    }
    for (number, (room, arrows)) in rows.iter().enumerate() {
        for used in arrows
            .uses
            .iter()
            .filter(|used| order[..=number].contains(&used.as_str()))
        {
            let what =
                format!("`{room}` uses `{used}`, which is not below it: arrows point down only");
            findings.push(Finding::new(FILE, what));
        }
    }
    findings
}

fn compare(
    room: &str,
    uses: &str,
    real: &BTreeSet<String>,
    drawn: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    for used in real.difference(drawn) {
        let what = format!(
            "`{room}` {uses} `{used}`, and the table of crates in {FILE} has no such arrow: remove one or add the other"
        );
        findings.push(Finding::new(format!("{room}/Cargo.toml"), what));
    }
    for used in drawn.difference(real) {
        let what = format!(
            "the table of crates says that `{room}` {uses} `{used}`, and its Cargo.toml does not: remove it"
        );
        findings.push(Finding::new(FILE, what));
    }
}

/// The arrows that a `Cargo.toml` has.
fn real(package: &Package) -> Arrows {
    let of = |in_tests: bool| {
        let of_kind = move |kind: Kind| (kind == Kind::Dev) == in_tests;
        let dependencies = package
            .dependencies
            .iter()
            .filter(move |it| of_kind(it.kind));
        dependencies
            .filter_map(Dependency::room)
            .collect::<BTreeSet<String>>()
    };
    let uses = of(false);
    let in_tests = of(true).difference(&uses).cloned().collect();
    Arrows { uses, in_tests }
}

/// The rows of the table, from the top of the house.
fn table(document: &str) -> Option<Vec<(String, Arrows)>> {
    let mut lines = document.lines().map(cells);
    lines.find(|cells| *cells == HEADER)?;
    // The line below the header.
    lines.next()?;
    let rows = lines.map_while(|cells| match cells.as_slice() {
        [room, _, uses, in_tests] => {
            let arrows = Arrows {
                uses: names(uses).collect(),
                in_tests: names(in_tests).collect(),
            };
            Some((names(room).next()?, arrows))
        }
        _ => None,
    });
    Some(rows.collect())
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line
        .trim()
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'));
    inner
        .map(|inner| inner.split('|').map(str::trim).collect())
        .unwrap_or_default()
}

/// What stands between backticks.
fn names(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::check::what_is_built;
    use crate::workspace::root;

    #[test]
    fn the_arrows_of_the_workspace_are_those_of_the_table() {
        let document = fs::read_to_string(root().join(FILE)).unwrap();
        let (_, metadata) = what_is_built(&root()).unwrap();
        let found: Vec<String> = check(&document, metadata.members())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    const TABLE: &str = "\
| crate | holds | uses | its tests also use |
|---|---|---|---|
| `top` | it all | `middle`, `low` | |
| `middle` | some | `low` | `rig` |
| `low` | little | | |
| `rig` | what tests need | | |

| another | table |
";

    fn package(room: &str, normal: &[&str], dev: &[&str]) -> Package {
        let dependency = |kind: serde_json::Value| move |used: &&str| json!({"name": used, "rename": null, "kind": kind, "path": format!("/w/crates/{used}")});
        let normal = normal.iter().map(dependency(json!(null)));
        let dev = dev.iter().map(dependency(json!("dev")));
        let foreign = json!({"name": "serde", "rename": null, "kind": null, "path": null});
        serde_json::from_value(json!({
            "id": room, "name": format!("product-{room}"), "version": "1.0.0", "license": null, "source": null,
            "manifest_path": format!("/w/crates/{room}/Cargo.toml"),
            "dependencies": normal.chain(dev).chain([foreign]).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn found(table: &str, change: impl FnOnce(&mut Vec<Package>)) -> Vec<String> {
        let mut packages = vec![
            package("top", &["middle", "low"], &["low"]),
            package("middle", &["low"], &["rig"]),
            package("low", &[], &[]),
            package("rig", &[], &[]),
        ];
        change(&mut packages);
        check(table, packages.iter())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_table_that_is_true_passes() {
        assert_eq!(found(TABLE, |_| ()), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_found() {
        let found = found(TABLE, |packages| {
            packages[1] = package("middle", &["low", "rig"], &[]);
        });
        assert_eq!(
            found,
            [
                "middle/Cargo.toml: `middle` uses `rig`, and the table of crates in ARCHITECTURE.md has no such arrow: \
                 remove one or add the other",
                "ARCHITECTURE.md: the table of crates says that `middle` uses in its tests `rig`, and its Cargo.toml does not: \
                 remove it",
            ]
        );
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let found = found(TABLE, |packages| packages[3] = package("new", &[], &[]));
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md: `new` has no row in the table of crates: add one",
                "ARCHITECTURE.md: `rig` has a row in the table of crates and is none: remove it",
            ]
        );
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let table = TABLE.replace("| `low` | little | |", "| `low` | little | `top` |");
        let found = found(&table, |packages| {
            packages[2] = package("low", &["top"], &[]);
        });
        assert_eq!(
            found,
            ["ARCHITECTURE.md: `low` uses `top`, which is not below it: arrows point down only"]
        );
    }

    #[test]
    fn a_house_without_a_table_is_found() {
        assert_eq!(found("# Nothing", |_| ()).len(), 1);
    }
}
