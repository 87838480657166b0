//! Where it all happens: a control plane of this run, a driver that answers at once, and the sidecar.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use stowage_api::CrdGroup;
use stowage_memory_driver::DriverProcess;

use super::{Args, bare, objects, snapshot_objects};
use crate::control_plane::{Measured, connect};
use crate::process::{Process, free_port};

/// The driver's name, and that of its class.
pub const DRIVER: &str = "memory.csi.test";
/// How many attachments at a time; the sidecar's default.
pub const ATTACHING: usize = 10;

/// How many expansions at a time; the sidecar's default.
pub const GROWING: usize = 10;
/// How many snapshots at a time; the default of the sidecar and of the snapshot controller.
pub const SNAPSHOTTING: usize = 10;

const NODES: usize = 8;

/// Everything that the measurements share.
pub struct Stage {
    measured: Measured,
    /// How many claims are worked on at a time.
    pub workers: usize,
    pub rest: Duration,
    stowage: PathBuf,
    driver: DriverProcess,
}

impl Deref for Stage {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.measured
    }
}

/// A sidecar that runs.
pub struct Sidecar {
    pub process: Process,
    pub liveness_port: u16,
}

impl Stage {
    /// Starts control plane and driver.
    pub async fn set(stowage: &Path, driver: Option<&Path>, args: &Args) -> anyhow::Result<Self> {
        let measured = Measured::start(|plane| {
            for node in nodes() {
                plane.add_node(&node, DRIVER, &[("zone", "a")])?;
            }
            Ok(())
        });
        let measured = measured.await?;
        let driver = start_driver(driver, &measured.directory.path().join("driver"))?;
        let stage = Self {
            measured,
            workers: args.workers,
            rest: Duration::from_secs(args.rest),
            stowage: stowage.to_owned(),
            driver,
        };
        let classes = Api::all(stage.admin.clone());
        classes
            .create(&PostParams::default(), &objects::class())
            .await?;
        stage.add_segments(args.nodes.unwrap_or_default()).await?;
        Ok(stage)
    }

    /// More nodes with the driver, each in a zone of its own.
    async fn add_segments(&self, count: usize) -> anyhow::Result<()> {
        let (nodes, csi_nodes) = (0..count)
            .map(objects::node)
            .unzip::<_, _, Vec<_>, Vec<_>>();
        bare::create(&Api::all(self.admin.clone()), &nodes, self.workers).await?;
        bare::create(&Api::all(self.admin.clone()), &csi_nodes, self.workers).await?;
        Ok(())
    }

    /// Where the driver listens.
    pub fn csi_address(&self) -> String {
        self.driver.endpoint().to_string()
    }

    /// Starts `stowage sidecar controller`.
    pub async fn controller(&self) -> anyhow::Result<Sidecar> {
        let arguments = [
            "controller".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-election-namespace=default".to_owned(),
            format!("--provisioner-worker-threads={}", self.workers),
            format!("--attacher-worker-threads={ATTACHING}"),
            format!("--resizer-worker-threads={GROWING}"),
            format!("--snapshotter-worker-threads={SNAPSHOTTING}"),
        ];
        self.sidecar(&arguments).await
    }

    /// Starts `stowage snapshot-controller`.
    pub async fn snapshot_controller(&self) -> anyhow::Result<Process> {
        let arguments = [
            "snapshot-controller".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-election-namespace=default".to_owned(),
            format!("--worker-threads={SNAPSHOTTING}"),
        ];
        Process::start(&self.stowage, &arguments).await
    }

    /// Gives the cluster the kinds of snapshots, and a class.
    pub async fn install_snapshots(&self) -> anyhow::Result<()> {
        let definitions = Api::<CustomResourceDefinition>::all(self.admin.clone());
        for definition in CrdGroup::Snapshots.crds() {
            let params = PostParams::default();
            definitions.create(&params, &definition).await?;
            let name = definition.name_any();
            let ready = await_condition(definitions.clone(), &name, is_crd_established());
            tokio::time::timeout(Duration::from_secs(30), ready).await??;
        }
        let classes = Api::all(self.admin.clone());
        let class = snapshot_objects::class();
        classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    /// Starts `stowage sidecar node`, and returns its socket for the kubelet too.
    pub async fn node(&self) -> anyhow::Result<(Sidecar, PathBuf)> {
        let registration = self.directory.path().join("registration");
        std::fs::create_dir_all(&registration)?;
        let arguments = [
            "node".to_owned(),
            "--kubelet-registration-path=/var/lib/kubelet/plugins/memory/csi.sock".to_owned(),
            format!("--plugin-registration-path={}", registration.display()),
        ];
        let sidecar = self.sidecar(&arguments).await?;
        Ok((sidecar, registration.join(format!("{DRIVER}-reg.sock"))))
    }

    async fn sidecar(&self, arguments: &[String]) -> anyhow::Result<Sidecar> {
        let liveness_port = free_port()?;
        let mut all = vec!["sidecar".to_owned()];
        all.extend_from_slice(arguments);
        all.extend([
            format!("--csi-address={}", self.driver.endpoint()),
            format!("--driver-name={DRIVER}"),
            format!("--health-port={liveness_port}"),
        ]);
        Ok(Sidecar {
            process: Process::start(&self.stowage, &all).await?,
            liveness_port,
        })
    }

    /// A new client of the user under measurement: as bare as it gets.
    pub async fn bare(&self) -> anyhow::Result<Client> {
        connect(&self.kubeconfig).await
    }

    /// Makes a namespace.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let object = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        namespaces.create(&PostParams::default(), &object).await?;
        Ok(())
    }
}

/// The names of the nodes.
pub fn nodes() -> impl Iterator<Item = String> {
    (0..NODES).map(|number| format!("node-{number}"))
}

fn start_driver(program: Option<&Path>, directory: &Path) -> anyhow::Result<DriverProcess> {
    std::fs::create_dir_all(directory)?;
    // There is no kubelet that would do a node's part of an expansion.
    let arguments = ["--name", DRIVER, "--expands-without-node"];
    let driver = match program {
        Some(program) => DriverProcess::start_program(program, directory, &arguments),
        None => DriverProcess::start(directory, &arguments),
    };
    driver.context("the driver does not start")
}
