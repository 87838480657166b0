//! Which secrets the classes and volumes of each driver name, and how many of them do.
//!
//! Thousands of volumes name the same secret: only the first and the last of them are news.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::driver::secret::References;

/// One secret, or a key whose secret only a sidecar can resolve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    Named { namespace: String, name: String },
    Templated(String),
}

/// How many objects make each reference, by driver.
#[derive(Default)]
pub(super) struct WantedSecrets(HashMap<String, BTreeMap<Reference, usize>>);

impl WantedSecrets {
    /// One more object names these: whether one of them is new to the driver.
    pub(super) fn add(&mut self, driver: &str, references: &References) -> bool {
        let counts = self.0.entry(driver.to_owned()).or_default();
        let mut is_news = false;
        for reference in each(references) {
            let count = counts.entry(reference).or_default();
            is_news |= *count == 0;
            *count += 1;
        }
        is_news
    }

    /// One object less names these: whether one of them was the last.
    pub(super) fn remove(&mut self, driver: &str, references: &References) -> bool {
        let Some(counts) = self.0.get_mut(driver) else {
            return false;
        };
        let mut is_news = false;
        for reference in each(references) {
            let count = counts.get_mut(&reference);
            if count.is_some_and(|count| {
                *count -= 1;
                *count == 0
            }) {
                counts.remove(&reference);
                is_news = true;
            }
        }
        if counts.is_empty() {
            self.0.remove(driver);
        }
        is_news
    }

    /// The drivers that expect a secret in a namespace.
    pub(super) fn expecting(&self, wanted: &str) -> BTreeSet<String> {
        let expects = |reference: &Reference| match reference {
            Reference::Named { namespace, .. } => namespace == wanted,
            Reference::Templated(_) => false,
        };
        let drivers = self.0.iter();
        let drivers = drivers.filter(|(_, counts)| counts.keys().any(expects));
        drivers.map(|(driver, _)| driver.clone()).collect()
    }

    /// What the objects of a driver name, in namespaces that exist.
    pub(super) fn of(&self, driver: &str, exists: impl Fn(&str) -> bool) -> References {
        let mut found = References::default();
        for reference in self.0.get(driver).into_iter().flat_map(BTreeMap::keys) {
            match reference {
                Reference::Named { namespace, name } if exists(namespace) => {
                    found.named.insert(namespace, name);
                }
                Reference::Named { .. } => {}
                Reference::Templated(key) => found.templated.push(key.clone()),
            }
        }
        found
    }
}

fn each(references: &References) -> impl Iterator<Item = Reference> {
    let named = references.named.iter().flat_map(|(namespace, names)| {
        names.iter().map(|name| Reference::Named {
            namespace: namespace.clone(),
            name: name.clone(),
        })
    });
    let templated: BTreeSet<_> = references.templated.iter().cloned().collect();
    named.chain(templated.into_iter().map(Reference::Templated))
}
