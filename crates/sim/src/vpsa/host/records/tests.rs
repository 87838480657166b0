use std::os::unix::fs::PermissionsExt;
use std::{slice, thread};

use super::*;

#[test]
fn records_are_files_that_only_root_reads_and_show_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let place = Place {
        target: "iqn.a".to_owned(),
        portal: "[fd00::1]:3260".parse().unwrap(),
        interface: "nic".to_owned(),
    };
    records.make(&place, None).unwrap();
    assert_eq!(records.places(&Which::default()), slice::from_ref(&place));
    let mut record = records.read(&place).unwrap();
    assert!(record.chap().is_none());
    record.set("node.session.auth.authmethod", "CHAP");
    record.set("node.session.auth.username", "user");
    record.set("node.session.auth.password", "very-secret");
    records.write(&place, &record).unwrap();
    let record = records.read(&place).unwrap();
    assert_eq!(record.chap().unwrap().1, "very-secret");
    assert!(!record.shown().contains("very-secret"));
    let file = directory.path().join("iqn.a/fd00::1,3260");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    records.remove(&place).unwrap();
    records.remove(&place).unwrap();
    assert!(entries(directory.path()).is_empty());
}

#[test]
fn a_portal_has_one_record_without_its_group_and_one_for_each_interface_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let place = |interface: &str| Place {
        target: "iqn.a".to_owned(),
        portal: "10.0.0.1:3260".parse().unwrap(),
        interface: interface.to_owned(),
    };
    let (one, other) = (place("one"), place("two"));
    let places = || records.places(&Which::default());
    records.make(&one, None).unwrap();
    records.make(&other, None).unwrap();
    assert_eq!(places(), slice::from_ref(&other), "the last is there");
    records.make(&one, Some(1)).unwrap();
    assert_eq!(
        places(),
        slice::from_ref(&one),
        "the one without is replaced"
    );
    records.make(&other, Some(1)).unwrap();
    assert_eq!(places(), [one.clone(), other.clone()]);
    for name in ["one", "two"] {
        let file = format!("iqn.a/10.0.0.1,3260,1/{name}");
        assert!(directory.path().join(file).is_file());
        records.remove(&place(name)).unwrap();
    }
    assert!(entries(directory.path()).is_empty());
}

#[test]
fn two_portals_of_a_target_are_recorded_at_the_same_time() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    thread::scope(|scope| {
        for portal in ["10.0.0.1:3260", "10.0.0.2:3260"] {
            let place = Place {
                target: "iqn.a".to_owned(),
                portal: portal.parse().unwrap(),
                interface: "nic".to_owned(),
            };
            let records = &records;
            scope.spawn(move || {
                for _ in 0..500 {
                    records.make(&place, None).unwrap();
                    let address = place.portal.ip().to_string();
                    let record = records.read(&place).unwrap();
                    assert_eq!(record.get("node.conn[0].address"), Some(address.as_str()));
                    records.remove(&place).unwrap();
                }
            });
        }
    });
    assert!(entries(directory.path()).is_empty());
}
