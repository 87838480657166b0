//! Many calls, a few at a time: how many per second, and how long one takes.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

/// Times of calls, sorted.
pub struct Latency {
    times: Vec<Duration>,
    whole: Duration,
}

impl Latency {
    /// Makes `call` for each of `items`, `clients` of them at a time. The first failure ends it.
    pub async fn measure<T, F>(
        items: impl IntoIterator<Item = T>,
        clients: usize,
        call: impl Fn(T) -> F,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let started = Instant::now();
        let with_clock = |item| {
            let call = call(item);
            async move {
                let started = Instant::now();
                call.await.map(|()| started.elapsed())
            }
        };
        let calls = stream::iter(items)
            .map(with_clock)
            .buffer_unordered(clients);
        let mut times: Vec<Duration> = calls.try_collect().await?;
        times.sort_unstable();
        Ok(Self {
            times,
            whole: started.elapsed(),
        })
    }

    /// Calls per second, all clients together.
    #[allow(clippy::cast_precision_loss, reason = "a few thousand calls")]
    pub fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.whole.as_secs_f64()
    }

    /// The time that `percent` of the calls did not exceed, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let index = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
        self.times
            .get(index)
            .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}
