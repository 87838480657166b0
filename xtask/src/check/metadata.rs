//! The workspace as cargo reads its `Cargo.toml` files, and everything it depends on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use devcluster::process::capture;
use serde::Deserialize;

use crate::workspace::cargo;

/// What `cargo metadata` prints, as far as the rules need it.
#[derive(Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

/// A package of the workspace or of a registry.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    /// Where it comes from; `None` for a directory.
    pub source: Option<String>,
    pub dependencies: Vec<Dependency>,
    manifest_path: PathBuf,
    /// `[package.metadata]`.
    #[serde(default)]
    pub metadata: serde_json::Value,
}

/// A line of `[dependencies]`, `[dev-dependencies]` or `[build-dependencies]`.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    pub rename: Option<String>,
    #[serde(default)]
    pub kind: Kind,
    /// The directory of a package of the workspace.
    pub path: Option<PathBuf>,
}

/// Where a dependency is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    #[default]
    Normal,
    Dev,
    Build,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(
            match Option::<String>::deserialize(deserializer)?.as_deref() {
                Some("dev") => Self::Dev,
                Some("build") => Self::Build,
                _ => Self::Normal,
            },
        )
    }
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

impl Metadata {
    /// Asks cargo, for these platforms only.
    pub fn read(targets: &[String]) -> anyhow::Result<Self> {
        let mut command = cargo("metadata");
        command.args(["--format-version", "1"]);
        for target in targets {
            command.args(["--filter-platform", target]);
        }
        let printed = capture(&mut command)?;
        serde_json::from_str(&printed).context("cannot read what `cargo metadata` prints")
    }

    /// The packages of the workspace.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        let is_member = |package: &&Package| self.workspace_members.contains(&package.id);
        self.packages.iter().filter(is_member)
    }

    /// The packages that are built for these platforms.
    pub fn built(&self) -> impl Iterator<Item = &Package> {
        let is_built = |package: &&Package| self.resolve.nodes.iter().any(|it| it.id == package.id);
        self.packages.iter().filter(is_built)
    }
}

impl Package {
    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// The crates that its code knows by name, its own library for its tests included.
    pub fn crates(&self) -> BTreeSet<String> {
        let own = self.name.replace('-', "_");
        let dependencies = self.dependencies.iter().map(Dependency::crate_name);
        dependencies.chain([own]).collect()
    }

    /// How the house calls it: its directory's name.
    pub fn room(&self) -> String {
        room(self.directory())
    }
}

impl Dependency {
    /// How code calls it.
    pub fn crate_name(&self) -> String {
        let name = self.rename.as_ref().unwrap_or(&self.name);
        name.replace('-', "_")
    }

    /// How the house calls it, if it is of the workspace.
    pub fn room(&self) -> Option<String> {
        self.path.as_deref().map(room)
    }
}

fn room(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
