//! Licences, versions and sources of everything that is built, by the lists in `deny.toml`, which cargo-deny reads too.

mod licence;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde::Deserialize;

use super::finding::Finding;
use super::metadata::{Metadata, Package};

/// Where the lists are.
pub const FILE: &str = "deny.toml";

/// The lists, as far as the rules need them.
#[derive(Deserialize)]
pub struct Deny {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// A version that may be there beside another.
#[derive(Deserialize)]
struct Skip {
    /// `name@version`; the version may be cut after any number.
    #[serde(rename = "crate")]
    package: String,
    /// Why it is there.
    reason: String,
}

impl Deny {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).with_context(|| format!("cannot parse `{FILE}`"))
    }

    /// The platforms that we build for.
    pub fn targets(&self) -> &[String] {
        &self.graph.targets
    }

    pub fn check(&self, metadata: &Metadata) -> Vec<Finding> {
        let built: Vec<&Package> = metadata.built().collect();
        let mut findings = self.licences(&built);
        findings.extend(self.versions(&built));
        findings.extend(sources(&built));
        findings
    }

    fn licences(&self, built: &[&Package]) -> Vec<Finding> {
        let finding = |package: &&&Package| {
            let what = match &package.license {
                None => "it names no licence".to_owned(),
                Some(licence) if licence::is_allowed(licence, &self.licenses.allow) => return None,
                Some(licence) => format!("its licence `{licence}` is not in [licenses] of {FILE}"),
            };
            Some(Finding::new(named(package), what + ": use another package"))
        };
        built
            .iter()
            .filter_map(|package| finding(&package))
            .collect()
    }

    fn versions(&self, built: &[&Package]) -> Vec<Finding> {
        let mut versions = BTreeMap::<&str, Vec<&Package>>::new();
        for package in built {
            versions.entry(&package.name).or_default().push(package);
        }
        let mut findings = Vec::new();
        for (name, packages) in &versions {
            let counted = packages.iter().filter(|package| !self.is_skipped(package));
            let counted: Vec<&str> = counted.map(|package| package.version.as_str()).collect();
            if counted.len() > 1 {
                let what = format!(
                    "versions {} are built: agree on one, or name the reason in [bans] of {FILE}",
                    counted.join(" and ")
                );
                findings.push(Finding::new(*name, what));
            }
        }
        for skip in &self.bans.skip {
            let is_double = |packages: &Vec<&Package>| {
                packages.len() > 1 && packages.iter().any(|it| skip.covers(it))
            };
            if skip.reason.trim().is_empty() {
                findings.push(Finding::new(
                    FILE,
                    format!("`{}` in [bans] has no reason: write one", skip.package),
                ));
            }
            if !versions.values().any(is_double) {
                let what = format!(
                    "`{}` in [bans] is not built beside another version: remove it",
                    skip.package
                );
                findings.push(Finding::new(FILE, what));
            }
        }
        findings
    }

    fn is_skipped(&self, package: &Package) -> bool {
        self.bans.skip.iter().any(|skip| skip.covers(package))
    }
}

impl Skip {
    fn covers(&self, package: &Package) -> bool {
        let (name, version) = self.package.split_once('@').unwrap_or((&self.package, ""));
        let rest = package.version.strip_prefix(version);
        name == package.name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Everything comes from one registry or from this tree.
fn sources(built: &[&Package]) -> Vec<Finding> {
    let registries: BTreeSet<&str> = built.iter().filter_map(|it| it.source.as_deref()).collect();
    let first = registries
        .iter()
        .find(|source| source.starts_with("registry+"));
    let foreign = built.iter().filter(|package| {
        package
            .source
            .as_deref()
            .is_some_and(|source| Some(&source) != first)
    });
    let finding = |package: &&Package| {
        let source = package.source.as_deref().unwrap_or_default();
        Finding::new(
            named(package),
            format!(
                "it comes from `{source}`, not from the registry of all others: take it from there"
            ),
        )
    };
    foreign.map(finding).collect()
}

fn named(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

#[cfg(test)]
mod tests;
