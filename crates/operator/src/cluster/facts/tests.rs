use serde_json::json;

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn class(name: &str, secret: &str) -> DynamicObject {
    object(json!({
        "metadata": {"name": name},
        "provisioner": "d",
        "parameters": {
            "csi.storage.k8s.io/provisioner-secret-name": secret,
            "csi.storage.k8s.io/provisioner-secret-namespace": "n",
        },
    }))
}

fn concerned<const N: usize>(drivers: [&str; N]) -> Concerned {
    drivers.map(str::to_owned).into()
}

fn namespace(name: &str) -> DynamicObject {
    object(json!({"metadata": {"name": name}}))
}

#[test]
fn secrets_follow_classes_and_namespaces() {
    let mut state = State::default();
    let source = Source::StorageClasses;
    assert_eq!(
        state.take_in(source, Event::Apply(class("a", "one"))),
        (concerned(["d"]), false)
    );
    assert_eq!(
        state.take_in(source, Event::Apply(class("a", "one"))),
        (concerned([]), false)
    );
    assert_eq!(
        state.secrets_of("d").named,
        crate::driver::SecretNames::default()
    );
    let other = Event::Apply(namespace("other"));
    assert_eq!(
        state.take_in(Source::Namespaces, other),
        (concerned([]), false)
    );
    let expected = Event::Apply(namespace("n"));
    assert_eq!(
        state.take_in(Source::Namespaces, expected),
        (concerned(["d"]), false)
    );
    assert_eq!(
        state.secrets_of("d").named,
        [("n", "one")].into_iter().collect()
    );
    assert_eq!(state.secrets_of("other"), References::default());
    assert_eq!(
        state.take_in(source, Event::Delete(class("a", "one"))),
        (concerned(["d"]), false)
    );
    assert_eq!(state.secrets_of("d"), References::default());
}

#[test]
fn a_new_list_replaces_what_was_known() {
    let mut state = State::default();
    state.take_in(Source::Namespaces, Event::Apply(namespace("old")));
    state.take_in(Source::Namespaces, Event::Init);
    state.take_in(Source::Namespaces, Event::InitApply(namespace("new")));
    assert!(state.has_namespace("old"), "until the list is complete");
    assert_eq!(
        state.take_in(Source::Namespaces, Event::InitDone),
        (concerned([]), true)
    );
    assert!(!state.has_namespace("old") && state.has_namespace("new"));
}

#[test]
fn nodes_are_counted_by_driver() {
    let mut state = State::default();
    for (node, driver) in [("a", "d"), ("b", "d"), ("c", "e")] {
        let node = json!({"metadata": {"name": node}, "spec": {"drivers": [{"name": driver}]}});
        state.take_in(Source::CsiNodes, Event::Apply(object(node)));
    }
    assert_eq!(state.registrations_of("d"), 2);
    let node = object(json!({"metadata": {"name": "a"}, "spec": {"drivers": []}}));
    assert_eq!(
        state.take_in(Source::CsiNodes, Event::Apply(node)),
        (concerned(["d"]), false)
    );
    assert_eq!(state.registrations_of("d"), 1);
}

#[test]
fn only_a_changed_set_of_secrets_is_news_and_only_for_its_driver() {
    let mut state = State::default();
    let source = Source::StorageClasses;
    let first = state.take_in(source, Event::Apply(class("a", "one")));
    assert_eq!(first.0, concerned(["d"]));
    // As thousands of volumes do.
    let again = state.take_in(source, Event::Apply(class("b", "one")));
    assert_eq!(again.0, concerned([]));
    let other = state.take_in(source, Event::Apply(class("b", "two")));
    assert_eq!(other.0, concerned(["d"]));
    let one_less = state.take_in(source, Event::Delete(class("b", "two")));
    assert_eq!(one_less.0, concerned(["d"]));
    // A watch that begins again brings what is known.
    state.take_in(source, Event::Init);
    state.take_in(source, Event::InitApply(class("renamed", "one")));
    assert_eq!(
        state.take_in(source, Event::InitDone),
        (concerned([]), true)
    );
}

#[test]
fn a_namespace_that_is_being_deleted_counts_as_gone() {
    let mut state = State::default();
    state.take_in(Source::Namespaces, Event::Apply(namespace("n")));
    state.take_in(Source::StorageClasses, Event::Apply(class("a", "one")));
    assert_ne!(state.secrets_of("d"), References::default());
    let mut going = namespace("n");
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        jiff::Timestamp::UNIX_EPOCH,
    ));
    let (concerned_now, _) = state.take_in(Source::Namespaces, Event::Apply(going));
    assert_eq!(concerned_now, concerned(["d"]));
    assert_eq!(state.secrets_of("d"), References::default());
}

#[test]
fn a_volume_that_goes_is_news_for_who_waits_for_it() {
    let mut state = State::default();
    let volume = || object(json!({"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d"}}}));
    let gone = |state: &mut State| state.take_in(Source::Volumes, Event::Delete(volume())).0;
    assert_eq!(gone(&mut state), concerned([]));
    state.awaited.insert("d".to_owned());
    assert_eq!(gone(&mut state), concerned(["d"]));
}

#[test]
fn a_volume_that_is_kept_does_not_take_a_claim_from_the_one_that_is_bound_to_it() {
    let mut state = State::default();
    let volume = |name: &str, driver: &str, phase: &str| {
        object(json!({
            "metadata": {"name": name},
            "spec": {"csi": {"driver": driver}, "claimRef": {"namespace": "n", "name": "data"}},
            "status": {"phase": phase},
        }))
    };
    let claim: Claim = ("n".to_owned(), "data".to_owned());
    let of = |state: &State| ["ours", "other"].map(|driver| state.is_claim_of(driver, &claim));
    let bound = Event::Apply(volume("new", "ours", "Bound"));
    state.take_in(Source::Volumes, bound);
    let kept = || volume("old", "other", "Released");
    state.take_in(Source::Volumes, Event::Apply(kept()));
    assert_eq!(of(&state), [true, false]);
    assert_eq!(state.claim_of_volume("new"), Some(claim.clone()));
    assert_eq!(state.claim_of_volume("old"), None);
    assert_eq!(state.volumes_of("other"), [("old".to_owned(), None)]);
    state.take_in(Source::Volumes, Event::Delete(kept()));
    assert_eq!(of(&state), [true, false]);
    let released = Event::Apply(volume("new", "ours", "Released"));
    state.take_in(Source::Volumes, released);
    assert_eq!(of(&state), [true, false], "nobody else has it");
    let gone = Event::Delete(volume("new", "ours", "Released"));
    state.take_in(Source::Volumes, gone);
    assert_eq!(of(&state), [false, false]);
}
