//! The client of a node, started as the pod of a WekaContainer starts it: by its environment.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::testing::Running;
use serde_json::{Value, json};

use super::{Scene, eventually};

/// The port of its readiness is the kernel's choice, and known before it runs.
fn client(scene: &Scene, http: u16, join: &str) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["sim", "weka-client", "--data"])
        .arg(scene.path("data"))
        .args(["--control-port", &scene.control.port().to_string()])
        .args(["--http-endpoint", &format!("127.0.0.1:{http}")])
        .env("STOWAGE_SIM_WEKA_SOCKETS", scene.path("sockets"))
        .envs([("NAME", "c0ffeeclient"), ("NODE_NAME", "node-a")])
        .env("JOIN_IPS", join)
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

impl Scene {
    async fn set_stage(&self, stage: Value) {
        let url = format!("http://{}/frontends/c0ffeeclient", self.control);
        let answer = self.http.put(url).json(&stage).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    async fn until_ready(&self, http: u16, wanted: bool) {
        let url = format!("http://127.0.0.1:{http}/readyz");
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let answer = self.http.get(&url).send().await;
            if answer.is_ok_and(|it| it.status().is_success() == wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "never ready: {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(super) fn terminate(client: &Running) {
    let id = client.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
}

fn until_ended(client: &mut Running) {
    let ended = std::cell::RefCell::new(client);
    let status = eventually("end", || ended.borrow_mut().0.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_client_joins_by_its_environment_and_is_as_unwell_as_the_cluster_wants() {
    let mut scene = Scene::new();
    let (nobody, http) = (Scene::new().listen, Scene::new().listen.port());
    let join = format!("{nobody},{}", scene.listen);
    let mut client = client(&scene, http, &join);
    // It is there before its cluster.
    scene.until_ready(http, false).await;
    let _cluster = scene.cluster(&["--no-frontend"]);
    scene.until_ready(http, true).await;
    let token = scene.log_in().await;
    let containers = scene.call("GET", "containers", &token, None).await;
    let containers = containers.as_array().unwrap();
    let ours = containers
        .iter()
        .find(|it| it["container_name"] == "c0ffeeclient");
    let ours = ours.unwrap();
    assert_eq!(
        (&ours["hostname"], &ours["status"]),
        (&json!("node-a"), &json!("UP"))
    );

    scene
        .set_stage(json!({"connected": false, "module": true}))
        .await;
    scene.until_ready(http, false).await;
    let (_, output) = scene.mount("rw,container_name=c0ffeeclient");
    assert_eq!(output.status.code(), Some(32), "{output:?}");
    scene
        .set_stage(json!({"connected": true, "module": true, "stop": "when_unmounted"}))
        .await;
    scene.until_ready(http, true).await;

    // It does not go while something is mounted, and what is mounted works.
    let (mount, output) = scene.mount("rw,container_name=c0ffeeclient");
    assert!(output.status.success(), "{output:?}");
    terminate(&client);
    for number in 0..5 {
        std::thread::sleep(Duration::from_millis(200));
        std::fs::write(mount.join("file"), number.to_string()).unwrap();
    }
    assert!(client.0.try_wait().unwrap().is_none(), "it ended");
    let unmounted = Command::new("umount").arg(&mount).status().unwrap();
    assert!(unmounted.success());
    until_ended(&mut client);
}

#[tokio::test]
async fn a_client_may_be_slow_to_stop() {
    let scene = Scene::new();
    let http = Scene::new().listen.port();
    let _cluster = scene.cluster(&["--no-frontend"]);
    scene.log_in().await;
    let mut client = client(&scene, http, &scene.listen.to_string());
    scene.until_ready(http, true).await;
    // Not being ready says that the news has arrived.
    let slow = json!({"connected": false, "module": true, "stop": {"after": 1500}});
    scene.set_stage(slow).await;
    scene.until_ready(http, false).await;
    let told = Instant::now();
    terminate(&client);
    until_ended(&mut client);
    assert!(told.elapsed() >= Duration::from_millis(1500));
}
