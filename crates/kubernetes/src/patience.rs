//! Waits for what may take long: a server that is away, a kind that nobody has installed yet.

use tokio_util::sync::CancellationToken;

use crate::queue::Backoff;

/// Asks until it succeeds, with pauses. `tell` gets each reason once, for as long as it stays the same. `None`: asked to
/// stop.
pub async fn patiently<T, F>(
    stop: &CancellationToken,
    pauses: Backoff,
    ask: impl Fn() -> F,
    tell: impl Fn(&str),
) -> Option<T>
where
    F: Future<Output = Result<T, String>>,
{
    let mut told = String::new();
    for failures in 1.. {
        match stop.run_until_cancelled(ask()).await? {
            Ok(found) => return Some(found),
            Err(reason) if reason == told => {}
            Err(reason) => {
                tell(&reason);
                told = reason;
            }
        }
        let pause = tokio::time::sleep(pauses.after(failures));
        stop.run_until_cancelled(pause).await?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    const PAUSES: Backoff = Backoff {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(4),
    };

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_told_once_and_pauses_grow() {
        let answers = ["away", "away", "away", "starting", ""];
        let asked = Cell::new(0);
        let told = RefCell::new(Vec::new());
        let started = Instant::now();
        let stop = CancellationToken::new();
        let found = patiently(
            &stop,
            PAUSES,
            || {
                let answer = answers[asked.replace(asked.get() + 1)];
                async move {
                    match answer {
                        "" => Ok("here"),
                        reason => Err(reason.to_owned()),
                    }
                }
            },
            |reason| told.borrow_mut().push(reason.to_owned()),
        );
        assert_eq!(found.await, Some("here"));
        assert_eq!(told.into_inner(), ["away", "starting"]);
        assert_eq!(started.elapsed(), Duration::from_secs(1 + 2 + 4 + 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_to_stop_ends_a_question_that_hangs() {
        let stop = CancellationToken::new();
        let hangs = || std::future::pending::<Result<(), String>>();
        let asking = patiently(&stop, PAUSES, hangs, |_| {});
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let (found, ()) = tokio::join!(asking, stopping);
        assert_eq!(found, None);
    }
}
