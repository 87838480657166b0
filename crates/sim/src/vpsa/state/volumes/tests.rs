use super::*;
use crate::vpsa::state::servers;
use crate::vpsa::state::testing::{NOW, carry_out, later, moment, server, state, volume};

fn asked<const N: usize>(more: [(&str, &str); N]) -> Parameters {
    let mut parameters: Parameters = [
        ("name", "new"),
        ("capacity", "10G"),
        ("pool", "pool-00010001"),
        ("block", "NO"),
    ]
    .into();
    for (name, value) in more {
        parameters.add(name, &value.into());
    }
    parameters
}

#[test]
fn what_is_wrong_with_a_new_volume_is_told() {
    let mut state = state();
    volume(&mut state, "taken", "NO");
    let long = "x".repeat(129);
    for (name, value, code) in [
        ("name", "taken", 10096),
        ("name", "", 20012),
        ("name", "it's", 20012),
        ("name", "with space", 20012),
        ("name", long.as_str(), 20012),
        ("capacity", "0", 20012),
        ("capacity", "1.5", 20012),
        ("capacity", "10M", 20012),
        ("capacity", "91G", 20009),
        ("pool", "pool-00000000", 20001),
        ("block", "yes", 20012),
        ("export_name", "taken", 20004),
        ("colour", "red", 20012),
    ] {
        let refused = create(&state, &asked([(name, value)]), &moment());
        assert_eq!(refused.unwrap_err().code(), code, "{name}={value}");
    }
    for mode in ["protected", "emergency"] {
        let mut state = state.clone();
        let mut pool = state.pools["pool-00010001"].clone();
        pool.mode = mode.to_owned();
        state.apply(Change::Put(Object::Pool(pool)));
        let refused = create(&state, &asked([]), &moment()).unwrap_err();
        assert_eq!(refused.code(), 20010);
    }
}

#[test]
fn a_new_volume_is_busy_until_it_is_made() {
    let mut state = state();
    let decision = create(&state, &asked([("capacity", "7")]), &moment());
    let made = carry_out(&mut state, decision);
    assert_eq!(
        (made.id.as_str(), made.cg.as_str()),
        ("volume-00000001", "cg-00000001")
    );
    assert_eq!((made.capacity, made.export_name.as_str()), (7, "new"));
    let busy = get_calm(&state, &made.id, NOW).unwrap_err();
    assert!(busy.to_string().contains("being created"), "{busy}");
    let unfilled = get_calm(&state, &made.id, later().now);
    assert!(unfilled.is_err(), "its files are not there");
    let decision = filled(&state, &made.id);
    carry_out(&mut state, decision);
    assert!(get_calm(&state, &made.id, later().now).is_ok());
}

#[test]
fn an_expansion_adds_and_is_seen_when_it_is_done() {
    let mut state = state();
    let id = volume(&mut state, "v", "YES").id;
    let more = [("capacity", "5G")].into();
    let decision = expand(&state, &id, &more, &moment());
    carry_out(&mut state, decision);
    assert_eq!(state.volumes[&id].capacity_at(NOW), 10);
    assert_eq!(state.volumes[&id].capacity_at(NOW + 10), 15);
    assert_eq!(
        expand(&state, &id, &more, &moment()).unwrap_err().code(),
        20011
    );
    let decision = expand(&state, &id, &more, &later());
    assert_eq!(carry_out(&mut state, decision).promised(), 20);
    let too_much = [("capacity", "81")].into();
    let refused = expand(&state, &id, &too_much, &later()).unwrap_err();
    assert_eq!(refused.code(), 20009, "{refused}");
}

#[test]
fn a_clone_is_out_of_sight_until_it_is_made_and_takes_its_name_at_once() {
    let mut state = state();
    let source = volume(&mut state, "v", "NO");
    let decision = clone(&state, &source.cg, &[("name", "copy")].into(), &moment());
    let copy = carry_out(&mut state, decision);
    assert_ne!(copy.cg, source.cg);
    assert_eq!(get(&state, &copy.id, NOW).unwrap_err().code(), 10081);
    let again = clone(&state, &source.cg, &[("name", "copy")].into(), &moment());
    assert_eq!(again.unwrap_err().code(), 10096);
    assert_eq!(get(&state, &copy.id, NOW + 10).unwrap().capacity, 10);
    for (parameters, code) in [
        ([("name", "x"), ("snapshot", "snap-00000009")], 20003),
        ([("name", "x"), ("colour", "red")], 20012),
    ] {
        let refused = clone(&state, &source.cg, &parameters.into(), &moment());
        assert_eq!(refused.unwrap_err().code(), code);
    }
    let missing = clone(&state, "cg-00000009", &[("name", "x")].into(), &moment());
    assert_eq!(missing.unwrap_err().code(), 20002);
}

