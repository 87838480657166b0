use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn client(name: &str, spec: Value) -> Claimant {
    let mut all = json!({"image": "i:1.2.3"});
    all.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let client = json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaClient",
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": all,
    });
    Claimant {
        client: Arc::new(serde_json::from_value(client).unwrap()),
        target: Target::None,
        has_containers: true,
    }
}

fn changed(mut claimant: Claimant, change: impl FnOnce(&mut WekaClient)) -> Claimant {
    change(Arc::make_mut(&mut claimant.client));
    claimant
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn joins(name: &str, namespace: &str, csi: Value) -> Target {
    let cluster = json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"csiConfig": csi},
    });
    Target::Found(Arc::new(serde_json::from_value(cluster).unwrap()))
}

fn leaving(claimant: Claimant) -> Claimant {
    changed(claimant, |client| {
        client.metadata.deletion_timestamp = client.metadata.creation_timestamp.clone();
    })
}

fn has_driver(claimant: Claimant, driver: &str) -> Claimant {
    let status = json!({"csi": {"driverName": driver}});
    changed(claimant, |client| {
        client.status = Some(serde_json::from_value(status).unwrap());
    })
}

fn plan(claimants: &[Claimant]) -> Plan {
    plan_in(Scheme::Seed, claimants)
}

fn plan_in(naming_scheme: Scheme, claimants: &[Claimant]) -> Plan {
    let csi = CsiConfig {
        installation_enabled: true,
        naming_scheme,
        ..CsiConfig::default()
    };
    Plan::of(claimants, &csi)
}

/// A client of a cluster.
fn joined(name: &str, target: Target) -> Claimant {
    let spec = json!({"targetCluster": {"name": "c", "namespace": "n"}});
    Claimant {
        target,
        ..client(name, spec)
    }
}

fn reason(plan: &Plan, client: &str) -> Option<Reason> {
    match &plan.claims[client] {
        Claim::Held(_, problem) => Some(problem.reason),
        Claim::Nothing | Claim::Driver(_) => None,
    }
}

#[test]
fn clients_of_one_group_share_a_driver_and_the_oldest_owns_it() {
    let older = changed(client("z", json!({})), |client| {
        let time = serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
        client.metadata.creation_timestamp = Some(time);
    });
    let plan = plan(&[
        client("a", json!({})),
        older.clone(),
        client("b", json!({})),
    ]);
    let driver = &plan.drivers["csi.weka.io"];
    let names: Vec<_> = driver.clients.iter().map(|it| it.name_any()).collect();
    assert_eq!(names, ["z", "a", "b"]);
    assert_eq!(driver.secret, ("ns".to_owned(), "weka-csi-csi".to_owned()));
    assert_eq!(plan.claims["ns/a"], Claim::Driver("csi.weka.io".to_owned()));
    // One that goes passes it on, and keeps it until its containers are gone.
    let plan = self::plan(&[leaving(older), client("a", json!({}))]);
    assert_eq!(plan.drivers["csi.weka.io"].owner().name_any(), "a");
    assert_eq!(plan.drivers["csi.weka.io"].clients.len(), 2);
}

#[test]
fn the_last_one_takes_the_driver_along_when_its_containers_are_gone() {
    let last = leaving(client("a", json!({})));
    assert!(
        plan(std::slice::from_ref(&last))
            .drivers
            .contains_key("csi.weka.io")
    );
    let drained = Claimant {
        has_containers: false,
        ..last
    };
    let plan = plan(&[drained]);
    assert!(plan.drivers.is_empty() && plan.held.is_empty());
    assert_eq!(plan.claims["ns/a"], Claim::Nothing);
}

#[test]
fn switched_off_nobody_has_a_driver_and_nothing_is_held() {
    let missing = Claimant {
        target: Target::Missing,
        ..has_driver(client("b", json!({})), "csi.x.weka.io")
    };
    let plan = Plan::of(&[client("a", json!({})), missing], &CsiConfig::default());
    assert!(plan.drivers.is_empty() && plan.held.is_empty());
    assert_eq!(plan.claims.len(), 2);
    assert!(plan.claims.values().all(|claim| *claim == Claim::Nothing));
}

#[test]
fn two_groups_that_come_to_one_name_are_reported_on_both_and_touch_nothing() {
    let group = |name: &str, group: &str| client(name, json!({"csiConfig": {"csiGroup": group}}));
    let first = has_driver(group("a", "groupName"), "csi.group-name.weka.io");
    let plan = plan(&[first, group("b", "group-name"), client("c", json!({}))]);
    assert_eq!(reason(&plan, "ns/a"), Some(Reason::NameConflict));
    assert_eq!(reason(&plan, "ns/b"), Some(Reason::NameConflict));
    assert_eq!(plan.claims["ns/a"].driver(), Some("csi.group-name.weka.io"));
    assert_eq!(plan.claims["ns/b"].driver(), None);
    assert!(plan.held.contains("csi.group-name.weka.io"));
    assert_eq!(plan.drivers.keys().collect::<Vec<_>>(), ["csi.weka.io"]);
    let Claim::Held(_, problem) = &plan.claims["ns/b"] else {
        panic!("{plan:?}")
    };
    for part in [
        "ns/a",
        "ns/b",
        "`csiGroup: groupName`",
        "`csiGroup: group-name`",
    ] {
        assert!(problem.message.contains(part), "{}", problem.message);
    }
}

