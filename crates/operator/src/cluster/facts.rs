//! From objects to the few facts that matter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::Value;

use super::Source;
use crate::driver::secret::{self, References};

/// What one object says.
#[derive(Clone, Debug, PartialEq)]
enum Fact {
    /// Secrets of a driver.
    Secrets {
        driver: String,
        references: References,
    },
    /// Drivers that a node's kubelet knows.
    Drivers(BTreeSet<String>),
    /// That it is there.
    Present,
}

#[derive(Default)]
pub(super) struct State {
    facts: HashMap<Source, BTreeMap<String, Fact>>,
    /// What a list that is under way has brought so far.
    incoming: HashMap<Source, BTreeMap<String, Fact>>,
}

impl State {
    /// Takes in one event: whether a fact changed, and whether the source is complete now.
    pub(super) fn take_in(&mut self, source: Source, event: Event<DynamicObject>) -> (bool, bool) {
        match event {
            Event::Init => {
                self.incoming.insert(source, BTreeMap::new());
                (false, false)
            }
            Event::InitApply(object) => {
                if let Some(fact) = fact_of(source, &object) {
                    let incoming = self.incoming.entry(source).or_default();
                    incoming.insert(object.name_any(), fact);
                }
                (false, false)
            }
            Event::InitDone => {
                let incoming = self.incoming.remove(&source).unwrap_or_default();
                let before = self.facts.insert(source, incoming);
                let changed = before.as_ref() != self.facts.get(&source);
                (changed, true)
            }
            Event::Apply(object) => {
                let (name, fact) = (object.name_any(), fact_of(source, &object));
                let facts = self.facts.entry(source).or_default();
                let before = match fact.clone() {
                    Some(fact) => facts.insert(name.clone(), fact),
                    None => facts.remove(&name),
                };
                (before != fact && self.matters(source, &name), false)
            }
            Event::Delete(object) => {
                let name = object.name_any();
                let known = self.facts.entry(source).or_default().remove(&name);
                (known.is_some() && self.matters(source, &name), false)
            }
        }
    }

    /// Whether a change can make a difference to a driver: namespaces come and go all day, and only those where a
    /// secret is expected count.
    fn matters(&self, source: Source, name: &str) -> bool {
        let expects = |fact: &Fact| match fact {
            Fact::Secrets { references, .. } => references
                .named
                .iter()
                .any(|(namespace, _)| namespace == name),
            Fact::Drivers(_) | Fact::Present => false,
        };
        source != Source::Namespaces || self.facts.values().flat_map(BTreeMap::values).any(expects)
    }

    pub(super) fn secrets_of(&self, driver: &str) -> References {
        let mut found = References::default();
        for fact in self.facts.values().flat_map(BTreeMap::values) {
            let Fact::Secrets {
                driver: of,
                references,
            } = fact
            else {
                continue;
            };
            if of != driver {
                continue;
            }
            for (namespace, names) in references.named.iter() {
                for name in names.iter().filter(|_| self.has_namespace(namespace)) {
                    found.named.insert(namespace, name);
                }
            }
            found.templated.extend(references.templated.iter().cloned());
        }
        found
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

fn fact_of(source: Source, object: &DynamicObject) -> Option<Fact> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let secrets = |driver: Option<String>, references: References| {
        // Most classes and volumes name no secret; thousands of them cost nothing.
        (references != References::default()).then_some(Fact::Secrets {
            driver: driver?,
            references,
        })
    };
    let data = &object.data;
    match source {
        Source::StorageClasses => secrets(text(&data["provisioner"]), of_parameters(data)),
        Source::SnapshotClasses => secrets(text(&data["driver"]), of_parameters(data)),
        Source::Volumes => {
            let references = secret::of_volume(&serde_json::to_value(object).unwrap_or_default());
            secrets(text(&data["spec"]["csi"]["driver"]), references)
        }
        Source::CsiNodes => {
            let drivers = data["spec"]["drivers"].as_array().into_iter().flatten();
            Some(Fact::Drivers(
                drivers.filter_map(|it| text(&it["name"])).collect(),
            ))
        }
        Source::Namespaces => Some(Fact::Present),
    }
}

fn of_parameters(class: &Value) -> References {
    let parameters = class["parameters"].as_object().into_iter().flatten();
    let parameters =
        parameters.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    secret::of_class(&parameters.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn class(name: &str, secret: &str) -> DynamicObject {
        object(json!({
            "metadata": {"name": name},
            "provisioner": "d",
            "parameters": {
                "csi.storage.k8s.io/provisioner-secret-name": secret,
                "csi.storage.k8s.io/provisioner-secret-namespace": "n",
            },
        }))
    }

    fn namespace(name: &str) -> DynamicObject {
        object(json!({"metadata": {"name": name}}))
    }

    #[test]
    fn secrets_follow_classes_and_namespaces() {
        let mut state = State::default();
        let source = Source::StorageClasses;
        assert_eq!(
            state.take_in(source, Event::Apply(class("a", "one"))),
            (true, false)
        );
        assert_eq!(
            state.take_in(source, Event::Apply(class("a", "one"))),
            (false, false)
        );
        assert_eq!(
            state.secrets_of("d").named,
            crate::driver::SecretNames::default()
        );
        let other = Event::Apply(namespace("other"));
        assert_eq!(state.take_in(Source::Namespaces, other), (false, false));
        let expected = Event::Apply(namespace("n"));
        assert_eq!(state.take_in(Source::Namespaces, expected), (true, false));
        assert_eq!(
            state.secrets_of("d").named,
            [("n", "one")].into_iter().collect()
        );
        assert_eq!(state.secrets_of("other"), References::default());
        assert_eq!(
            state.take_in(source, Event::Delete(class("a", "one"))),
            (true, false)
        );
        assert_eq!(state.secrets_of("d"), References::default());
    }

    #[test]
    fn a_new_list_replaces_what_was_known() {
        let mut state = State::default();
        state.take_in(Source::Namespaces, Event::Apply(namespace("old")));
        state.take_in(Source::Namespaces, Event::Init);
        state.take_in(Source::Namespaces, Event::InitApply(namespace("new")));
        assert!(state.has_namespace("old"), "until the list is complete");
        assert_eq!(
            state.take_in(Source::Namespaces, Event::InitDone),
            (true, true)
        );
        assert!(!state.has_namespace("old") && state.has_namespace("new"));
    }

    #[test]
    fn nodes_are_counted_by_driver() {
        let mut state = State::default();
        for (node, driver) in [("a", "d"), ("b", "d"), ("c", "e")] {
            let node = json!({"metadata": {"name": node}, "spec": {"drivers": [{"name": driver}]}});
            state.take_in(Source::CsiNodes, Event::Apply(object(node)));
        }
        assert_eq!(state.registrations_of("d"), 2);
        let node = object(json!({"metadata": {"name": "a"}, "spec": {"drivers": []}}));
        assert_eq!(
            state.take_in(Source::CsiNodes, Event::Apply(node)),
            (true, false)
        );
        assert_eq!(state.registrations_of("d"), 1);
    }
}
