//! A suite that cannot fail proves nothing: here every case fails at least once, for the right fault.

mod table;

use std::collections::BTreeSet;

use stowage_conformance::{Filter, Outcome};
use stowage_memory_driver::Fault;

use self::table::{FAULTS, REFUSALS};
use crate::good::{options, run};
use crate::memory::Served;

/// After these faults something must be left: the driver does not let go of it, or nobody knows its id.
fn leaves_something(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::VolumeWithoutId
            | Fault::VolumeCannotBeDeleted
            | Fault::VolumeStaysWhenDeleted
            | Fault::CannotBeUnpublished
            | Fault::TargetStays
            | Fault::Fails("DeleteSnapshot")
    )
}

#[tokio::test]
async fn every_case_finds_a_fault_and_cleans_up_all_the_same() {
    let mut found = BTreeSet::new();
    let accepted = REFUSALS.iter().map(|row| (Fault::Accepts(row.0), row.1));
    let miscoded = REFUSALS.iter().map(|row| (Fault::Miscodes(row.0), row.1));
    for (fault, cases) in FAULTS.iter().copied().chain(accepted).chain(miscoded) {
        let served = Served::start(Some(fault));
        let mut options = options(&served);
        options.filter = Filter {
            focus: cases.iter().map(ToString::to_string).collect(),
            skip: vec![],
        };
        // Some faults never become good, however long one waits.
        options.call_timeout = std::time::Duration::from_millis(500);
        let report = run(options).await;
        assert_eq!(
            report.cases.len(),
            cases.len(),
            "{fault:?}: a name is not unique"
        );
        for case in report.cases {
            assert!(
                matches!(case.outcome, Outcome::Failed { .. }),
                "{fault:?} was not found by {}: {}: {:?}",
                case.group,
                case.name,
                case.outcome
            );
            found.insert(format!("{}: {}", case.group, case.name));
        }
        assert_eq!(
            !served.left().is_empty(),
            leaves_something(fault),
            "{fault:?} left {:?}",
            served.left()
        );
    }
    let served = Served::start(None);
    let all = run(options(&served)).await.cases;
    let blind: Vec<_> = all
        .iter()
        .map(|case| format!("{}: {}", case.group, case.name))
        .filter(|name| !found.contains(name))
        .collect();
    assert!(blind.is_empty(), "cases that found nothing: {blind:#?}");
}

#[tokio::test]
async fn a_failure_says_what_was_expected_and_what_came() {
    let served = Served::start(Some(Fault::MissingVolumeCannotBeDeleted));
    let report = run(options(&served)).await;
    let failed: Vec<_> = report
        .cases
        .iter()
        .filter_map(|case| match &case.outcome {
            Outcome::Failed { failures } => Some((case, failures)),
            Outcome::Passed | Outcome::Skipped { .. } => None,
        })
        .collect();
    // Of all 95, only the case about it.
    let [(case, failures)] = failed.as_slice() else {
        panic!("{failed:#?}");
    };
    assert_eq!(case.group, "DeleteVolume");
    let [failure] = failures.as_slice() else {
        panic!("{failures:#?}");
    };
    assert_eq!(
        failure.check,
        "DeleteVolume of a volume that does not exist"
    );
    assert_eq!(failure.expected, "OK");
    assert!(
        failure
            .got
            .starts_with("NOT_FOUND: there is no volume `fake-vol-id-test-"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn a_volume_that_stays_after_the_case_fails_it() {
    let served = Served::start(Some(Fault::VolumeCannotBeDeleted));
    let mut options = options(&served);
    options.filter.focus = vec!["CreateVolume: takes a name".to_owned()];
    let report = run(options).await;
    let Outcome::Failed { failures } = &report.cases[0].outcome else {
        panic!("{report:#?}");
    };
    assert_eq!(failures[0].check, "DeleteVolume to clean up after the case");
    assert_eq!(failures[0].got, "INTERNAL: it does not go");
}

#[tokio::test]
async fn a_driver_that_does_not_say_what_it_can_fails_and_is_not_skipped() {
    let served = Served::start(Some(Fault::Fails("GetPluginCapabilities")));
    let report = run(options(&served)).await;
    assert_eq!(report.counts().skipped, 0, "{report:#?}");
    assert!(report.counts().failed > 80, "{:?}", report.counts());
}
