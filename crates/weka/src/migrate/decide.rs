//! What is to be done with a directory. Pure.

use crate::driver::directory::{CAPACITY, Capacity};
use crate::quota::{Enforcement, Limits, Size};
use crate::rest::wire::{Quota, QuotaStatus};

/// What is to be done with a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) step: Step,
    /// The size that the volume has afterwards.
    pub(super) bytes: u64,
    /// What somebody should look at, although it is not in the way.
    pub(super) warning: Option<Warning>,
}

/// The way to a volume with a quota and without an attribute.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Set a quota, then remove the attribute.
    Set(Limits),
    /// The quota is right, but not enforced yet: wait for it, then remove the attribute.
    Await,
    /// The quota is right: remove the attribute.
    Keep,
    /// It is as it should be.
    Skip,
    /// Somebody must look at it.
    Refuse(Refusal),
}

/// What somebody should look at.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Warning {
    #[error(
        "the recorded capacity of {recorded} bytes differs from the quota of {quota} bytes, the larger one counts"
    )]
    Different { recorded: u64, quota: u64 },
    #[error("its attribute `{CAPACITY}` is not a size (`{0}`), but it has a quota, which counts")]
    Unreadable(String),
}

/// Why a directory is not migrated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "it has neither a recorded capacity (attribute `{CAPACITY}`) nor a quota, so it is not a CSI volume, or one that was never completed: move it elsewhere, or set its quota with `weka fs quota set`"
    )]
    NoVolume,
    #[error(
        "its attribute `{CAPACITY}` is not a size (`{0}`): correct it with `setfattr`, or set its quota with `weka fs quota set`"
    )]
    Unreadable(String),
    #[error("its quota is in status ERROR: set it again with `weka fs quota set`")]
    Broken,
}

/// Compares what is written at a directory with what the cluster says. What is right already stays; nothing gets smaller.
pub(super) fn decide(capacity: &Capacity, quota: Option<&Quota>) -> Decision {
    // A quota may only count.
    let quota = quota.filter(|quota| Size::from(quota.limits()).bytes > 0);
    let is_broken = quota.is_some_and(|quota| quota.status == QuotaStatus::Error);
    let known = quota.map_or(0, |quota| Size::from(quota.limits()).bytes);
    let only = |step| Decision {
        step,
        bytes: known,
        warning: None,
    };
    match (capacity, quota) {
        (Capacity::Absent, None) => only(Step::Refuse(Refusal::NoVolume)),
        (Capacity::Bytes(0), None) => only(Step::Refuse(Refusal::Unreadable("0".to_owned()))),
        (Capacity::Invalid(text), None) => only(Step::Refuse(Refusal::Unreadable(text.clone()))),
        (Capacity::Bytes(bytes), None) => set_first(*bytes),
        (Capacity::Bytes(bytes), Some(quota)) => complete(*bytes, quota),
        (Capacity::Absent | Capacity::Invalid(_), Some(_)) if is_broken => {
            only(Step::Refuse(Refusal::Broken))
        }
        (Capacity::Absent, Some(_)) => only(Step::Skip),
        (Capacity::Invalid(text), Some(_)) => Decision {
            warning: Some(Warning::Unreadable(text.clone())),
            ..only(Step::Skip)
        },
    }
}

/// A volume from before there were quotas.
fn set_first(bytes: u64) -> Decision {
    let enforcement = Enforcement::Hard;
    Decision {
        step: Step::Set(Size { bytes, enforcement }.into()),
        bytes,
        warning: None,
    }
}

