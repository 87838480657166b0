//! The pauses between attempts to watch.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// The default is half a minute, and a server that was away costs it twice: when it is found again, its first answer
/// is that what we know is too old. All that time claims would wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pauses of the default, but shorter. They stay random: a server that comes back has many clients.
#[derive(Default)]
pub(super) struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(shortened)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

fn shortened(pause: Duration) -> Duration {
    if pause < LONGEST_PAUSE {
        return pause;
    }
    let half = LONGEST_PAUSE / 2;
    let rest = pause.as_nanos() % half.as_nanos();
    half + Duration::from_nanos(u64::try_from(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_tried_again_every_few_seconds() {
        let mut pauses = Pauses::default();
        let all: Vec<_> = pauses.by_ref().take(20).collect();
        assert!(all.iter().all(|pause| *pause <= LONGEST_PAUSE), "{all:?}");
        assert!(
            all[5..].iter().all(|pause| *pause >= LONGEST_PAUSE / 2),
            "{all:?}"
        );
        pauses.reset();
        assert!(pauses.next().unwrap() < Duration::from_secs(2));
    }
}
