//! Field by field, as clients of the array know them.

use serde_json::{Value, json};

use crate::rest::client::{Client, Rig};

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn a_login_and_what_follows_it() {
    let rig = Rig::release("4.4.7").await;
    let body = json!({ "username": "admin", "password": "admin", "org": "Root" });
    let login = Client::anonymous(&rig.array.url())
        .post("login", body)
        .await;
    assert_eq!(keys(&login.body), ["data", "message", "next_token"]);
    assert_eq!(
        keys(login.data()),
        ["access_token", "expires_in", "refresh_token", "token_type"]
    );
    assert_eq!(login.data()["expires_in"], 300);

    let client = rig.admin().await;
    let who = client.get("users/whoami").await;
    assert_eq!(who.data()["role"], "ClusterAdmin");
    assert_eq!(who.data()["org_id"], 0);
    assert_eq!(who.data()["org_name"], "Root");
    let expiry = client.get("security/defaultTokensExpiry").await;
    assert_eq!(
        expiry.data(),
        &json!({ "access_token_expiry": 300, "refresh_token_expiry": 31_536_000 })
    );
    let cluster = client.get("cluster").await;
    assert_eq!(cluster.data()["release"], "4.4.7");
    assert_eq!(
        cluster.data()["capacity"],
        json!({
            "total_bytes": 1_u64 << 40,
            "hot_spare_bytes": 0,
            "unprovisioned_bytes": (1_u64 << 40) - (100_u64 << 30),
        })
    );
}

#[tokio::test]
async fn a_filesystem() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let reply = client
        .get(&format!("fileSystems/{uid}?force_fresh=true"))
        .await;
    assert_eq!(
        reply.data(),
        &json!({
            "id": "FSId: 0",
            "uid": uid,
            "name": "default",
            "group_id": "FSGroupId: 0",
            "group_name": "default",
            "status": "READY",
            "is_creating": false,
            "is_ready": true,
            "is_removing": false,
            "is_encrypted": false,
            "auth_required": false,
            "total_budget": 107_374_182_400_u64,
            "used_total": 0,
            "free_total": 107_374_182_400_u64,
            "available_total": 107_374_182_400_u64,
            "ssd_budget": 107_374_182_400_u64,
            "available_ssd": 107_374_182_400_u64,
            "free_ssd": 107_374_182_400_u64,
            "is_thinly_provisioned": false,
            "thin_provisioning_min_ssd": null,
            "thin_provisioning_max_ssd": null,
            "kms_key_identifier": null,
            "kms_namespace": null,
            "kms_role": null,
            "obs_buckets": [],
            "object_storages": [],
        })
    );
}

