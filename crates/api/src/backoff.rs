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

    /// The same, up to a tenth shorter or longer: what failed together is not tried again together.
    pub fn after_with_jitter(self, failures: u32) -> Duration {
        self.after(failures).mul_f64(0.9 + 0.2 * fastrand::f64())
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

    #[test]
    fn jitter_is_at_most_a_tenth_and_differs() {
        let backoff = Backoff {
            first: Duration::from_secs(100),
            longest: Duration::from_secs(100),
        };
        let pauses: Vec<_> = (0..100).map(|_| backoff.after_with_jitter(1)).collect();
        let (shortest, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*shortest >= Duration::from_secs(90), "{shortest:?}");
        assert!(*longest <= Duration::from_secs(110), "{longest:?}");
        assert_ne!(shortest, longest);
    }
}
