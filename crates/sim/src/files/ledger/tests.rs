use std::sync::Arc;

use super::*;

const LIMITS: Record = Record {
    hard: 100,
    soft: 50,
    grace: 0,
    active_at: 0,
    used: 0,
    over_since: 0,
};

#[test]
fn what_fits_is_decided_by_limits_grace_and_time() {
    let graced = Record {
        grace: 10,
        used: 60,
        over_since: 5,
        ..LIMITS
    };
    let table = [
        ("up to the hard limit", LIMITS, 100, 0, true),
        ("one byte more", LIMITS, 101, 0, false),
        (
            "not active yet",
            Record {
                active_at: 9,
                ..LIMITS
            },
            101,
            8,
            true,
        ),
        (
            "active from then on",
            Record {
                active_at: 9,
                ..LIMITS
            },
            101,
            9,
            false,
        ),
        (
            "over soft, no grace period",
            Record {
                used: 60,
                over_since: 5,
                ..LIMITS
            },
            1,
            999,
            true,
        ),
        ("over soft, within grace", graced, 1, 14, true),
        ("over soft, grace is over", graced, 1, 15, false),
    ];
    for (case, record, more, now, expected) in table {
        assert_eq!(record.allows(more, now), expected, "{case}");
    }
}

fn ledgers() -> (tempfile::TempDir, Ledgers) {
    let directory = tempfile::tempdir().unwrap();
    let ledgers = Ledgers::new(directory.path().join("ledgers"));
    ledgers.set_total(1000).unwrap();
    (directory, ledgers)
}

#[test]
fn a_charge_that_does_not_fit_everywhere_is_made_nowhere() {
    let (_directory, ledgers) = ledgers();
    ledgers.set(7, LIMITS, || Ok(90)).unwrap();
    let open = [
        Arc::new(ledgers.open_total().unwrap()),
        Arc::new(ledgers.open(7).unwrap()),
    ];
    let charge = |delta| Standstill::of(&open).unwrap().add(delta, 0).unwrap();
    assert_eq!(charge(11), Err(Overdrawn::Quota));
    assert_eq!(ledgers.read_total().unwrap().used, 0);
    assert_eq!(charge(10), Ok(()));
    assert_eq!(ledgers.read_total().unwrap().used, 10);
    assert_eq!(ledgers.read(7).unwrap().unwrap().used, 100);
    assert_eq!(charge(-60), Ok(()));
    assert_eq!(ledgers.read(7).unwrap().unwrap().over_since, 0);
}

#[test]
fn a_full_filesystem_is_told_from_a_full_directory() {
    let (_directory, ledgers) = ledgers();
    let open = [Arc::new(ledgers.open_total().unwrap())];
    let standstill = Standstill::of(&open).unwrap();
    assert_eq!(standstill.add(1001, 0).unwrap(), Err(Overdrawn::Filesystem));
}

#[test]
fn a_removed_ledger_limits_nobody_who_still_has_it_open() {
    let (_directory, ledgers) = ledgers();
    ledgers.set(7, LIMITS, || Ok(0)).unwrap();
    let before = read_epoch(&ledgers.open_epoch().unwrap()).unwrap();
    let open = [Arc::new(ledgers.open(7).unwrap())];
    ledgers.remove(7).unwrap();
    assert_eq!(Standstill::of(&open).unwrap().add(500, 0).unwrap(), Ok(()));
    let after = read_epoch(&ledgers.open_epoch().unwrap()).unwrap();
    assert!(after.generation > before.generation);
    assert_eq!(ledgers.inodes().unwrap(), Vec::<u64>::new());
}

#[test]
fn charges_of_many_threads_and_descriptors_add_up() {
    let (_directory, ledgers) = ledgers();
    ledgers.set_total(u64::MAX).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let open = [Arc::new(ledgers.open_total().unwrap())];
                for _ in 0..500 {
                    Standstill::of(&open).unwrap().add(3, 0).unwrap().unwrap();
                }
            });
        }
    });
    assert_eq!(ledgers.read_total().unwrap().used, 4 * 500 * 3);
}
