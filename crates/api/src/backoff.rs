//! Pauses between attempts: they double, up to a limit.

use std::time::Duration;

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; it doubles.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after this many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        let doubled = self.first.saturating_mul(1 << doublings);
        doubled.min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff {
            first: Duration::from_millis(200),
            longest: Duration::from_secs(1),
        };
        let pauses = (0..6).map(|failures| backoff.after(failures).as_millis());
        assert_eq!(pauses.collect::<Vec<_>>(), [200, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.after(u32::MAX), backoff.longest);
    }
}
