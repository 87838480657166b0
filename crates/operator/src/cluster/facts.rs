//! From objects to the few facts that matter, and whom a change of them concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::Value;
use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};

use super::claims::{self, Claims};
use super::names::{Names, Numbers};
use super::source::Source;
use super::usage::Claim;
use super::wanted_secrets::WantedSecrets;
use crate::driver::secret::{self, References};

/// What one object says.
#[derive(Clone, Debug, PartialEq)]
enum Fact {
    /// Secrets of a driver.
    Secrets {
        driver: String,
        references: References,
    },
    /// A volume of a driver, and the secrets that it names.
    Volume {
        driver: String,
        /// The claim that it names.
        claim: Option<Claim>,
        /// Whether it is bound to it.
        is_bound: bool,
        references: References,
    },
    /// Drivers that a node's kubelet knows.
    Drivers(Numbers),
    /// That it is there.
    Present,
}

/// The drivers that a change concerns.
pub(super) type Concerned = BTreeSet<String>;

#[derive(Default)]
pub(super) struct State {
    facts: HashMap<Source, BTreeMap<String, Fact>>,
    /// What a list that is under way has brought so far.
    incoming: HashMap<Source, BTreeMap<String, Fact>>,
    secrets: WantedSecrets,
    /// The names of drivers that nodes know, and of those with volumes.
    drivers: Names,
    /// The drivers of claims.
    claims: Claims,
    /// Drivers whose volumes and snapshots are being waited for to go.
    pub(super) awaited: BTreeSet<String>,
}

impl State {
    /// Takes in one event: whom it concerns, and whether the source is complete now.
    pub(super) fn take_in(
        &mut self,
        source: Source,
        event: Event<DynamicObject>,
    ) -> (Concerned, bool) {
        match event {
            Event::Init => {
                self.incoming.insert(source, BTreeMap::new());
                (Concerned::new(), false)
            }
            Event::InitApply(object) => {
                if let Some(fact) = self.fact_of(source, &object) {
                    let incoming = self.incoming.entry(source).or_default();
                    incoming.insert(object.name_any(), fact);
                }
                (Concerned::new(), false)
            }
            Event::InitDone => (self.take_in_list(source), true),
            Event::Apply(object) => {
                let fact = self.fact_of(source, &object);
                (self.take_in_one(source, &object.name_any(), fact), false)
            }
            Event::Delete(object) => {
                let mut concerned = self.take_in_one(source, &object.name_any(), None);
                let driver = source.driver_in(&object.data["spec"]);
                let driver = driver.and_then(|it| it.as_str()).map(str::to_owned);
                concerned.extend(driver.filter(|it| self.awaited.contains(it)));
                (concerned, false)
            }
        }
    }

