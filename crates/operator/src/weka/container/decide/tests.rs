//! Each row is what is seen and what comes of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::config::OperatorConfig;
use crate::driver::Kind;
use crate::weka::nodes::Node;

const DRIVER: &str = "csi.weka.io";

fn node_pod_object() -> Object {
    let spec = json!({"containers": [{"name": "wekafs", "image": "own:1"}]});
    Object {
        kind: Kind::Pod,
        namespace: Some("csi".to_owned()),
        name: "c-a-csi-node".to_owned(),
        labels: std::collections::BTreeMap::new(),
        annotations: [(NODE_HASH.to_owned(), "h".to_owned())].into(),
        body: [("spec".to_owned(), spec)].into_iter().collect(),
    }
}

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn client_pod(image: &str, ready: bool) -> Pod {
    let ready = if ready { "True" } else { "False" };
    let condition =
        json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    pod(json!({
        "metadata": {"name": "c-a", "namespace": "weka"},
        "spec": {"containers": [{"name": "weka-container", "image": image}]},
        "status": {"phase": "Running", "conditions": [condition]},
    }))
}

fn node_pod(hash: &str, image: &str) -> Pod {
    pod(json!({
        "metadata": {"name": "c-a-csi-node", "namespace": "csi", "annotations": {NODE_HASH: hash}},
        "spec": {"containers": [{"name": "wekafs", "image": image}]},
    }))
}

/// A container that serves, with everything in place.
fn seen() -> SeenContainer {
    let container = json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaContainer",
        "metadata": {"name": "c-a", "namespace": "weka", "uid": "1"},
        "spec": {
            "image": "weka:4.4.5", "mode": "client", "name": "n", "numCores": 1, "nodeAffinity": "a",
            "csiDriverName": DRIVER,
        },
        "status": {"status": "Running", "csiDriverNames": [DRIVER]},
    });
    SeenContainer {
        container: Arc::new(serde_json::from_value(container).unwrap()),
        node: Some(Node::default()),
        client_pod: Some(client_pod("weka:4.4.5", true)),
        node_pods: vec![node_pod("h", "own:1")],
        wanted_node_pod: WantedPod::Rendered(Box::new(node_pod_object())),
        mounts: Mounts::default(),
        config: OperatorConfig::default(),
        now: "2026-01-01T00:00:30Z".parse().unwrap(),
    }
}

/// So many volumes of its driver are attached, as the watch has it.
fn attached(count: usize) -> Mounts {
    Mounts::of(&[DRIVER.to_owned()], |_| count)
}

fn change(seen: &mut SeenContainer, change: impl FnOnce(&mut WekaContainer)) {
    change(Arc::make_mut(&mut seen.container));
}

fn leaving(seen: &mut SeenContainer) {
    change(seen, |it| {
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        it.metadata.deletion_timestamp = Some(time);
    });
}

/// `+name` for each pod that is made, `-name` for each that goes.
fn pods(decision: &Decision) -> Vec<String> {
    let shown = |step: &PodStep| match step {
        PodStep::Create(wanted) => format!("+{}", wanted.name),
        PodStep::Delete(pod) => format!("-{}", pod.name_any()),
    };
    decision.pods.iter().map(shown).collect()
}

fn decided(prepare: impl FnOnce(&mut SeenContainer)) -> Decision {
    let mut seen = seen();
    prepare(&mut seen);
    decide(&seen)
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let decision = decided(|_| {});
    assert!(decision.pods.is_empty() && decision.lost_labels.is_empty() && !decision.is_done);
    assert_eq!(decision.labels.as_deref(), Some(DRIVER));
    assert_eq!(decision.state, ContainerState::Running);
}

type Row = (
    &'static str,
    fn(&mut SeenContainer),
    &'static [&'static str],
);

#[test]
fn node_pods_are_made_and_replaced_when_anything_rendered_differs() {
    let rows: [Row; 8] = [
        ("none", |it| it.node_pods.clear(), &["+c-a-csi-node"]),
        (
            "hash",
            |it| it.node_pods = vec![node_pod("old", "own:1")],
            &["-c-a-csi-node"],
        ),
        (
            "image by hand",
            |it| it.node_pods = vec![node_pod("h", "mine:1")],
            &["-c-a-csi-node"],
        ),
        (
            "ended",
            |it| {
                it.node_pods[0].status =
                    Some(serde_json::from_value(json!({"phase": "Failed"})).unwrap());
            },
            &["-c-a-csi-node"],
        ),
        (
            "other namespace",
            |it| it.node_pods[0].metadata.namespace = Some("old".to_owned()),
            &["-c-a-csi-node"],
        ),
        (
            "no driver",
            |it| it.wanted_node_pod = WantedPod::None,
            &["-c-a-csi-node"],
        ),
        (
            "held",
            |it| {
                it.wanted_node_pod = WantedPod::AsItIs;
                it.node_pods = vec![node_pod("old", "own:1")];
            },
            &[],
        ),
        (
            "no node",
            |it| {
                it.node = None;
                it.node_pods.clear();
            },
            &[],
        ),
    ];
    for (name, prepare, expected) in rows {
        assert_eq!(pods(&decided(prepare)), expected, "{name}");
    }
}

