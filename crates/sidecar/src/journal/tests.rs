//! The parts that need no API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::SecretReference;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::JournalError;
use super::document::{Unreadable, decode};
use super::entries::{Entries, Kept};
use super::state::{Due, State};
use crate::cluster::volume::ClaimKey;
use crate::intent::{
    AttributesClass, ClassFacts, FrozenTopology, Intent, Secrets, Segment, Source,
};

type Answer = Receiver<Result<(), JournalError>>;

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

fn entries(intents: impl IntoIterator<Item = Intent>) -> Entries {
    let mut entries = Entries::default();
    for intent in intents {
        entries.insert(Kept::ours(intent).unwrap());
    }
    entries
}

fn uids(entries: &Entries) -> Vec<String> {
    entries.iter().map(|kept| kept.uid().to_owned()).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let intents = [intent("1"), rich_intent("2"), rich_intent("3")];
    let text = entries(intents.clone()).text();
    assert_eq!(decode(&text).unwrap(), intents);
}

#[test]
fn the_size_is_never_less_than_the_text_and_ends_where_it_began() {
    let mut entries = Entries::default();
    let empty = entries.bytes();
    for number in 0..20 {
        let mut intent = rich_intent(&number.to_string());
        intent.class = Arc::new(class(["a", "b", "c"][number % 3]));
        let kept = Kept::ours(intent).unwrap();
        let predicted = entries.bytes_with(&kept);
        entries.insert(kept);
        assert_eq!(entries.bytes(), predicted);
        let text = entries.text();
        assert!(text.len() <= entries.bytes() && text.len() + 40 > entries.bytes());
    }
    for number in 0..20 {
        assert!(entries.remove(&number.to_string()));
    }
    assert_eq!((entries.bytes(), entries.len()), (empty, 0));
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
    assert!(entries.bytes() < 150_000, "{}", entries.bytes());
    let read = decode(&entries.text()).unwrap();
    assert!(Arc::ptr_eq(&read[0].class, &read[299].class));
}

#[test]
fn a_class_whose_facts_differ_under_one_uid_stays_as_it_was() {
    let mut other = intent("2");
    other.class = Arc::new(ClassFacts {
        extra_metadata: true,
        ..class("fast")
    });
    let intents = [intent("1"), other];
    assert_eq!(decode(&entries(intents.clone()).text()).unwrap(), intents);
}

#[test]
fn what_is_no_journal_is_refused() {
    let text = entries([rich_intent("1")]).text();
    assert!(matches!(
        decode(&text.replace("\"version\":1", "\"version\":2")),
        Err(Unreadable::Version(2))
    ));
    let damaged = [
        text[..text.len() - 1].to_owned(),
        text.replace("\"b\":", "\"z\":"),
        "{}".to_owned(),
        String::new(),
    ];
    for text in damaged {
        assert!(
            matches!(decode(&text), Err(Unreadable::Damaged(_))),
            "{text}"
        );
    }
    let class_id = text.split('"').nth(5).unwrap();
    let classless = text.replacen(class_id, "0000000000000000", 1);
    let error = decode(&classless).unwrap_err().to_string();
    assert!(error.contains("`1` refers to a class"), "{error}");
    let misplaced = text.replace("\",3]", "\",5]");
    let error = decode(&misplaced).unwrap_err().to_string();
    assert!(error.contains("a segment"), "{error}");
    let uneven = text.replace("[\"a\"]", "[\"a\",\"b\"]");
    assert!(matches!(decode(&uneven), Err(Unreadable::Uneven(_))));
}

#[test]
fn a_merge_keeps_theirs_and_ours_but_not_what_either_dropped() {
    let mut mine = Entries::read(Some(
        &entries(["theirs, dropped by them", "mine, found"].map(intent)).text(),
    ))
    .unwrap();
    mine.adopt("mine, found");
    mine.insert(Kept::ours(intent("mine, dropped by them")).unwrap());
    let theirs = entries(["mine, dropped by me", "new"].map(intent)).text();
    let theirs = Entries::read(Some(&theirs)).unwrap();
    mine.merge(theirs, |uid| uid == "mine, dropped by me");
    assert_eq!(uids(&mine), ["mine, dropped by them", "mine, found", "new"]);
}

/// A state with room for this number of small intents.
fn state(room: usize) -> State {
    let one = entries([intent("0")]).bytes();
    let two = entries([intent("0"), intent("1")]).bytes();
    State::new(Entries::default(), one + (room - 1) * (two - one))
}

fn ask(state: &mut State, uid: &str) -> Answer {
    let asked = state.ask(Kept::ours(intent(uid)).unwrap()).unwrap();
    asked.expect("it is there already")
}

fn write(state: &mut State) {
    let draft = state.draft();
    state.settle(draft);
}

