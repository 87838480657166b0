//! From objects to the few facts that matter, and whom a change of them concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::Value;
use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};

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
        claim: Option<Claim>,
        references: References,
    },
    /// Drivers that a node's kubelet knows.
    Drivers(BTreeSet<String>),
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
    /// The drivers of claims.
    claims: HashMap<Claim, String>,
    /// Drivers whose volumes are being waited for to go.
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
                if let Some(fact) = fact_of(source, &object) {
                    let incoming = self.incoming.entry(source).or_default();
                    incoming.insert(object.name_any(), fact);
                }
                (Concerned::new(), false)
            }
            Event::InitDone => (self.take_in_list(source), true),
            Event::Apply(object) => {
                let fact = fact_of(source, &object);
                (self.take_in_one(source, &object.name_any(), fact), false)
            }
            Event::Delete(object) => {
                let mut concerned = self.take_in_one(source, &object.name_any(), None);
                concerned.extend(
                    driver_of_object(source, &object).filter(|it| self.awaited.contains(it)),
                );
                (concerned, false)
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
        if source == Source::Volumes {
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
                let (before, after) = (drivers(before), drivers(fact));
                before.symmetric_difference(&after).cloned().collect()
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
        if let Some(Fact::Volume {
            claim: Some(claim), ..
        }) = before
        {
            self.claims.remove(claim);
        }
        if let Some(Fact::Volume {
            claim: Some(claim),
            driver,
            ..
        }) = after
        {
            self.claims.insert(claim.clone(), driver.clone());
        }
    }

    pub(super) fn is_claim_of(&self, driver: &str, claim: &Claim) -> bool {
        self.claims.get(claim).is_some_and(|it| it == driver)
    }

    fn volume(&self, name: &str) -> Option<(&str, Option<&Claim>)> {
        match self.facts.get(&Source::Volumes)?.get(name)? {
            Fact::Volume { driver, claim, .. } => Some((driver, claim.as_ref())),
            Fact::Secrets { .. } | Fact::Drivers(_) | Fact::Present => None,
        }
    }

    pub(super) fn claim_of_volume(&self, volume: &str) -> Option<Claim> {
        self.volume(volume)?.1.cloned()
    }

    pub(super) fn driver_of_volume(&self, volume: &str) -> Option<String> {
        Some(self.volume(volume)?.0.to_owned())
    }

    pub(super) fn volumes_of(&self, driver: &str) -> Vec<(String, Option<Claim>)> {
        let all = self.facts.get(&Source::Volumes).into_iter().flatten();
        let of_driver = all.filter_map(|(name, fact)| match fact {
            Fact::Volume {
                driver: of, claim, ..
            } if of == driver => Some((name.clone(), claim.clone())),
            _ => None,
        });
        of_driver.collect()
    }

    pub(super) fn is_registered(&self, driver: &str, node: &str) -> bool {
        let nodes = self.facts.get(&Source::CsiNodes);
        let fact = nodes.and_then(|nodes| nodes.get(node));
        matches!(fact, Some(Fact::Drivers(drivers)) if drivers.contains(driver))
    }

    pub(super) fn drivers_on(&self, node: &str) -> BTreeSet<String> {
        let nodes = self.facts.get(&Source::CsiNodes);
        drivers(nodes.and_then(|nodes| nodes.get(node)).cloned())
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
            .filter(|(_, fact)| matches!(fact, Fact::Drivers(drivers) if drivers.contains(driver)))
            .count()
    }
}

fn drivers(fact: Option<Fact>) -> BTreeSet<String> {
    match fact {
        Some(Fact::Drivers(drivers)) => drivers,
        Some(Fact::Secrets { .. } | Fact::Volume { .. } | Fact::Present) | None => BTreeSet::new(),
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

fn driver_of_object(source: Source, object: &DynamicObject) -> Option<String> {
    let driver = &object.data["spec"]["csi"]["driver"];
    let driver = driver.as_str().filter(|_| source == Source::Volumes);
    driver.map(str::to_owned)
}

fn fact_of(source: Source, object: &DynamicObject) -> Option<Fact> {
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
                references: secret::of_volume(&serde_json::to_value(object).unwrap_or_default()),
            })
        }
        Source::CsiNodes => {
            let drivers = data["spec"]["drivers"].as_array().into_iter().flatten();
            Some(Fact::Drivers(
                drivers.filter_map(|it| text(&it["name"])).collect(),
            ))
        }
        // One that is being deleted takes nothing in any more.
        Source::Namespaces => {
            let is_going = object.metadata.deletion_timestamp.is_some();
            (!is_going).then_some(Fact::Present)
        }
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