#[test]
fn a_new_image_comes_when_it_may() {
    fn new_image(seen: &mut SeenContainer) {
        change(seen, |it| it.spec.image = "weka:5.0.0".to_owned());
    }
    let policy = |policy: &'static str, mounts: usize, hot: bool| {
        decided(|seen| {
            new_image(seen);
            seen.mounts = attached(mounts);
            change(seen, |it| {
                it.spec.upgrade_policy_type = Some(policy.into());
                it.spec.allow_hot_upgrade = Some(hot);
            });
        })
    };
    for (word, mounts, hot, replaced, waits) in [
        ("all-at-once", 0, false, true, false),
        ("all-at-once", 1, false, false, true),
        ("all-at-once", 1, true, true, false),
        ("all-at-once-force", 1, false, true, false),
        ("manual", 0, false, false, false),
        ("manual", 1, false, false, false),
        ("rolling", 1, false, false, true),
    ] {
        let decision = policy(word, mounts, hot);
        let expected: &[&str] = if replaced { &["-c-a"] } else { &[] };
        assert_eq!(pods(&decision), expected, "{word} {mounts} {hot}");
        assert_eq!(decision.waits_for_mounts, waits, "{word} {mounts} {hot}");
        // Nobody is asked about mounts that do not matter.
        let relies = replaced && mounts == 0;
        assert_eq!(decision.relies_on_mounts, relies, "{word} {mounts} {hot}");
        assert_eq!(decision.look_again, None, "the watch tells");
    }
    let gone = decided(|seen| {
        new_image(seen);
        seen.client_pod = None;
    });
    assert_eq!(pods(&gone), ["+c-a"]);
    let paused = |pod: bool| {
        decided(|seen| {
            change(seen, |it| it.spec.state = Some(DesiredState::Paused));
            if !pod {
                seen.client_pod = None;
            }
        })
    };
    assert_eq!(pods(&paused(true)), ["-c-a"]);
    assert_eq!(pods(&paused(false)), Vec::<String>::new());
    assert_eq!(paused(false).state, ContainerState::Paused);
}

#[test]
fn one_that_goes_drains_and_then_goes_in_order() {
    let drains: [Row; 3] = [
        ("mounted", |it| it.mounts = attached(1), &[]),
        (
            "mounted without a client",
            |it| {
                it.mounts = attached(1);
                it.client_pod = None;
            },
            &[],
        ),
        (
            "mounted without a node pod",
            |it| {
                it.mounts = attached(1);
                it.node_pods.clear();
            },
            &["+c-a-csi-node"],
        ),
    ];
    let goes: [Row; 5] = [
        ("nothing is mounted", |_| {}, &["-c-a"]),
        (
            "nobody waits",
            |it| {
                it.mounts = attached(1);
                change(it, |it| {
                    it.spec.overrides = Some(json!({"skipActiveMountsCheck": true}));
                });
            },
            &["-c-a"],
        ),
        (
            "the node is gone",
            |it| {
                it.mounts = attached(1);
                it.node = None;
            },
            &["-c-a"],
        ),
        (
            "the client is gone",
            |it| it.client_pod = None,
            &["-c-a-csi-node"],
        ),
        (
            "all is gone",
            |it| {
                it.client_pod = None;
                it.node_pods.clear();
            },
            &[],
        ),
    ];
    let of = |prepare: fn(&mut SeenContainer)| {
        decided(|seen| {
            leaving(seen);
            prepare(seen);
        })
    };
    for (name, prepare, expected) in drains {
        let decision = of(prepare);
        assert_eq!(pods(&decision), expected, "{name}");
        assert_eq!(decision.state, ContainerState::Draining, "{name}");
        assert_eq!(decision.lost_labels, [DRIVER], "{name}");
        assert!(!decision.is_done);
    }
    for (name, prepare, expected) in goes {
        let decision = of(prepare);
        assert_eq!(pods(&decision), expected, "{name}");
        assert_eq!(decision.state, ContainerState::Deleting, "{name}");
        assert_eq!(decision.is_done, name == "all is gone", "{name}");
        let relies = ["nothing is mounted", "the client is gone"].contains(&name);
        assert_eq!(decision.relies_on_mounts, relies, "{name}");
    }
}

#[test]
fn what_had_to_be_asked_for_is_asked_for_again() {
    let decision = decided(|seen| {
        leaving(seen);
        seen.mounts = attached(1);
        seen.mounts.is_asked = true;
    });
    assert_eq!(decision.state, ContainerState::Draining);
    assert!(decision.look_again.is_some() && !decision.relies_on_mounts);
}

