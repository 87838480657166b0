//! What versions lack, what roles may not, what organizations do not see.

use std::time::{Duration, Instant};

use serde_json::json;
use stowage_sim::weka::state::access::Role;
use stowage_sim::weka::{Array, Options};

use crate::rest::client::{Client, Rig};

#[tokio::test]
async fn each_version_lacks_what_came_later() {
    // For each path, the last version without it and the first with it.
    let table = [
        ("fileSystems/UID/quota", "3.12", "3.13"),
        ("fileSystems/UID/mountToken", "3.13", "3.14"),
        ("processes", "4.1", "4.2"),
        ("fileSystems/UID/resolvePath?path=/", "4.2", "4.3"),
    ];
    let rig = Rig::release("3.8").await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    for (path, without, with) in table {
        for (release, expected) in [(without, 404), (with, 200)] {
            rig.array.control().upgrade(release).await.unwrap();
            let reply = client.get(&path.replace("UID", &uid)).await;
            assert_eq!(
                reply.status, expected,
                "{path} in {release}: {}",
                reply.body
            );
        }
    }
    assert_eq!(client.get("nodes").await.status, 200);
    assert_eq!(client.get("nothing").await.status, 404);
    assert_eq!(client.delete("nodes").await.message(), "Method Not Allowed");
}