/// One that has a quota already: of an earlier run, of an expansion, of a person.
fn complete(recorded: u64, quota: &Quota) -> Decision {
    let limits = quota.limits();
    let known = Size::from(limits).bytes;
    let wanted = if recorded > known {
        limits.grown(recorded)
    } else {
        limits
    };
    let step = match quota.status {
        QuotaStatus::Error => Step::Set(wanted),
        _ if wanted != limits => Step::Set(wanted),
        QuotaStatus::Active => Step::Keep,
        QuotaStatus::Adding | QuotaStatus::Unknown | QuotaStatus::Deleting => Step::Await,
    };
    Decision {
        step,
        bytes: recorded.max(known),
        warning: (recorded != known).then_some(Warning::Different {
            recorded,
            quota: known,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const SOFT: u64 = i64::MAX.unsigned_abs();

    fn quota(hard_bytes: u64, soft_bytes: u64, status: QuotaStatus) -> Quota {
        let grace_seconds = 0;
        let limits = Limits {
            hard_bytes,
            soft_bytes,
            grace_seconds,
        };
        Quota::of(limits, status)
    }

    fn set(hard_bytes: u64, soft_bytes: u64) -> Step {
        let grace_seconds = 0;
        Step::Set(Limits {
            hard_bytes,
            soft_bytes,
            grace_seconds,
        })
    }

    #[test]
    fn every_directory_comes_to_a_quota_or_to_somebodys_eyes() {
        use QuotaStatus::{Active, Adding, Error};
        let bytes = |bytes: u64| Capacity::Bytes(bytes);
        let invalid = || Capacity::Invalid("much".to_owned());
        let unreadable = |text: &str| Step::Refuse(Refusal::Unreadable(text.to_owned()));
        for (capacity, quota, step, size) in [
            // Old volumes.
            (bytes(GIB), None, set(GIB, GIB), GIB),
            (bytes(GIB), Some(quota(0, 0, Active)), set(GIB, GIB), GIB),
            // An earlier run died before it removed the attribute, or before the cluster had counted.
            (bytes(GIB), Some(quota(GIB, GIB, Active)), Step::Keep, GIB),
            (bytes(GIB), Some(quota(GIB, GIB, Adding)), Step::Await, GIB),
            (bytes(GIB), Some(quota(GIB, GIB, Error)), set(GIB, GIB), GIB),
            // Expanded since, by a quota or by the attribute.
            (
                bytes(GIB),
                Some(quota(2 * GIB, 2 * GIB, Active)),
                Step::Keep,
                2 * GIB,
            ),
            (
                bytes(2 * GIB),
                Some(quota(GIB, GIB, Active)),
                set(2 * GIB, 2 * GIB),
                2 * GIB,
            ),
            // A soft one stays soft.
            (bytes(GIB), Some(quota(SOFT, GIB, Active)), Step::Keep, GIB),
            (
                bytes(2 * GIB),
                Some(quota(SOFT, GIB, Active)),
                set(SOFT, 2 * GIB),
                2 * GIB,
            ),
            // Made through the API.
            (
                Capacity::Absent,
                Some(quota(GIB, GIB, Active)),
                Step::Skip,
                GIB,
            ),
            (
                Capacity::Absent,
                Some(quota(GIB, GIB, Adding)),
                Step::Skip,
                GIB,
            ),
            (invalid(), Some(quota(GIB, GIB, Active)), Step::Skip, GIB),
            // Not to be migrated by anybody who does not know more.
            (Capacity::Absent, None, Step::Refuse(Refusal::NoVolume), 0),
            (
                Capacity::Absent,
                Some(quota(0, 0, Active)),
                Step::Refuse(Refusal::NoVolume),
                0,
            ),
            (
                Capacity::Absent,
                Some(quota(GIB, GIB, Error)),
                Step::Refuse(Refusal::Broken),
                GIB,
            ),
            (invalid(), None, unreadable("much"), 0),
            (bytes(0), None, unreadable("0"), 0),
        ] {
            let decision = decide(&capacity, quota.as_ref());
            let case = format!("{capacity:?} {quota:?}");
            assert_eq!((decision.step, decision.bytes), (step, size), "{case}");
        }
    }

    #[test]
    fn what_is_strange_is_told() {
        let differs = decide(
            &Capacity::Bytes(GIB),
            Some(&quota(5, 5, QuotaStatus::Active)),
        );
        let warning = differs.warning.unwrap().to_string();
        assert!(warning.contains("1073741824 bytes") && warning.contains(" 5 bytes"));
        let same = decide(&Capacity::Bytes(5), Some(&quota(5, 5, QuotaStatus::Active)));
        assert_eq!(same.warning, None);
        let strange = Capacity::Invalid("much".to_owned());
        let strange = decide(&strange, Some(&quota(5, 5, QuotaStatus::Active)));
        assert!(strange.warning.unwrap().to_string().contains("`much`"));
    }

    #[test]
    fn what_was_done_is_not_done_again() {
        for capacity in [1, GIB, 3 * GIB] {
            for before in [
                None,
                Some(quota(GIB, GIB, QuotaStatus::Active)),
                Some(quota(SOFT, GIB, QuotaStatus::Active)),
            ] {
                let limits = match decide(&Capacity::Bytes(capacity), before.as_ref()).step {
                    Step::Set(limits) => limits,
                    Step::Keep => before.unwrap().limits(),
                    other => panic!("{other:?}"),
                };
                let after = Quota::of(limits, QuotaStatus::Active);
                assert!(Size::from(limits).bytes >= capacity, "nothing gets smaller");
                assert_eq!(
                    decide(&Capacity::Bytes(capacity), Some(&after)).step,
                    Step::Keep
                );
                assert_eq!(decide(&Capacity::Absent, Some(&after)).step, Step::Skip);
            }
        }
    }
}