#[tokio::test]
async fn a_filesystem_from_creation_to_removal() {
    let rig = Rig::slow().await;
    let client = rig.admin().await;
    let made = client.create_filesystem("new").await;
    assert_eq!(made.data()["is_creating"], true);
    assert_eq!(client.create_filesystem("new").await.status, 409);
    let path = format!("fileSystems/{}", made.data()["uid"].as_str().unwrap());
    let settled = |ready: bool| {
        let (client, path) = (client.clone(), path.clone());
        async move {
            loop {
                let reply = client.get(&path).await;
                if (reply.status == 200 && reply.data()["is_ready"] == true) == ready
                    && reply.body["data"]["is_removing"] != true
                {
                    return reply;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    };
    settled(true).await;
    let resized = client
        .put(&path, json!({ "total_capacity": 2_u64 << 30 }))
        .await;
    assert_eq!(resized.data()["total_budget"], 2_u64 << 30);
    assert_eq!(client.delete(&path).await.status, 200);
    let gone = settled(false).await;
    assert_eq!(gone.status, 404);
    assert_eq!(
        gone.body["data"]["exceptionClass"],
        "FilesystemDoesNotExistException"
    );
}

#[tokio::test]
async fn a_quota() {
    let rig = Rig::slow().await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let root = rig.data.path().join("filesystems").join(&uid).join("root");
    std::fs::create_dir_all(root.join("csi-volumes/pvc")).unwrap();

    let resolved = client
        .get(&format!(
            "fileSystems/{uid}/resolvePath?path=/csi-volumes/pvc"
        ))
        .await;
    let inode: u64 = resolved.data()["inode_id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let path = format!("fileSystems/{uid}/quota/{inode}");
    assert_eq!(client.get(&path).await.status, 404);
    let body = json!({ "hard_limit_bytes": 4096, "soft_limit_bytes": 4096, "grace_seconds": 0 });
    let set = client.put(&path, body.clone()).await;
    assert_eq!(set.data()["status"], "ADDING");
    let quota = loop {
        let reply = client.get(&path).await;
        if reply.data()["status"] == "ACTIVE" {
            break reply;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let expected = json!({
        "quota_id": quota.data()["quota_id"],
        "inode_id": inode,
        "snap_view_id": 0,
        "total_bytes": 0,
        "used_bytes": 0,
        "hard_limit_bytes": 4096,
        "soft_limit_bytes": 4096,
        "grace_seconds": 0,
        "status": "ACTIVE",
    });
    assert_eq!(quota.data(), &expected);
    let listed = client.get(&format!("fileSystems/{uid}/quota")).await;
    let listed = &listed.data()[0];
    assert_eq!(listed["path"], "/csi-volumes/pvc");
    assert_eq!(listed["full_path"], "default:/csi-volumes/pvc");
    assert_eq!(listed["fsName"], "default");

    std::fs::write(root.join("csi-volumes/file"), "x").unwrap();
    let parent = client
        .get(&format!("fileSystems/{uid}/resolvePath?path=/csi-volumes"))
        .await;
    let path = format!(
        "fileSystems/{uid}/quota/{}",
        parent.data()["inode_id"].as_str().unwrap()
    );
    let refused = client.put(&path, body.clone()).await;
    assert_eq!(refused.status, 400);
    assert!(refused.message().contains("not empty"), "{}", refused.body);
    rig.array.control().add_data_services().await.unwrap();
    assert_eq!(client.put(&path, body).await.data()["used_bytes"], 4096);
}

#[tokio::test]
async fn a_path_that_is_not_there() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let root = rig.data.path().join("filesystems").join(&uid).join("root");
    std::os::unix::fs::symlink("/", root.join("way-out")).unwrap();
    for path in ["/none", "/way-out/etc", "/../..", "/none/../way-out"] {
        let reply = client
            .get(&format!("fileSystems/{uid}/resolvePath?path={path}"))
            .await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.message().contains("PATH_NOT_FOUND"), "{}", reply.body);
    }
}

#[tokio::test]
async fn snapshots() {
    let rig = Rig::slow().await;
    let client = rig.admin().await;
    let uid = client.default_uid().await;
    let places = rig.data.path().join("filesystems").join(&uid);
    std::fs::write(places.join("root/file"), "before").unwrap();
    let body = json!({ "fs_uid": uid, "name": "one", "access_point": "point" });
    let made = client.post("snapshots", body.clone()).await;
    let snapshot = made.data();
    assert_eq!(
        keys(snapshot),
        [
            "accessPoint",
            "creationTime",
            "filesystem",
            "filesystemId",
            "filesystemUid",
            "id",
            "isRemoving",
            "isWritable",
            "locator",
            "name",
            "progress",
            "stowStatus",
            "type",
            "uid"
        ]
    );
    assert!(snapshot["creationTime"].as_str().unwrap().ends_with('Z'));
    std::fs::write(places.join("root/file"), "after").unwrap();
    let kept = std::fs::read_to_string(places.join("snapshots/point/file")).unwrap();
    assert_eq!(kept, "before");
    assert_eq!(client.post("snapshots", body).await.status, 409);

    let body = json!({
        "fs_uid": uid, "name": "two", "access_point": "copy",
        "source_snap_uid": snapshot["uid"], "is_writable": true,
    });
    assert_eq!(
        client.post("snapshots", body).await.data()["isWritable"],
        true
    );
    let kept = std::fs::read_to_string(places.join("snapshots/copy/file")).unwrap();
    assert_eq!(kept, "before");
    assert_eq!(
        client.get("snapshots?access_point=copy").await.names(),
        ["two"]
    );
    assert_eq!(
        client
            .get("snapshots?name=one&filesystem=default")
            .await
            .names(),
        ["one"]
    );

    let path = format!("snapshots/{}", snapshot["uid"].as_str().unwrap());
    assert_eq!(client.delete(&path).await.status, 200);
    assert_eq!(client.get(&path).await.data()["isRemoving"], true);
    while client.get(&path).await.status != 404 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    while places.join("snapshots/point").exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nfs_groups_and_permissions() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    let made = client
        .post("nfs/clientGroups", json!({ "name": "clients" }))
        .await;
    let path = format!("nfs/clientGroups/{}", made.data()["uid"].as_str().unwrap());
    let rule = json!({ "ip": "10.0.0.1/255.255.255.255" });
    let added = client.post(&format!("{path}/rules"), rule).await;
    assert_eq!(added.data()["type"], "IP");
    let wrong = client
        .post(&format!("{path}/rules"), json!({ "ip": "ten" }))
        .await;
    assert_eq!(wrong.status, 400);
    let group = client.get(&path).await;
    assert_eq!(group.data()["rules"][0]["rule"], "10.0.0.1/255.255.255.255");

    let permission = |group: &str| {
        json!({
            "filesystem": "default", "group": group, "path": "/", "permission_type": "RW",
            "squash_mode": "none", "anon_uid": "65534", "anon_gid": 65534,
            "supported_versions": ["V3", "V4"], "priority": 0,
        })
    };
    assert_eq!(
        client
            .post("nfs/permissions", permission("none"))
            .await
            .status,
        404
    );
    let granted = client.post("nfs/permissions", permission("clients")).await;
    assert_eq!(granted.data()["anon_gid"], "65534");
    let path = format!(
        "nfs/permissions/{}",
        granted.data()["uid"].as_str().unwrap()
    );
    assert_eq!(client.delete(&path).await.status, 200);
    assert_eq!(client.delete(&path).await.status, 404);
}

#[tokio::test]
async fn lists_come_in_pages_that_lose_and_repeat_nothing() {
    let rig = Rig::start(|options| options.page_size = 2).await;
    let client = rig.admin().await;
    for name in ["a", "b", "c", "d"] {
        client.create_filesystem(name).await.data();
    }
    let mut seen = Vec::new();
    let mut path = "fileSystems".to_owned();
    let mut pages = 0;
    loop {
        let reply = client.get(&path).await;
        seen.extend(reply.names().iter().map(ToString::to_string));
        pages += 1;
        match reply.body["next_token"].as_str().unwrap() {
            "" => break,
            token => path = format!("fileSystems?next_token={token}"),
        }
    }
    seen.sort();
    assert_eq!(seen, ["a", "b", "c", "d", "default"]);
    assert_eq!(pages, 3);
    assert_eq!(client.get("fileSystems?next_token=xyz").await.status, 400);
}
