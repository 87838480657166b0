//! A Weka cluster and its frontends.

mod client;
mod migrate;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use devcluster::testing::Running;
use serde_json::{Value, json};
use tempfile::TempDir;

fn start(arguments: &[&str], sockets: &Path) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(arguments)
        .env("STOWAGE_SIM_WEKA_SOCKETS", sockets)
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

struct Scene {
    directory: TempDir,
    listen: SocketAddr,
    control: SocketAddr,
    http: reqwest::Client,
    scheme: &'static str,
    mounted: Vec<PathBuf>,
}

impl Scene {
    fn new() -> Self {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        Self {
            directory: tempfile::tempdir().unwrap(),
            listen: free(),
            control: free(),
            http: reqwest::Client::new(),
            scheme: "http",
            mounted: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn cluster(&self, more: &[&str]) -> Running {
        let (data, listen) = (self.path("data"), self.listen.to_string());
        let control = self.control.to_string();
        let mut arguments = vec!["sim", "weka", "--data", data.to_str().unwrap()];
        arguments.extend(["--listen", &listen, "--control", &control, "--plain-http"]);
        arguments.extend(more);
        start(&arguments, &self.path("sockets"))
    }

    fn start_frontend(&self, container: &str) -> Running {
        let data = self.path("data");
        let array = format!("http://{}", self.control);
        let mut arguments = vec!["sim", "weka-frontend", "--data", data.to_str().unwrap()];
        arguments.extend(["--array", &array, "--container", container]);
        start(&arguments, &self.path("sockets"))
    }

    fn frontend(&self, container: &str) -> Running {
        let frontend = self.start_frontend(container);
        let socket = self.path("sockets").join(format!("{container}.sock"));
        eventually("a socket", || socket.exists().then_some(()));
        frontend
    }

    /// The data of a call, once the cluster answers.
    async fn call(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> Value {
        let url = format!("{}://{}/api/v2/{path}", self.scheme, self.listen);
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let mut request = self.http.request(method.parse().unwrap(), &url);
            if let Some(body) = &body {
                request = request.json(body);
            }
            match request.bearer_auth(token).send().await {
                Ok(response) => {
                    let mut answer: Value = response.json().await.unwrap();
                    assert_eq!(answer["message"], "", "{path}: {answer}");
                    return answer["data"].take();
                }
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn log_in(&self) -> String {
        let body = json!({ "username": "admin", "password": "admin" });
        let login = self.call("POST", "login", "", Some(body)).await;
        login["access_token"].as_str().unwrap().to_owned()
    }

    /// Mounts as mount(8) does: the program is called by the helper's name.
    fn mount(&mut self, options: &str) -> (PathBuf, Output) {
        let helper = self.path("mount.wekafs");
        if !helper.exists() {
            symlink(env!("CARGO_BIN_EXE_stowage"), &helper).unwrap();
        }
        let target = self.path(&format!("mnt-{}", self.mounted.len()));
        std::fs::create_dir_all(&target).unwrap();
        self.mounted.push(target.clone());
        let output = Command::new(helper)
            .arg("default")
            .arg(&target)
            .args(["-o", options])
            .env("STOWAGE_SIM_WEKA_SOCKETS", self.path("sockets"))
            .output();
        (target, output.unwrap())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for target in &self.mounted {
            let _ = Command::new("umount")
                .args(["--lazy", "--quiet"])
                .arg(target)
                .stderr(Stdio::null())
                .status();
        }
    }
}

fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} in 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn what_a_cluster_answered_for_outlives_its_death() {
    let scene = Scene::new();
    let cluster = scene.cluster(&["--no-frontend", "--release", "4.2"]);
    let token = scene.log_in().await;
    for number in 0..20 {
        let name = format!("fs-{number}");
        let body = json!({ "name": name, "group_name": "default", "total_capacity": 1 << 20 });
        scene.call("POST", "fileSystems", &token, Some(body)).await;
    }
    drop(cluster);
    let _cluster = scene.cluster(&["--no-frontend"]);
    let filesystems = scene.call("GET", "fileSystems", &token, None).await;
    assert_eq!(filesystems.as_array().unwrap().len(), 21);
    let cluster = scene.call("GET", "cluster", &token, None).await;
    assert_eq!(cluster["release"], "4.2");
}

#[test]
fn a_cluster_that_does_not_exist_is_not_played() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_stowage"))
        .args(["sim", "weka", "--data", data, "--no-frontend"])
        .args(["--listen=127.0.0.1:0", "--control=127.0.0.1:0"])
        .args(["--release", "9.9"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let sentence = "Weka 9.9 cannot be simulated: use a release from 3.8 to 5.1";
    assert!(text.contains(sentence), "{text}");
}

#[tokio::test]
async fn without_further_flags_it_speaks_as_its_version_does() {
    let mut scene = Scene::new();
    let (data, listen) = (scene.path("data"), scene.listen.to_string());
    let control = scene.control.to_string();
    let mut arguments = vec!["sim", "weka", "--data", data.to_str().unwrap()];
    arguments.extend(["--listen", &listen, "--control", &control]);
    let _cluster = start(&arguments, &scene.path("sockets"));
    let certificate = eventually("a certificate", || std::fs::read(data.join("ca.pem")).ok());
    let certificate = reqwest::Certificate::from_pem(&certificate).unwrap();
    scene.http = reqwest::Client::builder()
        .tls_certs_only([certificate])
        .build()
        .unwrap();
    scene.scheme = "https";
    let token = scene.log_in().await;
    let cluster = scene.call("GET", "cluster", &token, None).await;
    assert_eq!(cluster["release"], "5.1.0");
}

#[tokio::test]
async fn a_client_that_is_up_before_its_cluster_waits_for_it() {
    let scene = Scene::new();
    let mut client = scene.start_frontend("early");
    std::thread::sleep(Duration::from_millis(600));
    assert!(client.0.try_wait().unwrap().is_none(), "it ended");
    let _cluster = scene.cluster(&["--no-frontend"]);
    let socket = scene.path("sockets/early.sock");
    eventually("a socket", || socket.exists().then_some(()));
}

#[tokio::test]
async fn files_are_served_while_the_cluster_is_dead_and_by_each_node_alone() {
    let mut scene = Scene::new();
    let cluster = scene.cluster(&["--no-frontend"]);
    scene.log_in().await;
    let (node_a, _node_b) = (scene.frontend("node-a"), scene.frontend("node-b"));
    let (mount_a, output) = scene.mount("rw,container_name=node-a");
    assert!(output.status.success(), "{output:?}");
    let (mount_b, output) = scene.mount("rw,container_name=node-b");
    assert!(output.status.success(), "{output:?}");
    drop(cluster);
    std::fs::write(mount_a.join("file"), "from a").unwrap();
    assert_eq!(
        std::fs::read_to_string(mount_b.join("file")).unwrap(),
        "from a"
    );
    drop(node_a);
    let error = std::fs::read(mount_a.join("file")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    assert_eq!(
        std::fs::read_to_string(mount_b.join("file")).unwrap(),
        "from a"
    );
}

#[tokio::test]
async fn a_refused_mount_is_told_as_mount_expects_it_and_keeps_the_token() {
    let mut scene = Scene::new();
    let _cluster = scene.cluster(&[]);
    scene.log_in().await;
    let socket = scene.path("sockets/client.sock");
    eventually("a socket", || socket.exists().then_some(()));
    let (_, output) = scene.mount("rw,token=very-secret");
    assert_eq!(output.status.code(), Some(32));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("token") && !text.contains("very-secret"),
        "{text}"
    );
    let (_, output) = scene.mount("");
    assert!(output.status.success(), "{output:?}");
}
