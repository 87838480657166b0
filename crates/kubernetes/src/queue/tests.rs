use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(300),
};

fn queue() -> (Queue, Registry) {
    let mut registry = Registry::default();
    (Queue::new("claims", BACKOFF, &mut registry), registry)
}

/// Runs the queue until nothing is left, and says when the work on each object began.
async fn run_until_empty(
    queue: &Queue,
    workers: usize,
    work: impl Fn(Key, usize) -> Verdict,
) -> Vec<(Key, u64)> {
    let start = Instant::now();
    let stop = CancellationToken::new();
    let log = Mutex::new(Vec::new());
    let tries = Mutex::new(HashMap::<Key, usize>::new());
    let run = queue.run(workers, stop.clone(), |key| {
        log.lock()
            .push((Arc::clone(&key), start.elapsed().as_secs()));
        let nth = {
            let mut tries = tries.lock();
            let nth = tries.entry(Arc::clone(&key)).or_default();
            *nth += 1;
            *nth
        };
        let verdict = work(key, nth);
        async move { verdict }
    });
    let watch = async {
        while !queue.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.cancel();
    };
    tokio::join!(run, watch);
    log.into_inner()
}

#[tokio::test(start_paused = true)]
async fn a_failure_waits_longer_each_time_and_others_do_not_wait_for_it() {
    let (queue, _) = queue();
    queue.add("bad");
    queue.add("good");
    let log = run_until_empty(&queue, 1, |key, nth| match (&*key, nth) {
        ("bad", 1..=4) => Verdict::Retry("no".to_owned()),
        _ => Verdict::Done,
    })
    .await;
    let at = |name: &str| -> Vec<u64> {
        log.iter()
            .filter(|(key, _)| &**key == name)
            .map(|(_, at)| *at)
            .collect()
    };
    assert_eq!(at("bad"), [0, 1, 3, 7, 15]);
    assert_eq!(at("good"), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_the_pause() {
    let (queue, _) = queue();
    queue.add("claim");
    let later = queue.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        later.add("claim");
    });
    let log = run_until_empty(&queue, 1, |_, nth| match nth {
        1 => Verdict::After(Duration::from_secs(300), Some("too large".to_owned())),
        _ => Verdict::Done,
    })
    .await;
    assert_eq!(log.last().unwrap().1, 10);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_worked_on_by_one_worker_and_again_if_it_changed_meanwhile() {
    let (queue, _) = queue();
    let (running, most, runs) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let stop = CancellationToken::new();
    for _ in 0..3 {
        queue.add("claim");
    }
    let run = queue.run(4, stop.clone(), |_| {
        let (running, most, runs) = (running.clone(), most.clone(), runs.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(5)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Verdict::Done
        }
    });
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add("claim");
        queue.add("claim");
        tokio::time::sleep(Duration::from_secs(20)).await;
        stop.cancel();
    };
    tokio::join!(run, change);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_failure_of_one_object() {
    let (queue, registry) = queue();
    queue.add("clumsy");
    queue.add("good");
    let stop = CancellationToken::new();
    let done = Arc::new(AtomicUsize::new(0));
    let run = queue.run(1, stop.clone(), |key| {
        let done = done.clone();
        async move {
            assert_ne!(&*key, "clumsy", "on purpose, by a test");
            done.fetch_add(1, Ordering::SeqCst);
            Verdict::Done
        }
    });
    let watch = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
    };
    tokio::join!(run, watch);
    assert_eq!(done.load(Ordering::SeqCst), 1);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(
        text.contains("stowage_workqueue_failing_seconds{name=\"claims\",object=\"clumsy\",error=\"the work panicked"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_work_finish() {
    let (queue, _) = queue();
    queue.add("claim");
    let stop = CancellationToken::new();
    let finished = Arc::new(AtomicUsize::new(0));
    let run = queue.run(1, stop.clone(), |_| {
        let finished = finished.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(9)).await;
            finished.fetch_add(1, Ordering::SeqCst);
            Verdict::Done
        }
    });
    let stopper = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(run, stopper);
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_for_later_is_not_forgotten_while_the_object_is_worked_on() {
    let (queue, _) = queue();
    queue.add("claim");
    let start = Instant::now();
    let stop = CancellationToken::new();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let run = queue.run(1, stop.clone(), |_| {
        begun.lock().push(start.elapsed().as_secs());
        async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Verdict::Done
        }
    });
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add_after("claim", Duration::from_secs(9));
        queue.add_after("claim", Duration::from_secs(30));
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.cancel();
    };
    tokio::join!(run, change);
    assert_eq!(*begun.lock(), [0, 10]);
}
