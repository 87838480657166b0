//! Triggers that come together become one, and none waits longer than the first of them.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use futures::stream::{BoxStream, Fuse};
use futures::{Stream, StreamExt, stream};
use tokio_util::time::DelayQueue;

struct Gathering<T> {
    triggers: Fuse<BoxStream<'static, T>>,
    waiting: HashSet<T>,
    due: DelayQueue<T>,
}

/// Each item `wait` after it first came, however often it comes meanwhile: a storm delays nothing.
pub(crate) fn gather<T: Clone + Eq + Hash + Send + 'static>(
    triggers: impl Stream<Item = T> + Send + 'static,
    wait: Duration,
) -> impl Stream<Item = T> + Send + 'static {
    let gathering = Gathering {
        triggers: triggers.boxed().fuse(),
        waiting: HashSet::new(),
        due: DelayQueue::new(),
    };
    stream::unfold(gathering, move |mut it| async move {
        loop {
            tokio::select! {
                Some(due) = it.due.next() => {
                    let due = due.into_inner();
                    it.waiting.remove(&due);
                    return Some((due, it));
                }
                Some(trigger) = it.triggers.next() => {
                    if it.waiting.insert(trigger.clone()) {
                        it.due.insert(trigger, wait);
                    }
                }
                else => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn a_storm_delays_nothing_and_is_one_trigger_at_a_time() {
        let storm = stream::unfold(0, |count| async move {
            sleep(Duration::from_millis(20)).await;
            (count < 50).then_some(("storm", count + 1))
        });
        let begun = Instant::now();
        let gathered: Vec<_> = gather(storm, WAIT).map(|_| begun.elapsed()).collect().await;
        assert!(gathered[0] <= Duration::from_millis(125), "{gathered:?}");
        assert!((8..=10).contains(&gathered.len()), "{gathered:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_lost_at_the_end() {
        let gathered = gather(stream::iter(["a", "b", "a"]), WAIT);
        let mut gathered: Vec<_> = gathered.collect().await;
        gathered.sort_unstable();
        assert_eq!(gathered, ["a", "b"]);
    }
}
