//! Two processes on one journal, and people with editors.

use std::collections::BTreeSet;

use futures::future::join_all;
use kube::api::{DeleteParams, PostParams};
use stowage_sidecar::journal::{JournalError, Sharing};
use stowage_stage::{soon, until};

use crate::journal::intents::intent;
use crate::journal::rig::{CONTENT, Process, content, leases};

#[tokio::test]
async fn a_takeover_ends_the_process_that_had_the_journal() {
    let first = Process::start("taken", "first", Sharing::Exclusive).await;
    soon(first.journal.record(intent("1"))).await.unwrap();
    assert!(first.journal.loss().is_none());
    let second = Process::start("taken", "second", Sharing::Exclusive).await;
    assert_eq!(second.journal.all(), [intent("1")]);

    let error = soon(first.journal.record(intent("2"))).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, JournalError::TakenOver { .. }), "{text}");
    for part in ["`second`", "`default/taken`", "--leader-election"] {
        assert!(text.contains(part), "{text}");
    }
    soon(first.journal.lost().cancelled()).await;
    assert!(matches!(
        first.journal.loss(),
        Some(JournalError::TakenOver { .. })
    ));
    // Neither by entries nor by drops does the first one write any more.
    first.journal.forget("1");
    let again = first.journal.record(intent("3")).await.unwrap_err();
    assert!(matches!(again, JournalError::TakenOver { .. }), "{again}");
    first.stop().await;

    soon(second.journal.record(intent("4"))).await.unwrap();
    assert!(!second.journal.lost().is_cancelled());
    second.stop().await;
    let third = Process::start("taken", "third", Sharing::Exclusive).await;
    assert_eq!(third.journal.all(), [intent("1"), intent("4")]);
    third.stop().await;
}

#[tokio::test]
async fn a_process_that_writes_nothing_also_learns_of_a_takeover() {
    let first = Process::start("quiet", "first", Sharing::Exclusive).await;
    let second = Process::start("quiet", "second", Sharing::Exclusive).await;
    soon(first.journal.lost().cancelled()).await;
    assert!(!second.journal.lost().is_cancelled());
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn of_two_that_open_at_once_exactly_one_goes_on() {
    for round in 0..5 {
        let name = format!("raced-{round}");
        let open = |identity| Process::start(&name, identity, Sharing::Exclusive);
        let (one, other) = tokio::join!(open("one"), open("other"));
        let (first, second) = tokio::join!(
            soon(one.journal.record(intent("1"))),
            soon(other.journal.record(intent("2"))),
        );
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        one.stop().await;
        other.stop().await;
    }
}

#[tokio::test]
async fn processes_of_one_node_keep_each_others_entries() {
    let old = Process::start("shared", "old", Sharing::PerNode).await;
    soon(old.journal.record(intent("old-0"))).await.unwrap();
    let new = Process::start("shared", "new", Sharing::PerNode).await;
    assert_eq!(new.journal.all(), [intent("old-0")]);
    // Both write all the time, each to what the other one has just changed.
    let record = |process: &Process, letter: &str| {
        let journal = process.journal.clone();
        let letter = letter.to_owned();
        async move {
            for number in 1..20 {
                let uid = format!("{letter}-{number}");
                soon(journal.record(intent(&uid))).await.unwrap();
                if number % 2 == 0 {
                    journal.forget(&uid);
                }
            }
            soon(journal.flush()).await.unwrap();
        }
    };
    tokio::join!(record(&old, "old"), record(&new, "new"));
    assert!(!old.journal.lost().is_cancelled() && !new.journal.lost().is_cancelled());
    // Found by one, dropped by the other.
    old.journal.forget("old-0");
    old.stop().await;
    new.stop().await;

    let last = Process::start("shared", "last", Sharing::PerNode).await;
    let found: BTreeSet<String> = last
        .journal
        .all()
        .into_iter()
        .map(|intent| intent.claim.uid)
        .collect();
    let odd = (1..20).step_by(2);
    let wanted = odd.flat_map(|number| [format!("old-{number}"), format!("new-{number}")]);
    assert_eq!(found, wanted.collect());
    last.stop().await;
}

#[tokio::test]
async fn a_deleted_lease_is_written_again_with_what_is_in_memory() {
    for sharing in [Sharing::Exclusive, Sharing::PerNode] {
        let name = format!("deleted-{sharing:?}").to_lowercase();
        let leases = leases().await;
        let first = Process::start(&name, "first", sharing).await;
        soon(first.journal.record(intent("found"))).await.unwrap();
        first.stop().await;
        let process = Process::start(&name, "me", sharing).await;
        soon(process.journal.record(intent("1"))).await.unwrap();
        leases
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        // With the next entry,
        soon(process.journal.record(intent("2"))).await.unwrap();
        for uid in ["\"1\"", "\"2\"", "\"found\""] {
            assert!(content(&name).await.contains(uid), "{uid}");
        }
        // and also when nothing else is written.
        leases
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        let writes = process.writes();
        until("it is written again", || process.writes() > writes).await;
        assert!(content(&name).await.contains("\"found\""));
        process.stop().await;
    }
}

#[tokio::test]
async fn what_a_person_breaks_is_mended() {
    let leases = leases().await;
    let process = Process::start("edited", "me", Sharing::Exclusive).await;
    soon(process.journal.record(intent("1"))).await.unwrap();
    let mut lease = leases.get("edited").await.unwrap();
    lease
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(CONTENT.to_owned(), "oops".to_owned());
    leases
        .replace("edited", &PostParams::default(), &lease)
        .await
        .unwrap();
    let records = ["2", "3"].map(|uid| process.journal.record(intent(uid)));
    for outcome in soon(join_all(records)).await {
        outcome.unwrap();
    }
    process.stop().await;
    let next = Process::start("edited", "next", Sharing::Exclusive).await;
    assert_eq!(next.journal.all(), ["1", "2", "3"].map(intent));
    next.stop().await;
}
