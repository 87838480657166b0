use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;

use super::*;

#[derive(Debug, PartialEq)]
struct Ship {
    name: String,
    cargo: String,
}

impl Cached for Ship {
    fn key(&self) -> &str {
        &self.name
    }
}

fn ship(name: &str, cargo: &str) -> Served<ConfigMap> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let data = BTreeMap::from([("cargo".to_owned(), cargo.to_owned())]);
    Served(ConfigMap {
        metadata,
        data: Some(data),
        ..ConfigMap::default()
    })
}

fn read(object: ConfigMap) -> Reading<Ship> {
    match object.data.unwrap_or_default().remove("cargo").as_deref() {
        Some("garbled") => Reading::Unreadable("it is garbled".to_owned()),
        None | Some("") => Reading::Other,
        Some(cargo) => Reading::Of(Ship {
            name: object.metadata.name.unwrap_or_default(),
            cargo: cargo.to_owned(),
        }),
    }
}

/// A watch, and what its listener has been told.
struct Harbour {
    watched: Watched<Ship>,
    listed: HashSet<Box<str>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Harbour {
    fn new() -> Self {
        let watched = Watched::default();
        let told = Arc::<Mutex<Vec<String>>>::default();
        let book = Arc::clone(&told);
        watched.listen(move |change: &Change<Ship>| {
            let ship = change.object();
            let what = match change {
                Change::Set { .. } => "has",
                Change::Gone(_) => "went with",
            };
            let text = format!("{} {what} {}", ship.name, ship.cargo);
            book.lock().push(text);
        });
        Self {
            watched,
            listed: HashSet::new(),
            told,
        }
    }

    fn hear(&mut self, events: impl IntoIterator<Item = Event<Served<ConfigMap>>>) {
        for event in events {
            self.watched.take(event, &read, &mut self.listed);
        }
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock())
    }
}

fn listed(ships: Vec<Served<ConfigMap>>) -> Vec<Event<Served<ConfigMap>>> {
    let all = ships.into_iter().map(Event::InitApply);
    let all = std::iter::once(Event::Init).chain(all);
    all.chain([Event::InitDone]).collect()
}

#[test]
fn an_object_that_cannot_be_read_is_not_gone() {
    let mut harbour = Harbour::new();
    harbour.hear(listed(vec![ship("anna", "tea"), ship("berta", "garbled")]));
    assert_eq!(harbour.told(), ["anna has tea"]);
    assert!(harbour.watched.is_unreadable("berta"));

    harbour.hear([Event::Apply(ship("anna", "garbled"))]);
    harbour.hear(listed(vec![ship("anna", "garbled")]));
    assert_eq!(harbour.told(), [""; 0]);
    assert_eq!(harbour.watched.store().get("anna").unwrap().cargo, "tea");
    assert!(harbour.watched.is_unreadable("anna"));
    assert!(!harbour.watched.is_unreadable("berta"), "that is gone");

    harbour.hear([Event::Apply(ship("anna", "rum"))]);
    assert!(!harbour.watched.is_unreadable("anna"));
    harbour.hear([Event::Apply(ship("anna", "garbled"))]);
    harbour.hear([Event::Delete(ship("anna", "garbled"))]);
    assert_eq!(harbour.told(), ["anna has rum", "anna went with rum"]);
    assert!(!harbour.watched.is_unreadable("anna"));
}

#[test]
fn what_is_of_no_interest_any_more_is_forgotten() {
    let mut harbour = Harbour::new();
    harbour.hear([Event::Apply(ship("anna", "tea"))]);
    harbour.hear([Event::Apply(ship("anna", ""))]);
    harbour.hear([Event::Apply(ship("anna", "rum"))]);
    harbour.hear(listed(vec![ship("anna", "")]));
    let expected = [
        "anna has tea",
        "anna went with tea",
        "anna has rum",
        "anna went with rum",
    ];
    assert_eq!(harbour.told(), expected);
}

#[test]
fn listeners_hear_what_an_object_was_at_its_end_and_whether_anything_may_be_missing() {
    let mut harbour = Harbour::new();
    harbour.hear(listed(vec![ship("anna", "tea")]));
    let gaps = harbour.watched.gaps();
    harbour.hear([Event::Delete(ship("anna", "rum"))]);
    assert_eq!(harbour.told(), ["anna has tea", "anna went with rum"]);
    // Of this nobody had heard.
    harbour.hear([Event::Delete(ship("berta", "tea"))]);
    assert_eq!(harbour.told(), [""; 0]);
    assert_eq!(harbour.watched.gaps(), gaps);
    harbour.hear(listed(Vec::new()));
    assert!(harbour.watched.gaps() > gaps);
}
