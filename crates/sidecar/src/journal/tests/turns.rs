//! Who waits for what, and what is written next.

use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::{entries, intent, kept, read, uids};
use crate::journal::JournalError;
use crate::journal::entries::Entries;
use crate::journal::state::{Draft, Due, State};

type Answer = Receiver<Result<(), JournalError>>;

/// A state with room for this number of small intents.
fn state(room: usize) -> State {
    let one = entries([intent("0")]).size().bytes;
    let two = entries([intent("0"), intent("1")]).size().bytes;
    State::new(Entries::default(), one + (room - 1) * (two - one))
}

fn ask(state: &mut State, uid: &str) -> Answer {
    let asked = state.ask(kept(intent(uid))).unwrap();
    asked.expect("it is there already")
}

fn write(state: &mut State) {
    let draft = state.draft();
    settle(state, draft);
}

fn settle(state: &mut State, draft: Draft) {
    let length = draft.text().len();
    state.settle(draft, length);
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
fn one_that_does_not_fit_holds_up_no_others() {
    let mut state = state(2);
    let _first = ask(&mut state, "1");
    write(&mut state);
    let mut large = intent("2");
    large.volume = "x".repeat(20);
    let mut waiting = state.ask(kept(large)).unwrap().unwrap();
    let mut next = ask(&mut state, "3");
    assert_eq!(state.due(false), Due::Now);
    write(&mut state);
    assert_eq!(uids(state.entries()), ["1", "3"]);
    assert!(!waits(&mut next) && waits(&mut waiting) && state.is_full());
    drop(waiting);
    assert_eq!(state.due(false), Due::Idle);
    assert!(!state.is_full());
}

#[test]
fn an_entry_that_can_never_fit_is_an_error() {
    let mut state = state(1);
    let mut large = intent("1");
    large.volume = "x".repeat(1000);
    let error = state.ask(kept(large)).unwrap_err();
    assert!(error.to_string().contains("`default/data-1`"), "{error}");
    assert!(error.to_string().contains("allowedTopologies"), "{error}");
}

#[test]
fn the_same_intent_is_written_once_and_another_one_replaces_it() {
    let mut state = state(1);
    let _answer = ask(&mut state, "1");
    write(&mut state);
    let again = state.ask(kept(intent("1"))).unwrap();
    assert!(again.is_none());
    let mut other = intent("1");
    other.bytes = 5;
    let _answer = state.ask(kept(other.clone())).unwrap();
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
    settle(&mut state, draft);
    assert_eq!(uids(state.entries()), ["1"]);
    assert_eq!(state.due(true), Due::Now);
    assert!(!state.draft().text().contains("\"2\""));
}

#[test]
fn a_write_that_failed_is_done_again_with_all_of_it() {
    let mut state = state(5);
    let _answer = ask(&mut state, "0");
    write(&mut state);
    state.forget("0", Instant::now());
    let mut answers = [ask(&mut state, "1"), ask(&mut state, "2")];
    let text = state.draft().text();
    let _answer = ask(&mut state, "3");
    state.retreat();
    assert!(answers.iter_mut().all(waits));
    assert_eq!(state.entries().len(), 0);
    let again = state.draft();
    let order = |text: &str| read(text).unwrap().len();
    assert_eq!((order(&text), order(&again.text())), (2, 3));
    settle(&mut state, again);
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
        state.ask(kept(intent("2"))).unwrap_err(),
    ] {
        assert!(error.to_string().contains("--leader-election"), "{error}");
    }
}
