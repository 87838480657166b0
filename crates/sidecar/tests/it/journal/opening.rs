//! What is there when a process starts, and what keeps it from starting.

use std::error::Error as _;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{from_value, json};
use stowage_service::client;
use stowage_sidecar::journal::{JournalError, Sharing};
use stowage_stage::soon;
use tokio::time::sleep;

use crate::journal::intents::{Dice, intent};
use crate::journal::rig::{CONTENT, NAMESPACE, Process, config, connect, content, leases};

#[tokio::test]
async fn the_next_process_finds_all_that_was_recorded() {
    for seed in 0..10 {
        let name = format!("found-{seed}");
        let intents = Dice(seed).intents(60);
        let first = Process::start(&name, "first", Sharing::Exclusive).await;
        let recorded = intents
            .iter()
            .map(|intent| first.journal.record(intent.clone()));
        for outcome in soon(join_all(recorded)).await {
            outcome.unwrap();
        }
        assert_eq!(first.journal.all(), intents);
        first.die().await;

        let next = Process::start(&name, "next", Sharing::Exclusive).await;
        assert_eq!(next.journal.all(), intents, "seed {seed}");
        assert_eq!(next.metric("stowage_sidecar_intents "), 60);
        for intent in intents {
            assert_eq!(next.journal.get(&intent.claim.uid), Some(intent.clone()));
            next.journal.forget(&intent.claim.uid);
        }
        assert!(next.journal.is_empty());
        next.stop().await;
        let last = Process::start(&name, "last", Sharing::Exclusive).await;
        assert!(last.journal.is_empty(), "seed {seed}");
        last.stop().await;
    }
}

#[tokio::test]
async fn a_lease_that_a_person_labelled_keeps_its_labels() {
    let leases = leases().await;
    let lease = json!({"metadata": {"name": "labelled", "labels": {"team": "storage"}}});
    let lease: Lease = from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let process = Process::start("labelled", "me", Sharing::Exclusive).await;
    soon(process.journal.record(intent("1"))).await.unwrap();
    process.stop().await;
    let lease = leases.get("labelled").await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["team"], "storage");
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
}

/// Opens a journal with this content; what comes of it, and what is in it afterwards.
async fn open_with(name: &str, text: &str) -> (JournalError, String) {
    let lease = json!({"metadata": {"name": name, "annotations": {CONTENT: text}}});
    let lease: Lease = from_value(lease).unwrap();
    let leases = leases().await;
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let before = leases.get(name).await.unwrap();
    let opened = Process::start_with(connect().await, name, "me", Sharing::Exclusive).await;
    let after = leases.get(name).await.unwrap();
    assert_eq!(before, after, "it was touched");
    (opened.err().expect("it was opened"), content(name).await)
}

#[tokio::test]
async fn damaged_content_is_left_alone_and_named_with_the_remedy() {
    let (error, left) = open_with("damaged", "{\"version\":1,\"entries\":[{").await;
    assert_eq!(left, "{\"version\":1,\"entries\":[{");
    let text = error.to_string();
    assert!(text.contains("Lease `default/damaged`"), "{text}");
    assert!(
        text.contains("kubectl -n default get lease damaged"),
        "{text}"
    );
    assert_eq!(error.source().unwrap().to_string(), "it is damaged");
}

#[tokio::test]
async fn a_newer_version_is_left_alone_and_named() {
    let (error, _) = open_with("newer", "{\"version\":7,\"things\":{}}").await;
    let text = format!("{error} {}", error.source().unwrap());
    assert!(text.contains("--resolve-intents-and-exit"), "{text}");
    assert!(text.contains("version 7"), "{text}");
}

#[tokio::test]
async fn a_missing_rule_is_named() {
    bind_clerk().await;
    let mut config = config().await;
    config.auth_info.impersonate = Some("clerk".to_owned());
    let clerk = client::connect(config).unwrap();
    for (verbs, missing) in [
        (vec![], Some("get")),
        (vec!["get"], Some("create")),
        (vec!["get", "create"], Some("update")),
        (vec!["get", "create", "update"], None),
    ] {
        allow_clerk(&verbs).await;
        let wanted = missing.map(|verb| {
            format!("needs `{verb}` on `leases` of coordination.k8s.io in namespace `default`")
        });
        // The server learns of a rule a moment after it is made, and the first to be let in makes the Lease.
        let as_wanted = async {
            loop {
                let opened =
                    Process::start_with(clerk.clone(), "clerk", "clerk", Sharing::Exclusive).await;
                match (opened, &wanted) {
                    (Ok(process), None) => return process.stop().await,
                    (Ok(process), Some(_)) => process.stop().await,
                    (Err(error), Some(wanted)) if error.to_string().contains(wanted) => return,
                    (Err(error), _) => {
                        assert!(matches!(error, JournalError::Forbidden { .. }), "{error}");
                    }
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        soon(as_wanted).await;
    }
}

async fn bind_clerk() {
    let binding = json!({
        "metadata": {"name": "clerk"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "clerk"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "clerk"}],
    });
    let binding: RoleBinding = from_value(binding).unwrap();
    let bindings = Api::namespaced(connect().await, NAMESPACE);
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
}

/// Makes these verbs on Leases all that the clerk may use.
async fn allow_clerk(verbs: &[&str]) {
    let roles: Api<Role> = Api::namespaced(connect().await, NAMESPACE);
    let _ = roles.delete("clerk", &DeleteParams::default()).await;
    if verbs.is_empty() {
        return;
    }
    let role = json!({
        "metadata": {"name": "clerk"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}],
    });
    let role = from_value(role).unwrap();
    roles.create(&PostParams::default(), &role).await.unwrap();
}