    /// What an object says, if it says anything.
    fn fact_of(&mut self, source: Source, object: &DynamicObject) -> Option<Fact> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let secrets = |driver: Option<String>, references: References| {
            // Most classes name no secret.
            (references != References::default()).then_some(Fact::Secrets {
                driver: driver?,
                references,
            })
        };
        let data = &object.data;
        match source {
            Source::StorageClasses => secrets(text(&data["provisioner"]), of_parameters(data)),
            Source::SnapshotClasses | Source::GroupSnapshotClasses => {
                secrets(text(&data["driver"]), of_parameters(data))
            }
            Source::SnapshotContents => {
                let references = secret::of_content(object.annotations(), &SNAPSHOT);
                secrets(text(&data["spec"]["driver"]), references)
            }
            Source::GroupSnapshotContents => {
                let references = secret::of_content(object.annotations(), &GROUP_SNAPSHOT);
                secrets(text(&data["spec"]["driver"]), references)
            }
            Source::AttributesClasses | Source::ServiceMonitors => None,
            Source::Volumes => {
                let claim = &data["spec"]["claimRef"];
                Some(Fact::Volume {
                    driver: text(&data["spec"]["csi"]["driver"])?,
                    claim: text(&claim["namespace"]).zip(text(&claim["name"])),
                    is_bound: data["status"]["phase"] == "Bound",
                    references: secret::of_volume(
                        &serde_json::to_value(object).unwrap_or_default(),
                    ),
                })
            }
            Source::CsiNodes => {
                let drivers = data["spec"]["drivers"].as_array().into_iter().flatten();
                let names = drivers.filter_map(|it| it["name"].as_str());
                Some(Fact::Drivers(self.drivers.numbers(names)))
            }
            // One that is being deleted takes nothing in any more.
            Source::Namespaces => {
                let is_going = object.metadata.deletion_timestamp.is_some();
                (!is_going).then_some(Fact::Present)
            }
        }
    }

    /// A kind that the cluster no longer has says nothing any more. Whom that concerns.
    pub(super) fn forget(&mut self, source: Source) -> Concerned {
        self.incoming.remove(&source);
        self.take_in_list(source)
    }

    fn take_in_list(&mut self, source: Source) -> Concerned {
        let incoming = self.incoming.remove(&source).unwrap_or_default();
        let known = self.facts.entry(source).or_default();
        let gone = known.keys().filter(|name| !incoming.contains_key(*name));
        let gone: Vec<_> = gone.cloned().collect();
        let mut concerned = Concerned::new();
        // New ones before old ones go: what both name was there all the time.
        for (name, fact) in incoming {
            concerned.append(&mut self.take_in_one(source, &name, Some(fact)));
        }
        for name in gone {
            concerned.append(&mut self.take_in_one(source, &name, None));
        }
        if source.driver_in(&Value::Null).is_some() {
            concerned.extend(self.awaited.iter().cloned());
        }
        concerned
    }

    /// What an object says now, or that it says nothing any more. Whom that concerns.
    fn take_in_one(&mut self, source: Source, name: &str, fact: Option<Fact>) -> Concerned {
        let facts = self.facts.entry(source).or_default();
        let before = match fact.clone() {
            Some(fact) => facts.insert(name.to_owned(), fact),
            None => facts.remove(name),
        };
        if before == fact {
            return Concerned::new();
        }
        match source {
            Source::Namespaces => self.secrets.expecting(name),
            Source::CsiNodes => {
                let (before, after) = (drivers(before.as_ref()), drivers(fact.as_ref()));
                let changed = self.drivers.differing(before, after);
                changed.map(str::to_owned).collect()
            }
            Source::StorageClasses
            | Source::SnapshotClasses
            | Source::SnapshotContents
            | Source::GroupSnapshotClasses
            | Source::GroupSnapshotContents
            | Source::AttributesClasses
            | Source::ServiceMonitors => self.count_secrets(before, fact),
            Source::Volumes => {
                self.take_in_claims(before.as_ref(), fact.as_ref());
                self.count_secrets(before, fact)
            }
        }
    }

    fn count_secrets(&mut self, before: Option<Fact>, after: Option<Fact>) -> Concerned {
        let mut concerned = Concerned::new();
        if let Some((driver, references)) = after.and_then(secrets)
            && self.secrets.add(&driver, &references)
        {
            concerned.insert(driver);
        }
        if let Some((driver, references)) = before.and_then(secrets)
            && self.secrets.remove(&driver, &references)
        {
            concerned.insert(driver);
        }
        concerned
    }

    fn take_in_claims(&mut self, before: Option<&Fact>, after: Option<&Fact>) {
        if let Some((claim, volume)) = before.and_then(|it| self.bond(it)) {
            self.claims.remove(claim, volume);
        }
        if let Some((claim, volume)) = after.and_then(|it| self.bond(it)) {
            self.claims.add(claim, volume);
        }
    }

    /// The claim that a volume names, and how.
    fn bond<'a>(&mut self, fact: &'a Fact) -> Option<(&'a Claim, claims::Volume)> {
        let Fact::Volume {
            driver,
            claim: Some(claim),
            is_bound,
            ..
        } = fact
        else {
            return None;
        };
        let volume = claims::Volume {
            driver: self.drivers.number(driver),
            is_bound: *is_bound,
        };
        Some((claim, volume))
    }

    pub(super) fn is_claim_of(&self, driver: &str, claim: &Claim) -> bool {
        let driver = self.drivers.known_number(driver);
        driver.is_some_and(|driver| self.claims.is_of(claim, driver))
    }

    /// The driver of a volume, and the claim by which pods may get it.
    fn volume<'a>(&self, fact: &'a Fact) -> Option<(&'a str, Option<&'a Claim>)> {
        let Fact::Volume {
            driver,
            claim,
            is_bound,
            ..
        } = fact
        else {
            return None;
        };
        let claim = claim.as_ref();
        let claim = claim.filter(|claim| self.claims.admits(claim, *is_bound));
        Some((driver, claim))
    }

    fn volume_named(&self, name: &str) -> Option<(&str, Option<&Claim>)> {
        self.volume(self.facts.get(&Source::Volumes)?.get(name)?)
    }

    pub(super) fn claim_of_volume(&self, volume: &str) -> Option<Claim> {
        self.volume_named(volume)?.1.cloned()
    }

    pub(super) fn driver_of_volume(&self, volume: &str) -> Option<String> {
        Some(self.volume_named(volume)?.0.to_owned())
    }

    pub(super) fn volumes_of(&self, driver: &str) -> Vec<(String, Option<Claim>)> {
        let all = self.facts.get(&Source::Volumes).into_iter().flatten();
        let of_driver = all.filter_map(|(name, fact)| {
            let (of, claim) = self.volume(fact)?;
            (of == driver).then(|| (name.clone(), claim.cloned()))
        });
        of_driver.collect()
    }

    pub(super) fn is_registered(&self, driver: &str, node: &str) -> bool {
        self.drivers.is_in(driver, self.drivers_of(node))
    }

    pub(super) fn drivers_on(&self, node: &str) -> BTreeSet<String> {
        let known = self.drivers.of(self.drivers_of(node));
        known.map(str::to_owned).collect()
    }

    fn drivers_of(&self, node: &str) -> &[u32] {
        let nodes = self.facts.get(&Source::CsiNodes);
        drivers(nodes.and_then(|nodes| nodes.get(node)))
    }

    pub(super) fn secrets_of(&self, driver: &str) -> References {
        self.secrets
            .of(driver, |namespace| self.has_namespace(namespace))
    }

    pub(super) fn has_namespace(&self, name: &str) -> bool {
        let namespaces = self.facts.get(&Source::Namespaces);
        namespaces.is_some_and(|namespaces| namespaces.contains_key(name))
    }

    pub(super) fn registrations_of(&self, driver: &str) -> usize {
        let nodes = self.facts.get(&Source::CsiNodes).into_iter().flatten();
        nodes
            .filter(|(_, fact)| self.drivers.is_in(driver, drivers(Some(fact))))
            .count()
    }
}

fn drivers(fact: Option<&Fact>) -> &[u32] {
    match fact {
        Some(Fact::Drivers(drivers)) => drivers,
        Some(Fact::Secrets { .. } | Fact::Volume { .. } | Fact::Present) | None => &[],
    }
}

fn secrets(fact: Fact) -> Option<(String, References)> {
    match fact {
        Fact::Secrets { driver, references }
        | Fact::Volume {
            driver, references, ..
        } => Some((driver, references)),
        Fact::Drivers(_) | Fact::Present => None,
    }
}

fn of_parameters(class: &Value) -> References {
    let parameters = class["parameters"].as_object().into_iter().flatten();
    let parameters =
        parameters.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    secret::of_class(&parameters.collect())
}

#[cfg(test)]
mod tests;
