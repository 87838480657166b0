//! What fits, and what old and damaged texts are taken for.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use miniz_oxide::deflate::compress_to_vec;
use tokio::sync::oneshot::Receiver;
use tokio::time::Instant;

use super::{class, entries, intent, origin, read, rich_intent};
use crate::cluster::volume::ClaimKey;
use crate::intent::{ClassFacts, FrozenTopology, Intent, Segment};
use crate::journal::document::pack::PLAIN;
use crate::journal::document::{KnownSets, Unreadable, decode};
use crate::journal::entries::{Entries, Kept};
use crate::journal::state::{Due, State};
use crate::journal::{JournalError, LIMIT};

/// Chances from a seed, as hexadecimal letters.
fn hex(seed: usize, letters: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed as u64);
    (0..letters)
        .map(|_| format!("{:x}", random.u8(..16)))
        .collect()
}

fn uid(seed: usize) -> String {
    let part = |at, letters| hex(seed * 10 + at, letters);
    format!(
        "{}-{}-4{}-a{}-{}",
        part(0, 8),
        part(1, 4),
        part(2, 3),
        part(3, 3),
        part(4, 12)
    )
}

/// A segment per node, as drivers for local disks have them.
fn nodes(count: usize) -> Arc<[Segment]> {
    let zone = |node: usize| format!("eu-central-1{}", ["a", "b", "c"][node % 3]);
    let name = |node: usize| {
        format!(
            "ip-10-{}-{}-{}.eu-central-1.compute.internal",
            node % 7,
            node / 250,
            node % 250
        )
    };
    let segment = |node| {
        BTreeMap::from([
            ("topology.example.com/node".to_owned(), name(node)),
            ("topology.kubernetes.io/zone".to_owned(), zone(node)),
        ])
    };
    (0..count).map(segment).collect()
}

fn claims(count: usize, segments: &Arc<[Segment]>) -> impl Iterator<Item = Intent> {
    let class = Arc::new(ClassFacts {
        parameters: BTreeMap::from([("pool".to_owned(), "fast".to_owned())]),
        ..class("local-fast")
    });
    (0..count).map(move |number| Intent {
        claim: ClaimKey {
            namespace: format!("team-{}", hex(number % 40, 6)),
            name: format!("data-postgresql-{}-{}", hex(number / 3, 5), number % 3),
            uid: uid(number),
        },
        volume: format!("pvc-{}", uid(number)),
        class: Arc::clone(&class),
        topology: Some(FrozenTopology {
            segments: Arc::clone(segments),
            first: number * 7 % segments.len(),
        }),
        ..intent("any")
    })
}

type Answers = Vec<Option<Receiver<Result<(), JournalError>>>>;

/// Has all of them asked for, and written as far as they fit. Who waits does so as long as there are answers.
fn filled(intents: impl Iterator<Item = Intent>) -> (State, String, Answers) {
    let known = KnownSets::default();
    let mut state = State::new(Entries::default(), LIMIT);
    let (mut answers, mut last) = (Vec::new(), String::new());
    for (at, intent) in intents.enumerate() {
        let entry = Kept::ours(intent, origin(), &known).unwrap();
        answers.push(state.ask(entry).unwrap());
        // A gate of 200, as with a hundred workers.
        if at % 200 == 199 {
            last = write(&mut state);
        }
    }
    (state, last, answers)
}

fn write(state: &mut State) -> String {
    let draft = state.draft();
    let text = draft.text();
    assert!(text.len() <= LIMIT, "{}", text.len());
    state.settle(draft, text.len());
    text
}

#[test]
fn five_thousand_nodes_and_two_thousand_claims_fit() {
    let (state, text, _answers) = filled(claims(2_000, &nodes(5_000)));
    println!("{} bytes", text.len());
    assert_eq!(state.entries().len(), 2_000);
    assert!(!state.is_full());
    assert_eq!(read(&text).unwrap().len(), 2_000);
}

#[test]
fn a_full_journal_takes_as_many_as_fit_and_goes_on_when_some_are_done() {
    let (mut state, mut text, _answers) = filled(claims(4_600, &nodes(50)));
    while state.due(false) == Due::Now {
        text = write(&mut state);
    }
    let held = state.entries().len();
    println!("{held} entries in {} bytes", text.len());
    assert!(state.is_full() && held >= 3_500, "{held}");
    assert!(text.len() > LIMIT * 9 / 10, "{}", text.len());
    let kept = state.entries().iter().take(200);
    let done: Vec<_> = kept.map(|kept| kept.uid().to_owned()).collect();
    for uid in done {
        state.forget(&uid, Instant::now());
    }
    while state.due(false) == Due::Now {
        write(&mut state);
    }
    let now = state.entries().len();
    assert!(now + 20 >= held, "{now} of {held}");
}

#[test]
fn a_short_text_can_be_read_by_people_and_a_long_one_is_compressed() {
    let short = entries([intent("1")]).text();
    assert!(
        short.len() <= PLAIN && short.contains("\"data-1\""),
        "{short}"
    );
    let long = entries((0..100).map(|number| rich_intent(&number.to_string()))).text();
    assert!(long.starts_with("{\"version\":2,\"deflate\":\""), "{long}");
    assert!(long.len() < 4_000, "{}", long.len());
    assert_eq!(read(&long).unwrap().len(), 100);
}

#[test]
fn when_and_where_it_was_written_comes_with_an_intent() {
    let text = entries([intent("1")]).text();
    assert_eq!(decode(&text).unwrap(), [(intent("1"), Some(origin()))]);
}

#[test]
fn a_journal_of_version_1_is_read_and_does_not_say_when() {
    let text = entries([intent("1")]).text();
    let (begin, _) = text.split_once(",\"w\":").unwrap();
    let old = format!("{begin}}}]}}").replace("\"version\":2", "\"version\":1");
    assert_eq!(decode(&old).unwrap(), [(intent("1"), None)]);
}

#[test]
fn what_is_damaged_is_refused_whatever_it_would_grow_to() {
    let packed = |bytes: &[u8]| {
        let deflate = BASE64.encode(compress_to_vec(bytes, 6));
        format!("{{\"version\":2,\"deflate\":\"{deflate}\"}}")
    };
    let bomb = packed(&vec![b' '; 65 << 20]);
    assert!(bomb.len() < LIMIT, "{}", bomb.len());
    for (text, said) in [
        ("{\"version\":2,\"deflate\":\"!\"}".to_owned(), "not base64"),
        (
            "{\"version\":2,\"deflate\":\"AAAA\"}".to_owned(),
            "cannot be decompressed",
        ),
        (bomb, "cannot be decompressed"),
        (packed(&[0xff, 0xfe]), "not text"),
        (packed(b"{}"), "it is damaged"),
    ] {
        let error = decode(&text).unwrap_err();
        assert!(!matches!(error, Unreadable::Version(_)));
        assert!(error.to_string().contains(said), "{error}");
    }
}
