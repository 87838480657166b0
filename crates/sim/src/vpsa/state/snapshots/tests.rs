use super::*;
use crate::vpsa::state::testing::{NOW, carry_out, later, moment, state, volume};

#[test]
fn a_snapshot_has_the_size_of_its_volume_and_a_name_of_its_own() {
    let mut state = state();
    let made = volume(&mut state, "v", "YES");
    let name: Parameters = [("display_name", "s")].into();
    let decision = create(&state, &made.cg, &name, &moment());
    let snapshot = carry_out(&mut state, decision);
    assert_eq!(
        (snapshot.capacity, snapshot.volume.as_str()),
        (10, made.id.as_str())
    );
    let again = create(&state, &made.cg, &name, &moment()).unwrap_err();
    assert_eq!(again.code(), 20004, "{again}");
    let busy = get_calm(&state, &snapshot.id, NOW).unwrap_err();
    assert!(busy.to_string().contains("being taken"), "{busy}");
    let unknown = create(&state, "cg-00000009", &name, &moment()).unwrap_err();
    assert_eq!(unknown.code(), 20002);
    let decision = filled(&state, &snapshot.id);
    carry_out(&mut state, decision);
    let decision = rename(&state, &snapshot.id, &[("newname", "t")].into());
    assert_eq!(carry_out(&mut state, decision).display_name, "t");
    let none = Parameters::default();
    let decision = delete(&state, &snapshot.id, &none, &later());
    carry_out(&mut state, decision);
    assert_eq!(
        delete(&state, &snapshot.id, &none, &later())
            .unwrap_err()
            .code(),
        20011
    );
    for change in state.outdated(later().now) {
        state.apply(change);
    }
    assert_eq!(
        delete(&state, &snapshot.id, &none, &later())
            .unwrap_err()
            .code(),
        20003
    );
}
