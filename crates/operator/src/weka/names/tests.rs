//! Both schemes, as tables.

use serde_json::json;

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn client(spec: serde_json::Value) -> WekaClient {
    let metadata = json!({"name": "c", "namespace": "clients", "uid": "1-2-3-4-56ab"});
    let client = json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaClient", "metadata": metadata, "spec": spec,
    });
    serde_json::from_value(client).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn cluster(name: &str, namespace: &str, csi: serde_json::Value) -> WekaCluster {
    serde_json::from_value(json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"csiConfig": csi},
    }))
    .unwrap()
}

#[test]
fn drivers_of_groups_are_called_as_each_scheme_says() {
    for (group, seed, released) in [
        ("", "csi.weka.io", "csi.weka.io"),
        ("csi", "csi.csi.weka.io", "csi.weka.io"),
        ("groupName", "csi.group-name.weka.io", "groupName.weka.io"),
        ("group-name", "csi.group-name.weka.io", "group-name.weka.io"),
        ("CSIGroup", "csi.csi-group.weka.io", "CSIGroup.weka.io"),
        (
            "group2Name",
            "csi.group2-name.weka.io",
            "group2Name.weka.io",
        ),
        ("ABC", "csi.abc.weka.io", "ABC.weka.io"),
        ("a.b_c", "csi.a-b-c.weka.io", "a.b_c.weka.io"),
        ("--a--b--", "csi.a-b.weka.io", "--a--b--.weka.io"),
        ("é", "csi.weka.io", "é.weka.io"),
    ] {
        let client = client(json!({"image": "i:1.2.3", "csiConfig": {"csiGroup": group}}));
        for (scheme, expected) in [(Scheme::Seed, seed), (Scheme::Released, released)] {
            let origin = Origin::of(&client, None, scheme);
            assert_eq!(origin.driver(scheme), expected, "{group} {scheme:?}");
        }
    }
}

#[test]
fn drivers_of_clusters_are_called_as_each_scheme_says() {
    let client = client(json!({"image": "i:1.2.3", "csiConfig": {"csiGroup": "ignored"}}));
    for (csi, seed, released) in [
        (json!({}), "csi.prod-ns.weka.io", "prod.ns.weka.io"),
        (
            json!({"csiDriverName": "csi.weka.io"}),
            "csi.weka.io",
            "csi.weka.io",
        ),
        (
            json!({"csiGroup": "csi"}),
            "csi.prod-ns.weka.io",
            "csi.weka.io",
        ),
    ] {
        let cluster = cluster("prod", "ns", csi);
        for (scheme, expected) in [(Scheme::Seed, seed), (Scheme::Released, released)] {
            let origin = Origin::of(&client, Some(&cluster), scheme);
            assert_eq!(origin.driver(scheme), expected, "{scheme:?}");
        }
    }
}

#[test]
fn what_only_comes_to_the_same_name_is_told_apart() {
    let one = cluster("a-b", "c", json!({}));
    let other = cluster("a", "b-c", json!({}));
    let client = client(json!({"image": "i:1.2.3"}));
    let origins = [one, other].map(|it| Origin::of(&client, Some(&it), Scheme::Seed));
    let names = origins.each_ref().map(|it| it.driver(Scheme::Seed));
    assert_eq!(names[0], names[1]);
    assert_ne!(origins[0], origins[1]);
    let [one, other] = ["groupName", "group-name"].map(|it| Origin::ClientGroup(it.to_owned()));
    assert_eq!(one.driver(Scheme::Seed), other.driver(Scheme::Seed));
    assert_ne!(one, other);
}

#[test]
fn objects_are_called_after_their_driver() {
    for (driver, scheme, controller, account, plain, direct) in [
        (
            "csi.weka.io",
            Scheme::Seed,
            "weka-csi-controller",
            "weka-csi-node",
            "storageclass-csi-weka-io-default",
            "storageclass-csi-weka-io-default-forcedirect",
        ),
        (
            "csi.prod-ns.weka.io",
            Scheme::Seed,
            "prod-ns-csi-controller",
            "prod-ns-csi-node",
            "storageclass-csi-prod-ns-weka-io-default",
            "storageclass-csi-prod-ns-weka-io-default-forcedirect",
        ),
        (
            "mine",
            Scheme::Seed,
            "csi-csi-controller",
            "csi-csi-node",
            "storageclass-mine-default",
            "storageclass-mine-default-forcedirect",
        ),
        (
            "prod.ns.weka.io",
            Scheme::Released,
            "prod-ns-weka-csi-controller",
            "prod-ns-weka-csi-node",
            "weka-prod-ns-default",
            "weka-prod-ns-default-forcedirect",
        ),
    ] {
        let names = Names::of(driver, scheme).unwrap();
        assert_eq!(names.controller, controller);
        assert_eq!(names.node_account, account);
        assert_eq!(names.storage_class("default", &[], ""), plain);
        let options = ["forcedirect".to_owned()];
        assert_eq!(names.storage_class("default", &options, ""), direct);
    }
    let names = Names::of("csi.weka.io", Scheme::Seed).unwrap();
    let options = ["readahead_kb=32".to_owned(), "sync".to_owned()];
    assert_eq!(
        names.storage_class("fs", &options, ""),
        "storageclass-csi-weka-io-fs-readahead-kb-32-sync"
    );
    assert_eq!(
        names.storage_class("fs", &options, "fast"),
        "storageclass-csi-weka-io-fs-fast"
    );
}

