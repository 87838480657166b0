//! Simulated arrays, an API server with their objects, and the driver.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::vpsa::{Vpsa, VpsaState, VpsaStatus, VscStorageClass};
use stowage_sim::vpsa::{Array, Options};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::asked::Asked;
use crate::control_plane::Measured;
use crate::process::Process;

const DEFINITIONS: &str = include_str!("../../../deploy/crds/storage.zadara.com.yaml");

/// Room for every volume on any of them.
const POOL: u64 = 100_000;

/// How long the arrays may take to get ready, or until they have been looked at: that is every 50 s.
const PATIENCE: Duration = Duration::from_secs(90);

/// Arrays that run in this process.
pub struct Arrays {
    list: Vec<Array>,
    _data: TempDir,
}

impl Arrays {
    pub async fn start(count: usize) -> anyhow::Result<Self> {
        let data = tempfile::Builder::new()
            .prefix("stowage-bench-")
            .tempdir()?;
        let mut list = Vec::with_capacity(count);
        for number in 0..count {
            let mut options = Options::new(data.path().join(number.to_string()));
            options.pool = vec![("pool".to_owned(), POOL)];
            list.push(Array::start(options).await?);
        }
        Ok(Self { list, _data: data })
    }

    /// Where each is, and its access key.
    pub fn urls(&self) -> Vec<(String, String)> {
        let all = self.list.iter();
        all.map(|it| (it.url(), it.access_key().to_owned()))
            .collect()
    }

    /// Every answer comes that much later from now on.
    pub async fn set_latency(&self, millis: u64) -> anyhow::Result<()> {
        for array in &self.list {
            array.control().turn(|knobs| knobs.latency = millis).await?;
        }
        Ok(())
    }

    /// What they were asked since they were started.
    pub async fn asked(&self) -> anyhow::Result<Asked> {
        let mut counters = Vec::with_capacity(self.list.len());
        for array in &self.list {
            counters.push(array.control().counters().await?);
        }
        Ok(Asked::of(counters))
    }

    /// How many volumes each has.
    pub async fn volumes(&self) -> anyhow::Result<Vec<usize>> {
        let mut volumes = Vec::with_capacity(self.list.len());
        for array in &self.list {
            volumes.push(array.control().status().await?.volumes.len());
        }
        Ok(volumes)
    }
}

/// Everything that is measured. What is first goes first.
pub struct Stage {
    pub driver: Process,
    measured: Measured,
    pub arrays: Arrays,
}

impl Deref for Stage {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.measured
    }
}

impl Stage {
    /// Starts API server and driver; returns when all arrays are ready.
    pub async fn set(stowage: &Path, arrays: Arrays) -> anyhow::Result<Self> {
        let measured = Measured::start(|plane| {
            plane.kubectl_with_input(&["apply", "-f", "-"], DEFINITIONS)?;
            Ok(plane.wait_for_definitions()?)
        })
        .await?;
        let class = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCStorageClass",
            "metadata": {"name": "gold"}, "spec": {"displayName": "gold", "isDefault": true}});
        create::<VscStorageClass>(&measured, class).await?;
        for (number, array) in arrays.list.iter().enumerate() {
            let spec = json!({"VSCStorageClassName": "gold", "displayName": "a", "hostname": array.hostname(),
                "token": array.access_key(), "tls": {"enabled": false}});
            let vpsa = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA",
                "metadata": {"name": format!("vpsa-{number}")}, "spec": spec});
            create::<Vpsa>(&measured, vpsa).await?;
        }
        let keys = measured.directory.path().join("keys");
        std::fs::create_dir(&keys)?;
        std::fs::write(keys.join("GLOBAL_ENCRYPTION_KEY"), "k".repeat(32))?;
        let arguments = arguments(&measured, &keys);
        let mut driver = Process::start(stowage, &arguments).await?;
        driver.wait_for_file(&socket(&measured)).await?;
        let stage = Self {
            driver,
            measured,
            arrays,
        };
        stage.until_ready().await?;
        Ok(stage)
    }

    /// The driver's socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.measured)
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        self.until(|all| all.iter().all(|it| it.state == VpsaState::Ready))
            .await
    }

    /// Waits until the control plane has looked at all arrays since there are so many volumes on them.
    pub async fn until_counted(&self, volumes: usize) -> anyhow::Result<()> {
        let volumes = i64::try_from(volumes)?;
        let counted = |it: &VpsaStatus| it.counters.as_ref().map_or(0, |it| it.volumes);
        self.until(|all| all.iter().map(counted).sum::<i64>() == volumes)
            .await
    }

    async fn until(&self, is_so: impl Fn(&[VpsaStatus]) -> bool) -> anyhow::Result<()> {
        let (all, started) = (Api::<Vpsa>::all(self.admin.clone()), Instant::now());
        loop {
            let found = all.list(&kube::api::ListParams::default()).await?;
            let found = found.into_iter().map(|it| it.status.unwrap_or_default());
            let found: Vec<VpsaStatus> = found.collect();
            if is_so(&found) {
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "arrays are {found:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn socket(measured: &Measured) -> PathBuf {
    measured.directory.path().join("csi.sock")
}

fn arguments(measured: &Measured, keys: &Path) -> Vec<String> {
    vec![
        "driver".to_owned(),
        "vpsa".to_owned(),
        "--mode=controller".to_owned(),
        "--nodeid=bench".to_owned(),
        format!("--endpoint={}", socket(measured).display()),
        format!("--kubeconfig={}", measured.kubeconfig.display()),
        format!("--keys={}", keys.display()),
        // As the bare client does.
        "--empty-recycle-bin".to_owned(),
        "--leader-election".to_owned(),
        "--leader-election-namespace=default".to_owned(),
    ]
}

async fn create<K>(measured: &Measured, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    let all = Api::<K>::all(measured.admin.clone());
    all.create(&PostParams::default(), &object).await?;
    Ok(())
}
