//! When things are written that were said often.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::series::{Job, Outcome, Series, WINDOW};
use super::{EventType, Note, at_once};

const SECOND: Duration = Duration::from_secs(1);

fn note(message: &str) -> Note {
    Note {
        object: ObjectReference {
            kind: Some("PersistentVolumeClaim".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some("data".to_owned()),
            uid: Some("1".to_owned()),
            ..ObjectReference::default()
        },
        component: "external-provisioner".into(),
        event_type: EventType::Warning,
        reason: "ProvisioningFailed",
        message: message.to_owned(),
        at: Timestamp::now(),
    }
}

/// Says the same thing every second for a while, writing whatever is due; when what was written, and with which count.
fn repeat(series: &mut Series, start: Instant, seconds: u32) -> Vec<(u64, i32)> {
    let mut writes = Vec::new();
    for second in 0..seconds {
        let now = start + SECOND * second;
        assert!(series.add(note("no room"), now));
        while let Some(Job { key, count, .. }) = series.take_due(now) {
            writes.push((u64::from(second), count));
            assert!(series.settle(key, Outcome::Written, now));
        }
    }
    writes
}

#[test]
fn what_is_said_again_and_again_is_written_ever_less_often() {
    let writes = repeat(&mut Series::default(), Instant::now(), 3600);
    assert_eq!(writes[..5], [(0, 1), (5, 6), (15, 16), (35, 36), (75, 76)]);
    assert!(writes.len() < 20, "{writes:?}");
    let longest = writes.windows(2).map(|pair| pair[1].0 - pair[0].0).max();
    assert_eq!(longest, Some(300));
}

#[test]
fn after_a_long_silence_it_is_another_event() {
    let mut series = Series::default();
    let now = Instant::now();
    series.add(note("no room"), now);
    let first = series.take_due(now).unwrap();
    series.settle(first.key, Outcome::Written, now);
    series.add(note("no room"), now + WINDOW + SECOND);
    let second = series.take_due(now + WINDOW + SECOND).unwrap();
    assert!(second.create.is_some());
    assert_ne!(first.name, second.name);
    assert_eq!(second.count, 1);
}

#[test]
fn different_things_are_different_events() {
    let mut series = Series::default();
    let now = Instant::now();
    let mut other_event_type = note("a");
    other_event_type.event_type = EventType::Normal;
    let mut other_object = note("a");
    other_object.object.uid = Some("2".to_owned());
    for note in [note("a"), note("b"), other_event_type, other_object] {
        assert!(series.add(note, now));
    }
    let names: Vec<_> = std::iter::from_fn(|| series.take_due(now))
        .map(|job| job.name)
        .collect();
    assert_eq!(names.len(), 4);
    assert!(
        names
            .iter()
            .enumerate()
            .all(|(at, name)| !names[..at].contains(name)),
        "{names:?}"
    );
}

#[test]
fn what_is_said_during_a_write_is_written_later() {
    let mut series = Series::default();
    let now = Instant::now();
    series.add(note("a"), now);
    let job = series.take_due(now).unwrap();
    series.add(note("a"), now);
    assert!(
        series.take_due(now + SECOND).is_none(),
        "two writes of one Event at a time"
    );
    series.settle(job.key, Outcome::Written, now);
    assert_eq!(series.next_due(), Some(now + 5 * SECOND));
    let raise = series.take_due(now + 5 * SECOND).unwrap();
    assert!(raise.create.is_none());
    assert_eq!((raise.count, raise.name), (2, job.name));
}

#[test]
fn a_failed_write_is_tried_again_and_given_up_in_the_end() {
    let mut series = Series::default();
    let start = Instant::now();
    series.add(note("a"), start);
    let mut now = start;
    let mut tries = 0;
    loop {
        let job = series.take_due(now).unwrap();
        assert!(job.create.is_some());
        tries += 1;
        if !series.settle(job.key, Outcome::Failed, now) {
            break;
        }
        now = series.next_due().unwrap();
    }
    assert!((5..12).contains(&tries), "{tries}");
    assert!(now - start >= WINDOW && now - start < WINDOW * 2);
    assert_eq!(series.next_due(), None);
}

#[test]
fn an_event_that_is_gone_is_made_anew_the_next_time() {
    let mut series = Series::default();
    let now = Instant::now();
    repeat(&mut series, now, 1);
    series.add(note("no room"), now);
    let raise = series.take_due(now + 5 * SECOND).unwrap();
    assert!(series.settle(raise.key, Outcome::Gone, now));
    series.add(note("no room"), now + 6 * SECOND);
    assert!(series.take_due(now + 6 * SECOND).unwrap().create.is_some());
}

#[test]
fn too_many_different_things_are_dropped_until_some_are_written() {
    let mut series = Series::default();
    let now = Instant::now();
    let accepted = (0..5000)
        .filter(|number| series.add(note(&number.to_string()), now))
        .count();
    assert_eq!(accepted, 2048);
    let job = series.take_due(now).unwrap();
    assert!(!series.add(note("while it is written"), now));
    series.settle(job.key, Outcome::Written, now);
    assert!(series.add(note("afterwards"), now));
}

#[test]
fn the_end_waits_for_no_pause_and_tries_nothing_twice() {
    let mut series = Series::default();
    let now = Instant::now();
    repeat(&mut series, now, 2);
    assert!(series.take_due(now + SECOND).is_none());
    series.end();
    let job = series.take_due(now + SECOND).unwrap();
    assert_eq!(job.count, 2);
    assert!(!series.settle(job.key, Outcome::Failed, now + SECOND));
    assert!(series.take_due(now + SECOND).is_none());
}

#[test]
fn names_are_names_however_long_the_object_is_called() {
    for object in [
        "data".to_owned(),
        format!("{}.{}", "a".repeat(220), "b".repeat(32)),
        format!("{}.b", "a".repeat(231)),
    ] {
        let mut series = Series::default();
        let mut note = note("a");
        note.object.name = Some(object);
        series.add(note, Instant::now());
        let name = series.take_due(Instant::now()).unwrap().name;
        assert!(
            name.len() <= 253 && !name.contains("..") && !name.contains("-."),
            "{name}"
        );
    }
}

#[test]
fn during_a_burst_events_wait_and_not_for_ever() {
    let (heard, millis) = (Instant::now(), Duration::from_millis);
    for (since_heard, waiting, since_due, expected) in [
        (millis(0), 1, millis(0), 0),
        (millis(100), 1000, millis(1900), 0),
        (millis(150), 1, millis(150), 4),
        (millis(0), 1, millis(2000), 1),
        (millis(0), 1025, millis(0), 4),
    ] {
        let now = heard + since_heard;
        let due = now.checked_sub(since_due).unwrap();
        let most = at_once(now, heard, waiting, due);
        assert_eq!(most, expected, "{since_heard:?} {waiting} {since_due:?}");
    }
}
