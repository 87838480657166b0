//! Whether an intent is enough of a reason to delete a volume. Pure.
//!
//! An intent that lay around says little about the volume it names: a Lease may come back from a backup, or another
//! provisioner may have worked meanwhile, and the volume may have been kept and given to somebody else.

use std::time::Duration;

use crate::intent::Origin;

/// Why a person has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Distrust {
    /// A program before version 2 of the journal wrote it, or a hand.
    #[error("it does not say when it was written")]
    Unknown,
    /// Older than the limit.
    #[error("it was written {} ago, and --intent-age-limit is {}", words(*age), words(*limit))]
    Old {
        /// In seconds.
        age: u64,
        /// In seconds.
        limit: u64,
    },
    /// The Lease came from elsewhere.
    #[error("it was written in another cluster, or it is not known in which")]
    Foreign,
}

impl Distrust {
    /// In place of an age.
    pub(crate) const UNKNOWN_AGE: &'static str = "unknown";
}

/// `cluster` is this one, as far as it is known, and `now` in seconds since 1970.
pub(crate) fn judge(
    origin: Option<&Origin>,
    cluster: Option<&str>,
    limit: Duration,
    now: u64,
) -> Result<(), Distrust> {
    let origin = origin.ok_or(Distrust::Unknown)?;
    // Where no process may read the namespace, all that is left to go by is the age.
    if origin.cluster.as_deref() != cluster {
        return Err(Distrust::Foreign);
    }
    let (age, limit) = (now.saturating_sub(origin.written), limit.as_secs());
    // A clock that was wrong may have written a time that is still to come.
    let ahead = origin.written.saturating_sub(now);
    if age > limit || ahead > limit {
        return Err(Distrust::Old {
            age: age.max(ahead),
            limit,
        });
    }
    Ok(())
}

/// A number of seconds, as kubectl shows ages.
pub(crate) fn words(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: u64 = 1_800_000_000;

    #[test]
    fn only_what_was_written_here_and_lately_is_trusted() {
        let origin = |age: i64, cluster: Option<&str>| {
            Some(Origin {
                written: NOW.checked_add_signed(-age).unwrap(),
                cluster: cluster.map(str::to_owned),
            })
        };
        let old = |age| Distrust::Old { age, limit: 86_400 };
        for (origin, cluster, verdict) in [
            (origin(5, Some("a")), Some("a"), Ok(())),
            (origin(86_400, Some("a")), Some("a"), Ok(())),
            (origin(86_401, Some("a")), Some("a"), Err(old(86_401))),
            (origin(-60, Some("a")), Some("a"), Ok(())),
            (origin(-90_000, Some("a")), Some("a"), Err(old(90_000))),
            (origin(5, Some("a")), Some("b"), Err(Distrust::Foreign)),
            (origin(5, Some("a")), None, Err(Distrust::Foreign)),
            (origin(5, None), Some("a"), Err(Distrust::Foreign)),
            (origin(5, None), None, Ok(())),
            (origin(86_401, None), None, Err(old(86_401))),
            (None, Some("a"), Err(Distrust::Unknown)),
        ] {
            let judged = judge(origin.as_ref(), cluster, DAY, NOW);
            assert_eq!(judged, verdict, "{origin:?} in {cluster:?}");
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(words(seconds), shown);
        }
    }
}