fn waits(answer: &mut Answer) -> bool {
    matches!(answer.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn those_who_find_no_room_wait_in_order() {
    let mut state = state(2);
    let mut answers: Vec<_> = ["1", "2", "3", "4"].map(|uid| ask(&mut state, uid)).into();
    assert_eq!(state.due(false), Due::Now);
    write(&mut state);
    assert_eq!(uids(state.entries()), ["1", "2"]);
    assert_eq!(
        answers.iter_mut().map(waits).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    assert!(state.is_full());
    assert_eq!(state.due(false), Due::Idle);
    state.forget("1", Instant::now());
    assert_eq!(state.due(false), Due::Now);
    write(&mut state);
    assert_eq!(uids(state.entries()), ["2", "3"]);
    assert!(waits(&mut answers[3]));
}

#[test]
fn who_gives_up_makes_way() {
    let mut state = state(2);
    let _first = ask(&mut state, "1");
    write(&mut state);
    let mut large = intent("2");
    large.volume = "x".repeat(20);
    let waiting = state.ask(Kept::ours(large).unwrap()).unwrap();
    let mut next = ask(&mut state, "3");
    assert_eq!(state.due(false), Due::Idle);
    drop(waiting);
    assert_eq!(state.due(false), Due::Now);
    write(&mut state);
    assert_eq!(uids(state.entries()), ["1", "3"]);
    assert!(!waits(&mut next));
}

#[test]
fn an_entry_that_can_never_fit_is_an_error() {
    let mut state = state(1);
    let mut large = intent("1");
    large.volume = "x".repeat(1000);
    let error = state.ask(Kept::ours(large).unwrap()).unwrap_err();
    assert!(error.to_string().contains("`default/data-1`"), "{error}");
    assert!(error.to_string().contains("allowedTopologies"), "{error}");
}

#[test]
fn the_same_intent_is_written_once_and_another_one_replaces_it() {
    let mut state = state(1);
    let _answer = ask(&mut state, "1");
    write(&mut state);
    let again = state.ask(Kept::ours(intent("1")).unwrap()).unwrap();
    assert!(again.is_none());
    let mut other = intent("1");
    other.bytes = 5;
    let _answer = state.ask(Kept::ours(other.clone()).unwrap()).unwrap();
    write(&mut state);
    assert_eq!(state.entries().get("1").unwrap().intent, other);
}

#[test]
fn drops_wait_for_company_unless_somebody_asks() {
    let mut state = state(2);
    let _answer = ask(&mut state, "1");
    write(&mut state);
    let now = Instant::now();
    state.forget("1", now);
    state.forget("1", now + Duration::from_secs(5));
    state.forget("unknown", now);
    assert_eq!(state.due(false), Due::At(now + Duration::from_secs(1)));
    assert_eq!(state.due(true), Due::Now);
    let mut flushed = state.ask_for_flush().unwrap();
    assert_eq!(state.due(false), Due::Now);
    write(&mut state);
    assert!(!waits(&mut flushed));
    assert_eq!(state.due(false), Due::Idle);
    let mut flushed = state.ask_for_flush().unwrap();
    assert_eq!(state.due(false), Due::Idle);
    assert!(!waits(&mut flushed));
}

#[test]
fn what_is_forgotten_while_it_is_written_is_dropped_by_the_next_write() {
    let mut state = state(2);
    let _answers = (ask(&mut state, "1"), ask(&mut state, "2"));
    let draft = state.draft();
    state.forget("2", Instant::now());
    state.settle(draft);
    assert_eq!(uids(state.entries()), ["1"]);
    assert_eq!(state.due(true), Due::Now);
    assert!(!state.draft().text.contains("\"2\""));
}

#[test]
fn a_write_that_failed_is_done_again_with_all_of_it() {
    let mut state = state(5);
    let _answer = ask(&mut state, "0");
    write(&mut state);
    state.forget("0", Instant::now());
    let mut answers = [ask(&mut state, "1"), ask(&mut state, "2")];
    let text = state.draft().text;
    let _answer = ask(&mut state, "3");
    state.retreat();
    assert!(answers.iter_mut().all(waits));
    assert_eq!(state.entries().len(), 0);
    let again = state.draft();
    let order = |text: &str| decode(text).unwrap().len();
    assert_eq!((order(&text), order(&again.text)), (2, 3));
    state.settle(again);
    assert!(!answers.iter_mut().any(waits));
    assert_eq!(state.due(true), Due::Idle);
}

#[test]
fn the_end_is_told_to_everybody_and_its_first_reason_stays() {
    let mut state = state(2);
    let mut answer = ask(&mut state, "1");
    let _draft = state.draft();
    let taken = JournalError::TakenOver {
        lease: "here/journal".to_owned(),
        holder: "other".to_owned(),
    };
    state.end(taken);
    state.end(JournalError::Stopped);
    for error in [
        answer.try_recv().unwrap().unwrap_err(),
        state.ask_for_flush().unwrap_err(),
        state.ask(Kept::ours(intent("2")).unwrap()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("--leader-election"), "{error}");
    }
}
