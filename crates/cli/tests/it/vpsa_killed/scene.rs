//! An API server, an array, and a driver that is started again and again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::testing::Running;
use serde_json::{Value, json};
use stowage_sim::vpsa::{Array, Options};
use stowage_testing::Lent;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::vpsa_killed::steps::{Asked, Step, Wanted, object};

/// How long anything may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Scene {
    pub driver: Option<Running>,
    pub server: Lent,
    pub array: Array,
    directory: TempDir,
    /// Whether what is on the array already is imported.
    pub import: bool,
}

impl Scene {
    pub async fn set() -> Self {
        stowage_service::client::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let array = Array::start(Options::new(directory.path().join("array"))).await;
        let (array, server) = (
            array.unwrap(),
            stowage_testing::api_server_with(&["storage.zadara.com.yaml"]),
        );
        let scene = Self {
            driver: None,
            server,
            array,
            directory,
            import: false,
        };
        let keys = scene.directory.path().join("keys");
        std::fs::create_dir(&keys).unwrap();
        std::fs::write(keys.join("GLOBAL_ENCRYPTION_KEY"), "k".repeat(32)).unwrap();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        scene.apply(&node.to_string());
        let spec = json!({"VSCStorageClassName": "gold", "displayName": "one", "hostname": scene.array.hostname(),
            "token": scene.array.access_key(), "tls": {"enabled": false}});
        for asked in [
            object("VSCStorageClass", "gold", &json!({"displayName": "gold"})),
            object("VPSA", "one", &spec),
            object(
                "VSCNode",
                "n",
                &json!({"displayName": "n", "NAS": {"IP": "10.0.0.1"}, "block": {"IQN": "iqn.2026-01.test:n"}}),
            ),
        ] {
            scene.ask(&asked);
        }
        scene
    }

    /// For files of this test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn apply(&self, manifest: &str) {
        let apply = ["apply", "-f", "-"];
        self.server.kubectl_with_input(&apply, manifest).unwrap();
    }

    pub fn ask(&self, asked: &Asked) {
        match asked {
            Asked::Object(object) => self.apply(&object.to_string()),
            Asked::Words(words) => {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                self.server.kubectl(&words).unwrap();
            }
        }
    }

    /// Starts the driver. It sees the API server as this file says.
    pub fn start_driver(&mut self, kubeconfig: &Path) {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
        command
            .args(["driver", "vpsa", "--mode=controller", "--nodeid=n"])
            .arg(format!("--endpoint={}", path("csi.sock")))
            .arg(format!("--keys={}", path("keys")))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--monitor-interval=1s")
            .arg(format!("--import-existing={}", self.import))
            // What is left is counted.
            .arg("--empty-recycle-bin")
            // For so long it is waited for a growth that was written down and perhaps never asked for.
            .arg("--request-timeout=10s")
            .stderr(Stdio::null());
        self.driver = Some(Running(command.spawn().unwrap()));
    }

    pub async fn until(&self, wanted: Wanted) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(found) = self.look(wanted) {
            let (kind, name, _) = wanted;
            assert!(Instant::now() < deadline, "{kind} {name}: {found:#}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether an object is as it should be; else how it is.
    pub fn look(&self, (kind, name, holds): Wanted) -> Result<(), Value> {
        let kind = format!("{kind}.storage.zadara.com");
        let words = ["get", &kind, name, "-o", "json", "--ignore-not-found"];
        let text = self.server.kubectl(&words).unwrap();
        let found = serde_json::from_str(&text).unwrap_or(Value::Null);
        if holds(&found) { Ok(()) } else { Err(found) }
    }

    /// Somebody makes a volume on the array.
    pub async fn make_by_hand(&self, name: &str) {
        let new = json!({"name": name, "capacity": "1G", "pool": "pool-00010001", "block": "NO"});
        let made = reqwest::Client::new()
            .post(format!("{}/volumes.json", self.array.url()))
            .header("X-Access-Key", self.array.access_key())
            .json(&new);
        let answer: Value = made.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["response"]["status"], 0, "{answer}");
    }

    /// Waits until the array has done what it was asked to, and tells nobody.
    pub async fn until_done(&self, step: &Step) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.array.control().objects().await.unwrap();
            if (step.is_done)(&state) {
                return;
            }
            assert!(Instant::now() < deadline, "{:?} is not done", step.request);
            sleep(Duration::from_millis(10)).await;
        }
    }
}