#[test]
fn what_two_drivers_cannot_both_have_is_listed() {
    let class = |suffix: &str| WekaClass {
        suffix: suffix.to_owned(),
        ..WekaClass::default()
    };
    let classes = [class(""), class("fast")];
    let objects = |driver: &str, scheme| Names::of(driver, scheme).unwrap().objects(&classes);
    assert_eq!(
        objects("csi.weka.io", Scheme::Seed),
        [
            "Deployment `weka-csi-controller`",
            "ServiceAccount `weka-csi-controller`",
            "ServiceAccount `weka-csi-node`",
            "StorageClass `storageclass-csi-weka-io-default`",
            "StorageClass `storageclass-csi-weka-io-default-fast`",
        ]
    );
    let meet = |one: &str, other: &str, scheme| {
        let (one, other) = (objects(one, scheme), objects(other, scheme));
        one.iter().any(|it| other.contains(it))
    };
    for (one, other, scheme, expected) in [
        ("a.weka.io", "b.weka.io", Scheme::Seed, true),
        ("csi.weka.io", "csi.weka.weka.io", Scheme::Seed, true),
        ("csi.a.b.weka.io", "csi.a-b.weka.io", Scheme::Seed, true),
        ("mine", "yours", Scheme::Seed, true),
        ("csi.a.weka.io", "csi.b.weka.io", Scheme::Seed, false),
        ("a.weka.io", "b.weka.io", Scheme::Released, false),
        ("x-y.z.weka.io", "x.y-z.weka.io", Scheme::Released, true),
    ] {
        assert_eq!(meet(one, other, scheme), expected, "{one} {other}");
    }
}

#[test]
fn names_beyond_a_limit_are_refused_and_not_cut() {
    let of = |driver: &str| Names::of(driver, Scheme::Seed);
    let driver =
        |length: usize| format!("csi.{}.weka.io", "a".repeat(length - "csi..weka.io".len()));
    let longest = driver(60);
    assert_eq!(of(&longest).unwrap().controller.len(), 63);
    assert!(matches!(of(&driver(61)), Err(NameError::Controller { .. })));
    for wrong in [
        driver(64).as_str(),
        "CSI.weka.io",
        "a_b.weka.io",
        "",
        "-a.weka.io",
    ] {
        assert_eq!(of(wrong), Err(NameError::Driver(wrong.to_owned())));
    }
    assert!(Names::owner_uid(&longest).len() <= 63);
    assert_ne!(Names::owner_uid("a"), Names::owner_uid("b"));
}

#[test]
fn secrets_are_where_the_cluster_is_or_else_where_the_client_is() {
    let with_target = client(json!({
        "image": "i:1.2.3", "targetCluster": {"name": "prod", "namespace": "ns"}, "csiConfig": {"csiGroup": "ignored"},
    }));
    let with_group = client(json!({"image": "i:1.2.3", "csiConfig": {"csiGroup": "groupName"}}));
    let plain = client(json!({"image": "i:1.2.3"}));
    for (client, scheme, namespace, name) in [
        (&with_target, Scheme::Seed, "ns", "weka-csi-prod"),
        (&with_group, Scheme::Seed, "clients", "weka-csi-group-name"),
        (
            &with_group,
            Scheme::Released,
            "clients",
            "weka-csi-groupName",
        ),
        (&plain, Scheme::Seed, "clients", "weka-csi-csi"),
    ] {
        let expected = (namespace.to_owned(), name.to_owned());
        assert_eq!(csi_secret(client, scheme), expected);
    }
}

#[test]
fn containers_are_called_after_client_and_node_or_the_nodes_uid() {
    const UID: &str = "0b0a5f0e-9d0c-4c5c-8f63-1a2b3c4d5e6f";
    assert_eq!(container("c", "worker-1", UID), "c-worker-1");
    let node = "n".repeat(61);
    assert_eq!(container("c", &node, UID), format!("c-{node}"));
    let node = "n".repeat(62);
    assert_eq!(container("c", &node, UID), format!("c-{UID}"));
    let client = "c".repeat(40);
    let long = container(&client, &node, UID);
    assert_eq!(long, format!("{}-{UID}", "c".repeat(26)));
    assert_eq!(long.len(), 63);
    assert_eq!(node_pod("c-worker-1"), "c-worker-1-csi-node");
}

#[test]
fn a_container_has_a_name_in_the_cluster_of_its_client() {
    assert_eq!(
        weka_container(&client(json!({"image": "i:1.2.3"}))),
        "56abclient"
    );
    let chosen = json!({"image": "i:1.2.3", "overrides": {"wekaContainerName": "mine"}});
    assert_eq!(weka_container(&client(chosen)), "mine");
}