#[test]
fn two_clusters_share_a_driver_only_when_both_name_it() {
    let named = || json!({"csiDriverName": "csi.weka.io"});
    let both = plan(&[
        joined("a", joins("one", "n", named())),
        joined("b", joins("two", "n", named())),
    ]);
    assert_eq!(both.drivers["csi.weka.io"].clients.len(), 2);
    let different = plan(&[
        joined("a", joins("one", "n", json!({}))),
        joined("b", joins("two", "n", json!({}))),
    ]);
    assert_eq!(
        different.drivers.keys().collect::<Vec<_>>(),
        ["csi.one-n.weka.io", "csi.two-n.weka.io"]
    );
    let taken = plan(&[
        joined("a", joins("one", "n", named())),
        client("b", json!({})),
    ]);
    assert_eq!(reason(&taken, "ns/a"), Some(Reason::NameConflict));
    let meeting = plan(&[
        joined("a", joins("a-b", "c", json!({}))),
        joined("b", joins("a", "b-c", json!({}))),
    ]);
    assert_eq!(reason(&meeting, "ns/b"), Some(Reason::NameConflict));
}

#[test]
fn what_cannot_be_determined_holds_what_is_there() {
    let missing = Claimant {
        target: Target::Missing,
        ..client(
            "a",
            json!({"targetCluster": {"name": "gone", "namespace": "n"}}),
        )
    };
    let held = plan(&[has_driver(missing.clone(), "csi.gone-n.weka.io")]);
    assert_eq!(reason(&held, "ns/a"), Some(Reason::TargetClusterMissing));
    assert!(held.held.contains("csi.gone-n.weka.io"));
    let fresh = plan(&[missing]);
    assert_eq!(fresh.claims["ns/a"].driver(), None);
    assert!(fresh.held.is_empty());
    let going = Claimant {
        target: match joins("one", "n", json!({})) {
            Target::Found(mut cluster) => {
                let time = client("x", json!({}))
                    .client
                    .metadata
                    .creation_timestamp
                    .clone();
                Arc::make_mut(&mut cluster).metadata.deletion_timestamp = time;
                Target::Found(cluster)
            }
            other => other,
        },
        ..client("a", json!({}))
    };
    assert_eq!(
        reason(&plan(&[going]), "ns/a"),
        Some(Reason::TargetClusterDeleting)
    );
    let long = client("a", json!({"csiConfig": {"csiGroup": "g".repeat(60)}}));
    assert_eq!(reason(&plan(&[long]), "ns/a"), Some(Reason::NameInvalid));
}

#[test]
fn drivers_whose_objects_would_have_one_name_are_held_and_both_are_named() {
    let named = |driver: &str| joins(driver, "n", json!({"csiDriverName": driver}));
    let unnamed = |name: &str, namespace: &str| joins(name, namespace, json!({}));
    let group = |name: &str, group: &str| client(name, json!({"csiConfig": {"csiGroup": group}}));
    let controller = "Deployment `weka-csi-controller`";
    for (scheme, first, second, object) in [
        (
            Scheme::Seed,
            joined("a", named("a.weka.io")),
            joined("b", named("b.weka.io")),
            controller,
        ),
        (
            Scheme::Seed,
            client("a", json!({})),
            group("b", "weka"),
            controller,
        ),
        (
            Scheme::Seed,
            joined("a", named("csi.x.y.weka.io")),
            group("b", "x-y"),
            "StorageClass `storageclass-csi-x-y-weka-io-default",
        ),
        (
            Scheme::Released,
            joined("a", unnamed("x-y", "z")),
            joined("b", unnamed("x", "y-z")),
            "Deployment `x-y-z-weka-csi-controller`",
        ),
    ] {
        let alone = plan_in(scheme, std::slice::from_ref(&first)).drivers;
        let driver = alone.into_keys().next().unwrap();
        let first = has_driver(first, &driver);
        let plan = plan_in(scheme, &[first, second, group("c", "other")]);
        for client in ["ns/a", "ns/b"] {
            let Claim::Held(_, problem) = &plan.claims[client] else {
                panic!("{object}: {plan:?}")
            };
            assert_eq!(problem.reason, Reason::NameConflict);
            for part in [
                object,
                "WekaClient ns/a by ",
                "WekaClient ns/b by ",
                &driver,
            ] {
                assert!(problem.message.contains(part), "{}", problem.message);
            }
        }
        assert!(plan.held.contains(&driver), "what runs stays as it is");
        assert_eq!(plan.claims["ns/b"].driver(), None);
        assert_eq!(plan.drivers.len(), 1, "others go on");
    }
}
