//! A driver of its own name in a namespace of its own.

use std::path::{Path, PathBuf};

use clap::Args;
use devcluster::testing::{ApiServer, ControlPlane, Rule};
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::json;
use stowage_csi::endpoint::Endpoint;
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use stowage_testing::{shared_control_plane, unique};
use tempfile::TempDir;

use crate::contents::with_kinds;
use crate::objects::{connect, create, eventually};
use crate::running::{Place, Role, Running};

/// A driver, its corner of the cluster, and the sidecars that a test starts beside it.
pub struct Rig {
    /// The API server.
    pub server: &'static ApiServer,
    plane: Option<&'static ControlPlane>,
    /// The driver, which serves.
    pub driver: MemoryDriver,
    /// Of the driver, and of its classes.
    pub name: String,
    /// For everything that has a namespace.
    pub namespace: String,
    /// The administrator's.
    pub client: Client,
    /// With the driver's socket in it.
    pub directory: TempDir,
    serving: Option<Serving>,
}

impl Rig {
    /// A rig whose driver can do everything but tell places apart.
    pub async fn plain() -> Self {
        Self::plain_with(|_| {}).await
    }

    /// The same, but for what `change` changes.
    pub async fn plain_with(change: impl FnOnce(&mut Profile)) -> Self {
        Self::new(|mut profile| {
            profile.topology = false;
            change(&mut profile);
            profile
        })
        .await
    }

    /// A rig whose driver can do everything but what `change` takes away.
    pub async fn new(change: impl FnOnce(Profile) -> Profile) -> Self {
        let plane = tokio::task::spawn_blocking(shared_control_plane);
        Self::on(plane.await.unwrap(), change).await
    }

    /// A rig on a control plane of its own.
    pub async fn on(plane: &'static ControlPlane, change: impl FnOnce(Profile) -> Profile) -> Self {
        let rig = Self::on_server(plane, change).await;
        Self {
            plane: Some(plane),
            ..rig
        }
    }

    /// A rig on an API server without controllers, which has the kinds of snapshots. Its driver takes group snapshots.
    pub async fn with_snapshots(change: impl FnOnce(Profile) -> Profile) -> Self {
        let server = tokio::task::spawn_blocking(with_kinds).await.unwrap();
        Self::on_server(server, |mut profile| {
            profile.groups = true;
            change(profile)
        })
        .await
    }

    /// A rig on an API server without controllers.
    pub async fn on_server(
        server: &'static ApiServer,
        change: impl FnOnce(Profile) -> Profile,
    ) -> Self {
        let namespace = format!("rig-{}", unique());
        let name = format!("{namespace}.stowage.test");
        let client = connect(server.kubeconfig()).await;
        let object = json!({"metadata": {"name": namespace}});
        create::<Namespace>(&Api::all(client.clone()), object).await;
        let mut rig = Self {
            server,
            plane: None,
            driver: MemoryDriver::new(change(Profile::named(&name))),
            name,
            namespace,
            client,
            directory: tempfile::tempdir().unwrap(),
            serving: None,
        };
        rig.serve();
        rig
    }

    /// The control plane around the API server.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane.expect("this rig has an API server only")
    }

    /// The driver's socket.
    pub fn endpoint(&self) -> Endpoint {
        let path = self.directory.path().join("csi.sock");
        Endpoint::try_from(path.as_path()).unwrap()
    }

    /// Starts the driver, again if need be.
    pub fn serve(&mut self) {
        self.serving = Some(self.driver.serve(&self.endpoint()).unwrap());
    }

    /// Takes the driver away.
    pub async fn stop_driver(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// Starts a sidecar with these flags: `run` says which.
    pub fn sidecar<A: Args>(&self, run: impl Role<A>, flags: &[&str]) -> Running {
        self.sidecar_as(run, self.server.kubeconfig(), flags)
    }

    /// Starts a sidecar that is somebody else than the administrator.
    pub fn sidecar_as<A: Args>(
        &self,
        run: impl Role<A>,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Running {
        let place = Place {
            endpoint: &self.endpoint(),
            kubeconfig,
            namespace: &self.namespace,
        };
        Running::sidecar(run, place, flags.iter().copied())
    }

    /// Waits until an RPC was called so often.
    pub async fn called(&self, rpc: &str, times: u64) {
        let what = format!("{rpc} is called {times} times");
        eventually(&what, async || {
            (self.driver.calls(rpc) >= times).then_some(())
        })
        .await;
    }

    /// Waits for an event about an object that says something, and returns its message.
    pub async fn event(&self, object: &str, reason: &str, says: &str) -> String {
        // Events about objects without a namespace are in `default`.
        let events = |namespace: &str| Api::<Event>::namespaced(self.client.clone(), namespace);
        let places = [events(&self.namespace), events("default")];
        let which = format!("involvedObject.name={object},reason={reason}");
        let which = ListParams::default().fields(&which);
        let what = format!("event {reason} about {object} that says `{says}`");
        eventually(&what, async || {
            let mut all = Vec::new();
            for events in &places {
                all.extend(events.list(&which).await.unwrap());
            }
            let mut messages = all.into_iter().filter_map(|event| event.message);
            messages.find(|message| message.contains(says))
        })
        .await
    }

    /// A user with these rules only.
    pub async fn user(&self, rules: Vec<Rule<'static>>) -> PathBuf {
        let (server, name) = (self.server, self.namespace.clone());
        let make = move || server.user(&name, &rules).unwrap();
        tokio::task::spawn_blocking(make).await.unwrap()
    }

    /// A secret in this rig's namespace.
    pub async fn secret(&self, name: &str, key: &str, value: &str) {
        let object = json!({"metadata": {"name": name}, "stringData": {key: value}});
        create(&self.secrets(), object).await;
    }

    /// Deletes a secret.
    pub async fn delete_secret(&self, name: &str) {
        let params = DeleteParams::default();
        self.secrets().delete(name, &params).await.unwrap();
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
