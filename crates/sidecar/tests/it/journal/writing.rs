//! How much is written, and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use stowage_sidecar::intent::{FrozenTopology, Intent, Segment};
use stowage_sidecar::journal::{JournalError, LIMIT, Sharing};
use stowage_stage::{soon, until};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::journal::intents::{intent, large_intent};
use crate::journal::rig::{Process, content, writes_of};

#[tokio::test]
async fn those_who_wait_together_share_a_write() {
    let process = Process::start("batched", "me", Sharing::Exclusive).await;
    let before = process.writes();
    let recorded = (0..200).map(|number| process.journal.record(intent(&number.to_string())));
    for outcome in soon(join_all(recorded)).await {
        outcome.unwrap();
    }
    let writes = process.writes() - before;
    assert!((1..=4).contains(&writes), "{writes} writes for 200 entries");
    process.stop().await;
}

#[tokio::test]
async fn a_hundred_workers_need_far_fewer_writes_than_claims() {
    let process = Process::start("busy", "me", Sharing::Exclusive).await;
    let worker = |worker: usize| {
        let journal = process.journal.clone();
        async move {
            for number in 0..10 {
                let uid = format!("{worker}-{number}");
                journal.record(intent(&uid)).await.unwrap();
                sleep(Duration::from_millis(5)).await;
                journal.forget(&uid);
            }
        }
    };
    soon(join_all((0..100).map(worker))).await;
    let writes = process.writes();
    assert!(writes < 50, "{writes} writes for 1000 claims");
    process.stop().await;
    assert!(content("busy").await.contains("\"entries\":[]"));
}

#[tokio::test]
async fn under_a_steady_load_writes_gather() {
    let process = Process::start("steady", "me", Sharing::Exclusive).await;
    let (started, before) = (Instant::now(), process.writes());
    let late = |number: u64| {
        let journal = process.journal.clone();
        async move {
            sleep(Duration::from_millis(2 * number)).await;
            journal.record(intent(&number.to_string())).await.unwrap();
        }
    };
    soon(join_all((0..250).map(late))).await;
    let most = started.elapsed().as_millis() / 10 + 2;
    let writes = process.writes() - before;
    assert!(
        u128::from(writes) <= most,
        "{writes} writes, {most} allowed"
    );
    process.stop().await;
}

#[tokio::test]
async fn drops_alone_are_one_late_write() {
    let process = Process::start("lazy", "me", Sharing::Exclusive).await;
    for uid in ["1", "2", "3"] {
        soon(process.journal.record(intent(uid))).await.unwrap();
    }
    let writes = process.writes();
    for uid in ["1", "2", "3"] {
        process.journal.forget(uid);
        // The writer looks at it.
        yield_now().await;
    }
    assert_eq!(process.writes(), writes);
    assert_eq!(process.metric("stowage_sidecar_intents "), 0);
    until("the drops are written", || process.writes() > writes).await;
    assert!(content("lazy").await.contains("\"entries\":[]"));
    // What was left to write would be written before these.
    for uid in ["4", "5"] {
        soon(process.journal.record(intent(uid))).await.unwrap();
    }
    assert_eq!(process.writes(), writes + 3);
    process.stop().await;
}

#[tokio::test]
async fn flush_and_the_end_do_not_wait_for_company() {
    let process = Process::start("flushed", "me", Sharing::Exclusive).await;
    for uid in ["1", "2"] {
        soon(process.journal.record(intent(uid))).await.unwrap();
    }
    let writes = process.writes();
    process.journal.forget("1");
    soon(process.journal.flush()).await.unwrap();
    assert_eq!(process.writes(), writes + 1);
    assert!(!content("flushed").await.contains("\"1\""));
    process.journal.forget("2");
    let (journal, metrics) = (process.journal.clone(), process.metrics.clone());
    process.stop().await;
    assert_eq!(writes_of(&metrics), writes + 2);
    assert!(content("flushed").await.contains("\"entries\":[]"));
    let error = journal.record(intent("3")).await.unwrap_err();
    assert!(matches!(error, JournalError::Stopped), "{error}");
}

#[tokio::test]
async fn a_full_journal_makes_claims_wait_and_holds_no_others() {
    let process = Process::start("full", "me", Sharing::Exclusive).await;
    let journal = &process.journal;
    for number in 0..9 {
        let large = large_intent(&format!("large-{number}"), 20_000);
        soon(journal.record(large)).await.unwrap();
    }
    assert_eq!(process.metric("stowage_sidecar_journal_full "), 0);
    let mut first = Box::pin(journal.record(large_intent("first", 25_000)));
    let waited = timeout(Duration::from_millis(300), &mut first).await;
    assert!(waited.is_err(), "{waited:?}");
    // Others that fit do not wait for it.
    soon(journal.record(intent("second"))).await.unwrap();
    assert_eq!(process.metric("stowage_sidecar_journal_full "), 1);
    let bytes = process.metric("stowage_sidecar_journal_bytes ");
    assert!(bytes > 180_000 && bytes <= LIMIT as u64, "{bytes}");

    journal.forget("large-3");
    soon(first).await.unwrap();
    until("it is not full", || {
        process.metric("stowage_sidecar_journal_full ") == 0
    })
    .await;
    assert!(content("full").await.len() <= LIMIT);

    let error = journal
        .record(large_intent("huge", LIMIT))
        .await
        .unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { .. }), "{error}");
    process.stop().await;
}

#[tokio::test]
async fn who_gives_up_leaves_nothing_behind_and_makes_way() {
    let process = Process::start("given-up", "me", Sharing::Exclusive).await;
    let journal = &process.journal;
    soon(journal.record(large_intent("large", 150_000)))
        .await
        .unwrap();
    let too_much = timeout(
        Duration::from_millis(200),
        journal.record(large_intent("too much", 60_000)),
    );
    let behind = journal.record(intent("behind"));
    let (given_up, behind) = tokio::join!(too_much, soon(behind));
    assert!(given_up.is_err());
    behind.unwrap();
    assert!(journal.get("too much").is_none());
    assert!(!content("given-up").await.contains("too much"));
    // Given up before it was ever looked at.
    assert!(journal.record(intent("never")).now_or_never().is_none());
    soon(journal.flush()).await.unwrap();
    assert!(journal.get("never").is_none());
    process.stop().await;
}

#[tokio::test]
async fn five_thousand_nodes_and_two_thousand_claims_fit_into_a_lease() {
    let process = Process::start("large-cluster", "me", Sharing::Exclusive).await;
    let segment = |node| {
        BTreeMap::from([(
            "topology.example.com/node".to_owned(),
            format!("worker-{node:05}"),
        )])
    };
    let segments: Arc<[Segment]> = (0..5_000).map(segment).collect();
    let mut chance = fastrand::Rng::with_seed(7);
    let claims: Vec<Intent> = (0..2_000)
        .map(|number| Intent {
            topology: Some(FrozenTopology {
                segments: Arc::clone(&segments),
                first: number,
            }),
            ..intent(&format!("{:032x}", chance.u128(..)))
        })
        .collect();
    let recorded = claims
        .iter()
        .map(|claim| process.journal.record(claim.clone()));
    let recorded = timeout(Duration::from_secs(120), join_all(recorded)).await;
    for recorded in recorded.unwrap() {
        recorded.unwrap();
    }
    assert!(content("large-cluster").await.len() <= LIMIT);
    assert!(process.writes() < 20, "{}", process.writes());
    process.die().await;
    let next = Process::start("large-cluster", "next", Sharing::Exclusive).await;
    assert_eq!(next.journal.all().len(), 2_000);
    next.stop().await;
}
