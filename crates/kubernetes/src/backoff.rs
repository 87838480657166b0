//! How long to wait after failures: the pause doubles with each, up to a limit.

use std::time::Duration;

/// The pauses of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; it doubles.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after this many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1 << failures.saturating_sub(1).min(30));
        doubled.min(self.longest)
    }

    /// The same, up to a tenth shorter or longer: objects that failed together are not tried again together.
    pub fn after_with_jitter(self, failures: u32) -> Duration {
        self.after(failures).mul_f64(0.9 + 0.2 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(300),
    };

    #[test]
    fn pauses_double_up_to_the_longest() {
        for (failures, seconds) in [(0, 1), (1, 1), (2, 2), (9, 256), (10, 300), (u32::MAX, 300)] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(BACKOFF.after(failures), expected, "{failures}");
        }
    }

    #[test]
    fn jitter_is_at_most_a_tenth_and_differs() {
        let pauses: Vec<_> = (0..100).map(|_| BACKOFF.after_with_jitter(10)).collect();
        let (shortest, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*shortest >= Duration::from_secs(270), "{shortest:?}");
        assert!(*longest <= Duration::from_secs(330), "{longest:?}");
        assert_ne!(shortest, longest);
    }
}