#[test]
fn a_volume_is_deleted_only_when_nobody_needs_it() {
    let mut state = state();
    let made = volume(&mut state, "v", "NO");
    let host = server(&mut state, "host", "10.0.0.1");
    let attach = [("volume_name", made.id.as_str()), ("access_type", "NFS")].into();
    let decision = servers::attach(&state, std::slice::from_ref(&host.id), &attach, &later());
    carry_out(&mut state, decision);
    let none = Parameters::default();
    let refused = delete(&state, &made.id, &none, &later()).unwrap_err();
    assert_eq!(refused.code(), 20005, "{refused}");
    let detach = [("servers", host.id.as_str())].into();
    let decision = servers::detach(&state, &made.id, &detach, later().now);
    carry_out(&mut state, decision);

    let name = [("display_name", "s")].into();
    let decision = snapshots::create(&state, &made.cg, &name, &later());
    let snapshot = carry_out(&mut state, decision);
    let refused = delete(&state, &made.id, &none, &later()).unwrap_err();
    assert_eq!(refused.code(), 20008, "{refused}");
    state.snapshots.remove(&snapshot.id);

    let decision = delete(&state, &made.id, &none, &moment());
    carry_out(&mut state, decision);
    assert_eq!(
        delete(&state, &made.id, &none, &moment())
            .unwrap_err()
            .code(),
        10097
    );
    assert!(state.outdated(NOW).is_empty());
    for change in state.outdated(NOW + 10) {
        state.apply(change);
    }
    assert_eq!(
        delete(&state, &made.id, &none, &later())
            .unwrap_err()
            .code(),
        10097
    );
}

#[test]
fn the_recycle_bin_keeps_capacity_and_lets_the_name_go() {
    let mut state = state();
    let mut vpsa = state.vpsa().clone();
    vpsa.recycle_bin = true;
    state.apply(Change::Put(Object::Vpsa(vpsa)));
    let made = volume(&mut state, "v", "NO");
    let decision = delete(&state, &made.id, &Parameters::default(), &moment());
    carry_out(&mut state, decision);
    assert_eq!(get(&state, &made.id, NOW).unwrap_err().code(), 10081);
    let pool = &state.pools["pool-00010001"];
    assert_eq!(pools::available(&state, pool), 90);
    volume(&mut state, "v", "NO");
    let decision = purge(&state, &made.id);
    carry_out(&mut state, decision);
    assert_eq!(purge(&state, &made.id).unwrap_err().code(), 10097);
    let week = 7 * 24 * 3600 * 1000;
    let other = state.volumes.keys().next().unwrap().clone();
    let decision = delete(&state, &other, &Parameters::default(), &moment());
    carry_out(&mut state, decision);
    assert!(state.outdated(NOW + week - 1).is_empty());
    assert_eq!(state.outdated(NOW + week).len(), 1);
}

#[test]
fn names_and_comments_change() {
    let mut state = state();
    let one = volume(&mut state, "one", "NO");
    volume(&mut state, "two", "NO");
    let taken = rename(&state, &one.id, &[("new_name", "two")].into(), NOW);
    assert_eq!(taken.unwrap_err().code(), 10096);
    for _ in 0..2 {
        let decision = rename(&state, &one.id, &[("new_name", "three")].into(), NOW);
        let renamed = carry_out(&mut state, decision);
        assert_eq!(
            (renamed.display_name.as_str(), renamed.export_name.as_str()),
            ("three", "one")
        );
    }
    let said = [("new_comment", "nice")].into();
    let decision = comment(&state, &one.id, &said, NOW);
    assert_eq!(carry_out(&mut state, decision).comment, "nice");
    let quoted = [("new_comment", "it's")].into();
    assert_eq!(
        comment(&state, &one.id, &quoted, NOW).unwrap_err().code(),
        20012
    );
}
