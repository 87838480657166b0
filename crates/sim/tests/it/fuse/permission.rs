//! Who may mount.

use std::time::Duration;

use serde_json::json;
use stowage_sim::weka::control::frontends::Stage;
use stowage_sim::weka::mount_helper::MountError;

use crate::fuse::rig::Rig;

async fn refused(rig: &mut Rig, source: &str, options: &str) -> String {
    match rig.try_mount(source, options).await {
        Err(MountError::Refused(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("mounted"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filesystem_that_asks_for_a_token_is_mounted_only_with_its_own() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let body = json!({
        "name": "guarded", "group_name": "default", "total_capacity": 1 << 20, "auth_required": true,
    });
    rig.call("POST", "fileSystems", Some(body)).await;
    let mut tokens = Vec::new();
    for name in ["guarded", "default"] {
        let path = format!("fileSystems/{}/mountToken", rig.uid(name).await);
        let token = rig.call("GET", &path, None).await;
        assert_eq!(token["filesystem_name"], name);
        tokens.push(token["mount_token"].as_str().unwrap().to_owned());
    }
    for options in [
        String::new(),
        "token=made-up".to_owned(),
        format!("token={}", tokens[1]),
    ] {
        let why = refused(&mut rig, "guarded", &options).await;
        assert!(why.contains("token"), "{why}");
        assert!(
            !why.contains("made-up") && !why.contains(&tokens[1]),
            "{why}"
        );
    }
    let mount = rig
        .try_mount("guarded", &format!("token={}", tokens[0]))
        .await
        .unwrap();
    std::fs::write(mount.join("file"), "x").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_filesystems_options_and_containers_are_refused_by_name() {
    let mut rig = Rig::start(&["a", "b"], |_| {}).await;
    let why = refused(&mut rig, "none", "container_name=a").await;
    assert!(why.contains("none"), "{why}");
    let why = refused(&mut rig, "default", "container_name=a,mountdirect").await;
    assert!(why.contains("mountdirect"), "{why}");
    let error = rig.try_mount("default", "").await.unwrap_err();
    assert!(matches!(error, MountError::SeveralClients(_)), "{error}");
    let error = rig
        .try_mount("default", "container_name=c")
        .await
        .unwrap_err();
    assert!(error.to_string().contains('c'), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontend_that_is_not_connected_says_so_and_mounts_nothing() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let interface = rig.directory.path().join("interface");
    let modules = rig.directory.path().join("modules");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let connected = format!(
        "Container=a FE 1: Connected frontend pid {}\n",
        std::process::id()
    );
    assert_eq!(read(&interface), connected);
    assert!(read(&modules).starts_with("wekafsgw "));
    let off = Stage {
        connected: false,
        module: false,
        ..Stage::default()
    };
    rig.array.control().set_stage("a", off).await.unwrap();
    while read(&interface) != "Container=a FE 1: Frontend is not connected\n" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(read(&modules), "");
    refused(&mut rig, "default", "").await;
    let containers = rig.call("GET", "containers", None).await;
    let client = containers
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["container_name"] == "a");
    assert_eq!(client.unwrap()["status"], "DOWN");
    rig.array
        .control()
        .set_stage("a", Stage::default())
        .await
        .unwrap();
    rig.mount("default", "a").await;
}
