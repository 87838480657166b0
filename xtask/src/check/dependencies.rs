//! Every dependency in a `Cargo.toml` is used by code, and by code of its kind.
//!
//! What only generated code or a feature needs is named in `[package.metadata.cargo-machete]`, which that tool reads too.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use toml::Table;

use super::finding::Finding;
use super::metadata::{Kind, Package};
use super::sources::Source;

/// What is wrong with the dependencies of one package. `root` is that of the workspace.
pub fn check(root: &Path, package: &Package, sources: &[Source]) -> Vec<Finding> {
    let directory = package.directory();
    let below = directory.strip_prefix(root).unwrap_or(directory);
    let manifest = below.join("Cargo.toml");
    let ignored = &package.metadata["cargo-machete"]["ignored"];
    let ignored: Vec<&str> = ignored
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str())
        .collect();
    let mut findings = Vec::new();
    for kind in [Kind::Normal, Kind::Dev, Kind::Build] {
        let of_kind = |source: &&Source| {
            let path = source.path.strip_prefix(below).unwrap_or(&source.path);
            kind_of_code(path).contains(&kind)
        };
        let used: BTreeSet<String> = sources
            .iter()
            .filter(of_kind)
            .flat_map(|source| crates_of(&source.tokens))
            .collect();
        for dependency in package.dependencies.iter().filter(|it| it.kind == kind) {
            if used.contains(&dependency.crate_name())
                || ignored.contains(&dependency.name.as_str())
            {
                continue;
            }
            let section = match kind {
                Kind::Normal => "dependencies",
                Kind::Dev => "dev-dependencies",
                Kind::Build => "build-dependencies",
            };
            let what = format!(
                "`{}` in [{section}] is not used by such code: remove or move it",
                dependency.name
            );
            findings.push(Finding::new(manifest.display().to_string(), what));
        }
    }
    findings
}

/// What is in `[workspace.dependencies]` and no package has.
pub fn check_workspace(manifest: &str, members: &[&Package]) -> anyhow::Result<Vec<Finding>> {
    let manifest: Table = manifest
        .parse()
        .context("cannot parse the Cargo.toml of the workspace")?;
    let shared = manifest["workspace"]
        .get("dependencies")
        .and_then(|it| it.as_table());
    let used: BTreeSet<&str> = members
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let unused = shared
        .into_iter()
        .flat_map(Table::keys)
        .filter(|name| !used.contains(name.as_str()));
    let finding = |name: &String| {
        Finding::new(
            "Cargo.toml",
            format!("`{name}` in [workspace.dependencies] is not used: remove it"),
        )
    };
    Ok(unused.map(finding).collect())
}

/// Which dependencies a file of a package may use.
fn kind_of_code(path: &Path) -> &'static [Kind] {
    if path == Path::new("build.rs") {
        &[Kind::Build]
    } else if path.starts_with("tests") {
        &[Kind::Dev]
    } else {
        // Dev: its unit tests.
        &[Kind::Normal, Kind::Dev]
    }
}

/// Names that stand where a crate's may: before `::`, and after `use`. In documentation too: examples are tests.
fn crates_of(tokens: &TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is =
        |tree: Option<&TokenTree>, text: &str| tree.is_some_and(|tree| tree.to_string() == text);
    for (number, tree) in tokens.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => found.extend(crates_of(&group.stream())),
            TokenTree::Ident(name) => {
                let before = number.checked_sub(1).and_then(|at| tokens.get(at));
                let is_first = !is(before, ":");
                let leads = is(tokens.get(number + 1), ":") && is(tokens.get(number + 2), ":");
                if is_first && (leads || is(before, "use") || is(before, "crate")) {
                    found.insert(name.to_string());
                }
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let paths = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                found.extend(paths.filter_map(|path| Some(path.split_once("::")?.0.to_owned())));
            }
            TokenTree::Punct(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(dependencies: &serde_json::Value) -> Package {
        serde_json::from_value(json!({
            "id": "a", "name": "a", "version": "1.0.0", "license": null, "source": null,
            "manifest_path": "/w/crates/a/Cargo.toml", "dependencies": dependencies,
            "metadata": {"cargo-machete": {"ignored": ["generated"]}},
        }))
        .unwrap()
    }

    fn found(package: &Package, files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |(path, text): &(&str, &str)| Source::parse(*path, (*text).to_owned()).unwrap();
        let sources: Vec<Source> = files.iter().map(source).collect();
        let found = check(Path::new("/w"), package, &sources);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_that_no_code_uses_is_found() {
        let package = package(&json!([
            {"name": "in-path", "rename": null, "kind": null},
            {"name": "in_use", "rename": null, "kind": null},
            {"name": "long-name", "rename": "short", "kind": null},
            {"name": "in-macro", "rename": null, "kind": null},
            {"name": "in-example", "rename": null, "kind": null},
            {"name": "generated", "rename": null, "kind": null},
            {"name": "nobodys", "rename": null, "kind": null},
            {"name": "only-inner", "rename": null, "kind": null},
        ]));
        let code = "\
            use in_use as _;\n\
            /// `in_example::f()`\n\
            fn f() { in_path::f(); x!({ in_macro::g() }); short::h(); a::only_inner::f(); let nobodys = 1; }";
        let what = |name| {
            format!(
                "crates/a/Cargo.toml: `{name}` in [dependencies] is not used by such code: remove or move it"
            )
        };
        assert_eq!(
            found(&package, &[("crates/a/src/lib.rs", code)]),
            [what("nobodys"), what("only-inner")]
        );
    }

    #[test]
    fn code_of_another_kind_does_not_count() {
        let package = package(&json!([
            {"name": "x", "rename": null, "kind": null},
            {"name": "y", "rename": null, "kind": "dev"},
            {"name": "z", "rename": null, "kind": "build"},
        ]));
        let right = [
            ("crates/a/src/lib.rs", "use x::A;"),
            ("crates/a/tests/b.rs", "use y::A;"),
            ("crates/a/build.rs", "use z::A;"),
        ];
        assert_eq!(found(&package, &right), Vec::<String>::new());
        let wrong = [
            ("crates/a/build.rs", "use x::A; use y::A;"),
            ("crates/a/tests/b.rs", "use x::A; use z::A;"),
        ];
        assert_eq!(found(&package, &wrong).len(), 3);
    }

    #[test]
    fn a_shared_dependency_that_no_package_has_is_found() {
        let manifest = "[workspace.dependencies]\nx = \"1\"\ny = { path = \"y\" }\n";
        let package = package(&json!([{"name": "x", "rename": null, "kind": "dev"}]));
        let found = check_workspace(manifest, &[&package]).unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["Cargo.toml: `y` in [workspace.dependencies] is not used: remove it"]
        );
    }
}
