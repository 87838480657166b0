//! The parts that need no API server.

mod packing;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::SecretReference;

use super::document::pack::PLAIN;
use super::document::{KnownSets, Unreadable, decode};
use super::entries::{Entries, Kept};
use crate::cluster::volume::ClaimKey;
use crate::intent::{
    AttributesClass, ClassFacts, FrozenTopology, Intent, Origin, Secrets, Segment, Source,
};

fn intent(uid: &str) -> Intent {
    Intent {
        claim: ClaimKey {
            namespace: "default".to_owned(),
            name: format!("data-{uid}"),
            uid: uid.to_owned(),
        },
        volume: format!("pvc-{uid}"),
        bytes: 1 << 30,
        access_modes: vec!["ReadWriteOnce".to_owned()],
        csi_modes: vec![1],
        block: false,
        read_only: false,
        source: None,
        topology: None,
        class: Arc::new(class("fast")),
        attributes: None,
        secrets: Secrets::default(),
    }
}

fn class(name: &str) -> ClassFacts {
    ClassFacts {
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        reclaim_policy: "Delete".to_owned(),
        ..ClassFacts::default()
    }
}

/// Everything that an intent can have.
fn rich_intent(uid: &str) -> Intent {
    let text = |text: &str| text.to_owned();
    let zone = |zone: &str| Segment::from([(text("zone"), text(zone))]);
    let mut rack = zone("b");
    rack.insert(text("rack"), text("7"));
    Intent {
        block: true,
        read_only: true,
        source: Some(Source::Snapshot(text("snap \"1\" \\ ü"))),
        topology: Some(FrozenTopology {
            segments: [zone("a"), zone("c"), rack, Segment::new(), zone("d")].into(),
            first: 3,
        }),
        attributes: Some(AttributesClass {
            name: text("gold"),
            parameters: BTreeMap::from([(text("iops"), text("1000"))]),
        }),
        secrets: Secrets {
            node_stage: Some(SecretReference {
                name: Some(text("key")),
                namespace: Some(text("vault")),
            }),
            ..Secrets::default()
        },
        ..intent(uid)
    }
}

fn origin() -> Origin {
    Origin {
        written: 1_800_000_000,
        cluster: Some("0a1b2c3d-0000-4000-8000-000000000000".to_owned()),
    }
}

fn kept(intent: Intent) -> Kept {
    Kept::ours(intent, origin(), &KnownSets::default()).unwrap()
}

fn entries(intents: impl IntoIterator<Item = Intent>) -> Entries {
    let mut entries = Entries::default();
    for intent in intents {
        entries.insert(kept(intent));
    }
    entries
}

fn read(text: &str) -> Result<Vec<Intent>, Unreadable> {
    let read = decode(text)?;
    Ok(read.into_iter().map(|(intent, _)| intent).collect())
}

fn uids(entries: &Entries) -> Vec<String> {
    entries.iter().map(|kept| kept.uid().to_owned()).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let intents = [intent("1"), rich_intent("2"), rich_intent("3")];
    let text = entries(intents.clone()).text();
    assert_eq!(read(&text).unwrap(), intents);
}

#[test]
fn others_can_read_whose_volumes_are_being_made_or_that_there_are_some() {
    let claims = |entries: &Entries| stowage_api::intents::claims(&entries.text());
    assert_eq!(claims(&Entries::default()), Some(Vec::new()));
    let one = intent("1");
    let name = format!("{}/{}", one.claim.namespace, one.claim.name);
    assert_eq!(claims(&entries([one])), Some(vec![name]));
    let many = (0..200).map(|number| rich_intent(&number.to_string()));
    assert_eq!(claims(&entries(many)), None);
}

#[test]
fn the_size_is_never_less_than_the_text_and_ends_where_it_began() {
    let mut entries = Entries::default();
    let empty = entries.size();
    for number in 0..20 {
        let mut intent = rich_intent(&number.to_string());
        intent.class = Arc::new(class(["a", "b", "c"][number % 3]));
        let kept = kept(intent);
        let predicted = entries.size_with(&kept);
        entries.insert(kept);
        assert_eq!(entries.size(), predicted);
        let (text, bytes) = (entries.text(), entries.size().bytes);
        assert!(text.len() > PLAIN || text.len() <= bytes && text.len() + 40 > bytes);
    }
    for number in 0..20 {
        assert!(entries.remove(&number.to_string()));
    }
    assert_eq!((entries.size(), entries.len()), (empty, 0));
}

#[test]
fn what_intents_share_is_stored_once() {
    let segments: Vec<Segment> = (0..3000)
        .map(|node| BTreeMap::from([("topology.example.com/node".to_owned(), format!("n{node}"))]))
        .collect();
    let segments: Arc<[Segment]> = segments.into();
    let mut large = class("large");
    large.parameters = BTreeMap::from([("key".to_owned(), "v".repeat(20_000))]);
    let large = Arc::new(large);
    let intents = (0..300).map(|number| Intent {
        class: Arc::clone(&large),
        topology: Some(FrozenTopology {
            segments: Arc::clone(&segments),
            first: number,
        }),
        ..intent(&number.to_string())
    });
    let entries = entries(intents);
    assert!(entries.size().bytes < 200_000, "{:?}", entries.size());
    let intents = read(&entries.text()).unwrap();
    assert!(Arc::ptr_eq(&intents[0].class, &intents[299].class));
}

#[test]
fn a_class_whose_facts_differ_under_one_uid_stays_as_it_was() {
    let mut other = intent("2");
    other.class = Arc::new(ClassFacts {
        extra_metadata: true,
        ..class("fast")
    });
    let intents = [intent("1"), other];
    assert_eq!(read(&entries(intents.clone()).text()).unwrap(), intents);
}

#[test]
fn what_is_no_journal_is_refused() {
    let text = entries([rich_intent("1")]).text();
    assert!(matches!(
        read(&text.replace("\"version\":2", "\"version\":3")),
        Err(Unreadable::Version(3))
    ));
    let damaged = [
        text[..text.len() - 1].to_owned(),
        text.replace("\"b\":", "\"z\":"),
        "{}".to_owned(),
        String::new(),
    ];
    for text in damaged {
        assert!(matches!(read(&text), Err(Unreadable::Damaged(_))), "{text}");
    }
    let class_id = text.split('"').nth(5).unwrap();
    let classless = text.replacen(class_id, "0000000000000000", 1);
    let error = read(&classless).unwrap_err().to_string();
    assert!(error.contains("`1` refers to a class"), "{error}");
    let misplaced = text.replace("\",3]", "\",5]");
    let error = read(&misplaced).unwrap_err().to_string();
    assert!(error.contains("a segment"), "{error}");
    let uneven = text.replace("[\"a\"]", "[\"a\",\"b\"]");
    assert!(matches!(read(&uneven), Err(Unreadable::Uneven(_))));
}

#[test]
fn a_merge_keeps_theirs_and_ours_but_not_what_either_dropped() {
    let mut mine = Entries::read(Some(
        &entries(["theirs, dropped by them", "mine, found"].map(intent)).text(),
    ))
    .unwrap();
    mine.adopt("mine, found");
    mine.insert(kept(intent("mine, dropped by them")));
    let theirs = entries(["mine, dropped by me", "new"].map(intent)).text();
    let theirs = Entries::read(Some(&theirs)).unwrap();
    mine.merge(theirs, |uid| uid == "mine, dropped by me");
    assert_eq!(uids(&mine), ["mine, dropped by them", "mine, found", "new"]);
}