#[test]
fn what_was_mounted_under_an_earlier_name_is_remembered_until_it_is_unmounted() {
    let renamed = |mounts: Mounts| {
        decided(|seen| {
            seen.mounts = mounts;
            change(seen, |it| it.spec.csi_driver_name = "new".to_owned());
        })
        .drivers
    };
    assert_eq!(renamed(attached(1)), [DRIVER, "new"]);
    assert_eq!(renamed(attached(0)), ["new"]);
    let off = |mounts: Mounts| {
        decided(|seen| {
            seen.mounts = mounts;
            change(seen, |it| it.spec.csi_driver_name.clear());
        })
        .drivers
    };
    assert_eq!(off(attached(1)), [DRIVER]);
    assert_eq!(off(attached(0)), Vec::<String>::new());
}

#[test]
fn a_deletion_that_was_cut_short_is_sent_again_and_one_that_a_kubelet_has_is_not() {
    let going = |grace: i64| {
        let decision = decided(|seen| {
            leaving(seen);
            seen.client_pod = None;
            let metadata = &mut seen.node_pods[0].metadata;
            let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            metadata.deletion_timestamp = Some(time);
            metadata.deletion_grace_period_seconds = Some(grace);
        });
        pods(&decision)
    };
    assert_eq!(going(30), Vec::<String>::new());
    assert_eq!(going(0), ["-c-a-csi-node"]);
}

#[test]
fn labels_go_when_the_client_has_not_served_for_a_while() {
    let unready = |now: &str| {
        let now = now.parse().unwrap();
        decided(|seen| {
            seen.client_pod = Some(client_pod("weka:4.4.5", false));
            seen.now = now;
        })
    };
    let soon = unready("2026-01-01T00:00:20Z");
    assert_eq!((soon.labels.as_deref(), soon.lost_labels.len()), (None, 0));
    assert_eq!(soon.look_again, Some(Duration::from_secs(40)));
    assert_eq!(soon.state, ContainerState::Unhealthy);
    let late = unready("2026-01-01T00:01:00Z");
    assert_eq!(late.lost_labels, [DRIVER]);
    assert_eq!(late.look_again, None);
    let always = decided(|seen| {
        seen.client_pod = Some(client_pod("weka:4.4.5", false));
        seen.now = "2026-01-02T00:00:00Z".parse().unwrap();
        seen.config
            .csi
            .prevent_new_workload_on_client_container_not_running = false;
    });
    assert_eq!(always.labels.as_deref(), Some(DRIVER));
    let renamed = decided(|seen| change(seen, |it| it.spec.csi_driver_name = "new".to_owned()));
    assert_eq!(renamed.lost_labels, [DRIVER]);
    assert_eq!(renamed.labels.as_deref(), Some("new"));
    let off = decided(|seen| change(seen, |it| it.spec.csi_driver_name.clear()));
    assert_eq!(
        (off.labels, off.lost_labels),
        (None, vec![DRIVER.to_owned()])
    );
}

type Change = fn(&mut WekaContainer);

#[test]
fn a_pod_that_was_started_with_other_settings_stays_and_it_is_said() {
    let started = |seen: &mut SeenContainer, hash: &str| {
        let pod = seen.client_pod.as_mut().unwrap();
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(SETTINGS_HASH.to_owned(), hash.to_owned());
    };
    let hash = |seen: &SeenContainer| {
        let site = &seen.config.weka_clients;
        render::settings_hash(&seen.container, "a", site)
    };
    let decision = decided(|seen| {
        let now = hash(seen);
        started(seen, &now);
    });
    assert_eq!(decision.settings, Settings::AsWanted);
    let changes: [(Change, bool); 5] = [
        (|it| it.spec.num_cores = 4, true),
        (|it| it.spec.network = Some(json!({"udpMode": true})), true),
        (
            |it| it.spec.resources = Some(json!({"limits": {"memory": "1Gi"}})),
            true,
        ),
        // These have their own way to change, or do not matter any more.
        (|it| it.spec.image = "weka:5.0.0".to_owned(), false),
        (
            |it| it.spec.join_ip_ports = Some(vec!["10.0.0.1:14000".to_owned()]),
            false,
        ),
    ];
    for (number, (edit, expected)) in changes.into_iter().enumerate() {
        let decision = decided(|seen| {
            let before = hash(seen);
            started(seen, &before);
            seen.mounts = attached(1);
            change(seen, edit);
        });
        let is_outdated = decision.settings == Settings::Outdated;
        assert_eq!(is_outdated, expected, "{number}");
        assert_eq!(pods(&decision), [""; 0], "{number}");
    }
    // One of an operator before this one: nobody knows.
    let unknown = decided(|seen| change(seen, |it| it.spec.num_cores = 4));
    assert_eq!(unknown.settings, Settings::AsWanted);
}
