//! What a release is made of: every crate in the binary, every Debian package with a file in the image, with their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use devcluster::process::capture;
use serde_json::{Value, json};

use crate::workspace::cargo;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    name: String,
    version: String,
    /// As an SPDX expression for crates; Debian's packages have a file.
    licence: String,
    /// Where it comes from, as a package URL.
    url: String,
}

/// The crates that are linked into what is shipped.
pub fn crates() -> anyhow::Result<Vec<Part>> {
    let mut tree = cargo("tree");
    tree.args([
        "--package",
        "stowage",
        "--no-default-features",
        "--edges",
        "normal",
        "--target",
        "all",
    ]);
    tree.args(["--prefix", "none", "--format", "{p}\t{l}"]);
    let mut parts = BTreeSet::new();
    for line in capture(&mut tree)?.lines() {
        let (package, licence) = line
            .split_once('\t')
            .with_context(|| format!("cargo tree printed `{line}`"))?;
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        // Ours are the product itself.
        if package.contains("(/") && !package.contains("(proc-macro)") {
            continue;
        }
        let version = version.trim_start_matches('v').to_owned();
        parts.insert(Part {
            url: format!("pkg:cargo/{name}@{version}"),
            name: name.to_owned(),
            version,
            licence: licence.trim_end_matches(" (*)").replace('/', " OR "),
        });
    }
    Ok(parts.into_iter().collect())
}

/// The Debian packages that files of this machine belong to.
pub fn debian(files: &[PathBuf]) -> anyhow::Result<Vec<Part>> {
    let mut packages = BTreeMap::new();
    for file in files {
        if let Some(name) = owner(file) {
            packages.entry(name).or_insert_with(|| file.clone());
        }
    }
    let mut parts = Vec::new();
    for name in packages.into_keys() {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${Version}\t${Architecture}", &name]);
        let said = capture(&mut query)?;
        let (version, architecture) = said.split_once('\t').unwrap_or((&said, "all"));
        let short = name.split(':').next().unwrap_or(&name).to_owned();
        parts.push(Part {
            url: format!("pkg:deb/debian/{short}@{version}?arch={architecture}"),
            licence: format!("/usr/share/doc/{short}/copyright"),
            name: short,
            version: version.to_owned(),
        });
    }
    Ok(parts)
}

/// dpkg knows a file by the path that its package had, with or without `/usr` in front.
fn owner(file: &Path) -> Option<String> {
    let text = file.to_string_lossy();
    let other = text
        .strip_prefix("/usr")
        .map_or_else(|| format!("/usr{text}"), ToOwned::to_owned);
    [text.as_ref(), &other].iter().find_map(|path| {
        let said = capture(Command::new("dpkg-query").args(["--search", path])).ok()?;
        let packages = said.lines().next()?.split_once(": ")?.0;
        packages.split(", ").next().map(ToOwned::to_owned)
    })
}

/// CycloneDX, of the release as a whole.
pub fn sbom(version: &str, parts: &[&[Part]]) -> Value {
    let component = |part: &Part| {
        let mut component = json!({
            "type": "library", "name": part.name, "version": part.version, "purl": part.url, "bom-ref": part.url,
        });
        if !part.licence.starts_with('/') && !part.licence.is_empty() {
            component["licenses"] = json!([{"expression": part.licence}]);
        }
        component
    };
    let components: Vec<_> = parts.iter().copied().flatten().map(component).collect();
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "application", "name": "stowage", "version": version, "bom-ref": format!("stowage@{version}"),
            "licenses": [{"expression": "Apache-2.0"}],
        }},
        "components": components,
    })
}

/// For people.
pub fn licences(crates: &[Part], packages: &[Part]) -> String {
    let mut text = String::from(
        "# Licences\n\nStowage is under Apache-2.0. Linked into its binary:\n\n| crate | version | licence |\n|---|---|---|\n",
    );
    for part in crates {
        _ = writeln!(
            text,
            "| {} | {} | {} |",
            part.name, part.version, part.licence
        );
    }
    text.push_str(
        "\nThe image also holds programs and libraries of Debian 12, unchanged. Their licences are in the file named, of Debian's package; their \
         source is Debian's source package of that version.\n\n| package | version | licence |\n|---|---|---|\n",
    );
    for part in packages {
        _ = writeln!(
            text,
            "| {} | {} | `{}` |",
            part.name, part.version, part.licence
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn lists_are_the_same_each_time_and_name_no_place_of_this_machine() {
        let write = || {
            let crates = crates().unwrap();
            let packages = debian(&[PathBuf::from("/usr/bin/dpkg"), PathBuf::from("/bin/true")]);
            let packages = packages.unwrap();
            assert_eq!(packages.len(), 2, "{packages:?}");
            let sbom = sbom("1.2.3", &[&crates, &packages]);
            let sbom = serde_json::to_string_pretty(&sbom).unwrap();
            (sbom, licences(&crates, &packages))
        };
        let (sbom, licences) = write();
        assert_eq!((sbom.clone(), licences.clone()), write());
        let root = workspace::root().canonicalize().unwrap();
        for text in [&sbom, &licences] {
            assert!(text.contains("tokio") && text.contains("dpkg"), "{text}");
            assert!(!text.contains(&*root.to_string_lossy()), "{text}");
        }
    }
}
