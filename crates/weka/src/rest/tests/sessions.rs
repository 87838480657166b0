//! Logins, tokens, users and their secrets.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stowage_sim::weka::control::faults::Trouble;
use stowage_sim::weka::state::access::Role;

use super::Rig;
use crate::rest::{ApiError, Deadline};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_one_login_and_one_failure() {
    let rig = Rig::new().await;
    let calls = (0..20).map(|_| async { rig.api().filesystem("default").await });
    for found in join_all(calls).await {
        assert_eq!(found.unwrap().unwrap().name, "default");
    }
    assert_eq!(rig.seen("login").await, 1);
    let wrong = rig.secret(&[("password", "hunter2")]);
    let deadline = Deadline::after(Duration::from_secs(20));
    let calls = (0..20).map(|_| async {
        let api = rig.clusters.of_request(&wrong, deadline).unwrap().unwrap();
        api.facts().await
    });
    for refused in join_all(calls).await {
        let error = refused.unwrap_err();
        assert!(matches!(error, ApiError::LoginRefused { .. }), "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert_eq!(rig.seen("login").await, 1, "for 20 callers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_does_not_lock_the_account_for_those_who_have_the_right_one() {
    let rig = Rig::new().await;
    let time = Duration::from_secs(20);
    for _ in 0..20 {
        let wrong = rig.api_within(time, &[("password", "hunter2")]);
        let error = wrong.facts().await.unwrap_err();
        assert!(matches!(error, ApiError::LoginRefused { .. }), "{error}");
        assert!(
            error.to_string().contains("when the secret changes"),
            "{error}"
        );
    }
    assert_eq!(rig.seen("login").await, 1, "once, and not again and again");
    rig.api().facts().await.unwrap();
    // The array does lock it for those who insist.
    for attempt in 0..5 {
        let password = format!("guess-{attempt}");
        let wrong = rig.api_within(time, &[("password", &password)]);
        wrong.facts().await.unwrap_err();
    }
    let locked = rig.api_within(time, &[("localContainerName", "x")]);
    let error = locked.facts().await.unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_401_costs_one_login() {
    let rig = Rig::new().await;
    rig.api().filesystem("default").await.unwrap();
    rig.array.control().take_requests().await.unwrap();
    rig.array.control().revoke_tokens(true).await.unwrap();
    let calls = (0..20).map(|_| async { rig.api().filesystem("default").await });
    for found in join_all(calls).await {
        assert!(found.unwrap().is_some());
    }
    assert_eq!(rig.seen("login").await, 1);
    // An array that refuses every token is not asked for ever.
    rig.fault("fileSystems", None, Trouble::Refuse(401)).await;
    let error = rig.api().filesystem("default").await.unwrap_err();
    assert!(matches!(error, ApiError::Login { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organizations_and_roles_are_told_apart() {
    let rig = Rig::new().await;
    let control = rig.array.control();
    control
        .add_user(0, "reader", "reader", Role::ReadOnly)
        .await
        .unwrap();
    control.add_organization(7, "tenant").await.unwrap();
    control
        .add_user(7, "boss", "boss", Role::OrgAdmin)
        .await
        .unwrap();
    let time = Duration::from_secs(20);
    let reader = rig.api_within(time, &[("username", "reader"), ("password", "reader")]);
    assert!(
        reader
            .facts()
            .await
            .unwrap()
            .check_may_write("set a quota")
            .is_err()
    );
    let tenant = rig.api_within(
        time,
        &[
            ("username", "boss"),
            ("password", "boss"),
            ("organization", "tenant"),
        ],
    );
    assert!(
        tenant.filesystem("default").await.unwrap().is_none(),
        "it is of another organization"
    );
    let unknown = rig.api_within(time, &[("organization", "nobody")]);
    let error = unknown.facts().await.unwrap_err();
    assert!(error.to_string().contains("`nobody`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_secret_is_a_new_client_at_once() {
    let rig = Rig::new().await;
    rig.api().facts().await.unwrap();
    rig.array
        .control()
        .add_user(0, "next", "next", Role::ClusterAdmin)
        .await
        .unwrap();
    let rotated = rig.api_within(
        Duration::from_secs(20),
        &[("username", "next"), ("password", "next")],
    );
    rotated.facts().await.unwrap();
    assert!(!Arc::ptr_eq(rotated.client(), rig.api().client()));
    let kept = rig.api();
    assert!(Arc::ptr_eq(kept.client(), rig.api().client()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.clusters.drop_idle(Duration::from_millis(10));
    assert!(
        !Arc::ptr_eq(kept.client(), rig.api().client()),
        "what nobody used is gone"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_renewed_before_it_ends() {
    let rig = Rig::with(|options| options.access_token_expiry = Duration::from_secs(1)).await;
    rig.api().filesystem("default").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    rig.array.control().take_requests().await.unwrap();
    rig.api().filesystem("default").await.unwrap().unwrap();
    let requests = rig.array.control().take_requests().await.unwrap();
    let paths: Vec<_> = requests
        .iter()
        .map(|request| request.path.as_str())
        .collect();
    assert!(
        paths.contains(&"login/refresh") && !paths.contains(&"login"),
        "{paths:?}"
    );
    assert!(requests.iter().all(|request| request.status != 401));
}
