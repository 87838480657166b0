//! `./x test --since REV`: which tests a change can touch, by cargo's own graph of crates.

use std::path::Path;
use std::process::Command;

use devcluster::process::capture;

use crate::workspace;

/// What a change can touch.
#[derive(Debug, PartialEq, Eq)]
pub enum Touched {
    /// Files that no crate owns, such as charts, which tests of any crate may read; the first of them.
    Everything(String),
    /// Nothing that a test reads.
    Nothing,
    /// A condition of nextest's filter language: the crates, and those that use them.
    Crates(Vec<String>),
}

impl Touched {
    /// Nothing where it is everything.
    pub fn condition(&self) -> Option<String> {
        match self {
            Self::Everything(_) => None,
            Self::Nothing => Some("none()".to_owned()),
            Self::Crates(names) => {
                let one = |name: &String| format!("rdeps(={name})");
                let all: Vec<_> = names.iter().map(one).collect();
                Some(format!("({})", all.join(" + ")))
            }
        }
    }
}

/// What has changed since a revision, what is not committed included.
pub fn touched(revision: &str) -> anyhow::Result<Touched> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        capture(git.args(arguments).current_dir(workspace::root()))
    };
    let changed = git(&["diff", "--name-only", "--no-renames", revision, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let files: Vec<&str> = changed.lines().chain(new.lines()).collect();
    Ok(by_files(&files, &packages()?))
}

/// Directories of the packages, and their names.
fn packages() -> anyhow::Result<Vec<(String, String)>> {
    let mut cargo = workspace::cargo("metadata");
    let said = capture(cargo.args(["--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&said)?;
    let root = workspace::root().canonicalize()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let place = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let directory = manifest.parent()?.strip_prefix(&root).ok()?;
        let name = package["name"].as_str()?.to_owned();
        Some((directory.display().to_string(), name))
    };
    Ok(packages.filter_map(place).collect())
}

fn by_files(files: &[&str], packages: &[(String, String)]) -> Touched {
    let mut names = Vec::new();
    for file in files {
        let owner = packages
            .iter()
            .find(|(directory, _)| Path::new(file).starts_with(directory));
        match owner {
            Some((_, name)) if !names.contains(name) => names.push(name.clone()),
            Some(_) => (),
            // Pages are held to what programs do by tests of two crates.
            None if is_prose(file) => (),
            None => return Touched::Everything((*file).to_owned()),
        }
    }
    if names.is_empty() {
        return Touched::Nothing;
    }
    names.sort();
    Touched::Crates(names)
}

/// Read by people only: what programs hold to the truth is below `docs`.
fn is_prose(file: &str) -> bool {
    let is_page = Path::new(file).extension().is_some_and(|it| it == "md");
    let is_at_the_root = !file.contains('/');
    is_page && is_at_the_root || file == "LICENSE" || file.starts_with("docs/decisions/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_touches_its_crate_and_one_of_nobody_touches_everything() {
        let packages = [("crates/weka", "stowage-weka"), ("xtask", "xtask")];
        let packages = packages.map(|(directory, name)| (directory.to_owned(), name.to_owned()));
        let touched = |files: &[&str]| by_files(files, &packages);
        let weka = Touched::Crates(vec!["stowage-weka".to_owned()]);
        assert_eq!(
            touched(&["crates/weka/src/a.rs", "crates/weka/b.rs", "README.md"]),
            weka
        );
        assert_eq!(weka.condition().unwrap(), "(rdeps(=stowage-weka))");
        assert_eq!(touched(&["CHANGELOG.md"]), Touched::Nothing);
        let all = Touched::Everything("charts/stowage/values.yaml".to_owned());
        assert_eq!(
            touched(&["xtask/src/a.rs", "charts/stowage/values.yaml"]),
            all
        );
        assert_eq!(all.condition(), None);
    }
}