#[tokio::test]
async fn filters_are_ignored_before_4_0() {
    let rig = Rig::release("3.14").await;
    let client = rig.admin().await;
    client.create_filesystem("other").await.data();
    assert_eq!(client.get("fileSystems?name=other").await.names().len(), 2);
    rig.array.control().upgrade("4.0").await.unwrap();
    assert_eq!(
        client.get("fileSystems?name=other").await.names(),
        ["other"]
    );
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_told() {
    let rig = Rig::start(|_| {}).await;
    let control = rig.array.control();
    let mut client = Client::anonymous(&rig.array.url());
    assert_eq!(client.get("fileSystems").await.status, 401);
    client.token = "made-up".to_owned();
    assert_eq!(client.get("fileSystems").await.status, 401);

    let client = rig.admin().await;
    control.revoke_tokens(false).await.unwrap();
    assert_eq!(client.get("fileSystems").await.status, 401);
    let refreshed = client
        .post(
            "login/refresh",
            json!({ "refresh_token": client.refresh_token }),
        )
        .await;
    assert!(refreshed.data()["access_token"].is_string());
    control.revoke_tokens(true).await.unwrap();
    let refused = client
        .post(
            "login/refresh",
            json!({ "refresh_token": client.refresh_token }),
        )
        .await;
    assert_eq!(refused.status, 401);

    control
        .turn(|knobs| knobs.access_token_expiry = 50)
        .await
        .unwrap();
    let client = rig.admin().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.get("cluster").await.status != 401 {
        assert!(Instant::now() < deadline, "the token does not expire");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_wrong_login_is_401_and_a_wrong_body_400() {
    let rig = Rig::start(|_| {}).await;
    let client = Client::anonymous(&rig.array.url());
    for (body, status) in [
        (
            json!({ "username": "admin", "password": "no", "org": "Root" }),
            401,
        ),
        (
            json!({ "username": "admin", "password": "admin", "org": "None" }),
            401,
        ),
        (json!({ "username": "admin" }), 400),
    ] {
        assert_eq!(
            client.post("login", body.clone()).await.status,
            status,
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_role_without_the_right_is_told_which() {
    let rig = Rig::release("4.4.6").await;
    let control = rig.array.control();
    for role in [Role::Regular, Role::ReadOnly, Role::S3, Role::CSI] {
        control
            .add_user(0, &format!("{role:?}"), "pw", role)
            .await
            .unwrap();
    }
    let uid = rig.admin().await.default_uid().await;
    let table = [
        ("Regular", format!("fileSystems/{uid}/mountToken"), None),
        (
            "Regular",
            "fileSystems".to_owned(),
            Some("read the configuration"),
        ),
        ("ReadOnly", "fileSystems".to_owned(), None),
        (
            "ReadOnly",
            format!("fileSystems/{uid}/mountToken"),
            Some("get a mount token"),
        ),
        (
            "S3",
            "fileSystems".to_owned(),
            Some("read the configuration"),
        ),
        ("S3", "users/whoami".to_owned(), None),
        (
            "CSI",
            format!("fileSystems/{uid}/resolvePath?path=/"),
            Some("resolve paths"),
        ),
    ];
    for (user, path, missing) in table {
        let reply = rig.user(user, "pw", "Root").await.get(&path).await;
        match missing {
            None => assert_eq!(reply.status, 200, "{user} {path}: {}", reply.body),
            Some(right) => {
                assert_eq!(reply.status, 403, "{user} {path}: {}", reply.body);
                assert!(reply.message().contains(right), "{}", reply.body);
            }
        }
    }
    let made = rig
        .user("CSI", "pw", "Root")
        .await
        .create_filesystem("csi")
        .await;
    assert_eq!(made.status, 200);
    let refused = rig
        .user("ReadOnly", "pw", "Root")
        .await
        .create_filesystem("ro")
        .await;
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn organizations_do_not_see_each_other() {
    let rig = Rig::start(|_| {}).await;
    let control = rig.array.control();
    control.add_organization(1, "tenant").await.unwrap();
    control
        .add_user(1, "tina", "pw", Role::OrgAdmin)
        .await
        .unwrap();
    let (admin, tina) = (rig.admin().await, rig.user("tina", "pw", "tenant").await);
    let theirs = tina.create_filesystem("default").await;
    let theirs = theirs.data()["uid"].as_str().unwrap().to_owned();
    assert_eq!(tina.get("fileSystems").await.names(), ["default"]);
    let ours = admin.default_uid().await;
    assert_ne!(ours, theirs);
    assert_eq!(tina.get(&format!("fileSystems/{ours}")).await.status, 404);
    assert_eq!(
        admin.delete(&format!("fileSystems/{theirs}")).await.status,
        404
    );
    assert_eq!(
        admin
            .get(&format!("fileSystems/{theirs}/mountToken"))
            .await
            .status,
        404
    );
    control.upgrade("3.13").await.unwrap();
    let body = json!({ "username": "tina", "password": "pw", "org": "tenant" });
    assert_eq!(tina.post("login", body).await.status, 401);
}

#[tokio::test]
async fn a_field_that_the_version_does_not_know_is_named() {
    let rig = Rig::release("5.0").await;
    let client = rig.admin().await;
    let body = json!({
        "name": "new", "group_name": "default", "total_capacity": 1 << 30, "has_permissions": true,
    });
    let refused = client.post("fileSystems", body).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.message().contains("has_permissions"),
        "{}",
        refused.body
    );
    let refused = client.post("fileSystems", json!({ "nome": "x" })).await;
    assert!(refused.message().contains("nome"), "{}", refused.body);
}

#[tokio::test]
async fn only_known_releases_are_simulated_and_odd_ones_are_asked_for() {
    let rig = Rig::release("4.4.7").await;
    let control = rig.array.control();
    for (release, sentence) in [
        (
            "9.9",
            "Weka 9.9 cannot be simulated: use a release from 3.8 to 5.1",
        ),
        ("3.7", "Weka 3.7 cannot be simulated"),
        ("new", "`new` is not a Weka release"),
    ] {
        let refused = control.upgrade(release).await.unwrap_err().to_string();
        assert!(refused.contains(sentence), "{refused}");
    }
    let admin = rig.admin().await;
    assert_eq!(admin.get("cluster").await.data()["release"], "4.4.7");
    let odd = "99.1-nightly";
    let turned = control.turn(|knobs| knobs.odd_release = Some(odd.to_owned()));
    turned.await.unwrap();
    assert_eq!(admin.get("cluster").await.data()["release"], odd);
    assert_eq!(control.status().await.unwrap().release.to_string(), "4.4.7");
}

#[tokio::test]
async fn from_4_3_on_it_serves_https_only() {
    let start = |release: &str, tls: bool| {
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(data.path());
        (options.release, options.tls) = (Some(release.parse().unwrap()), tls);
        options.plain_http = false;
        async move { (Array::start(options).await, data) }
    };
    for (release, tls) in [("4.3.1", false), ("5.1.0", false), ("4.2.9", true)] {
        let (secure, _data) = start(release, tls).await;
        let secure = secure.unwrap();
        assert_eq!(secure.scheme(), "https", "{release}");
        secure.control().upgrade("5.1").await.unwrap();
    }
    let (old, _data) = start("4.2.9", false).await;
    let old = old.unwrap();
    assert_eq!(old.scheme(), "http");
    let refused = old.control().upgrade("4.3").await.unwrap_err().to_string();
    assert!(refused.contains("serves HTTPS only"), "{refused}");
    old.control().upgrade("4.2.10").await.unwrap();
}

#[tokio::test]
async fn a_change_of_a_filesystem_that_changes_nothing_is_refused() {
    let rig = Rig::release("4.4.7").await;
    let admin = rig.admin().await;
    let uid = admin.default_uid().await;
    for body in [
        json!({}),
        json!({ "thin_provision_min_ssd": 1, "thin_provision_max_ssd": 2 }),
    ] {
        let reply = admin.put(&format!("fileSystems/{uid}"), body).await;
        assert_eq!(reply.status, 400, "{}", reply.body);
    }
}
