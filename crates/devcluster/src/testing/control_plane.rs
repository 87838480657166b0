//! An API server with Kubernetes' own controllers: claims are bound, volumes protected and attached, garbage collected.
//!
//! There is no kubelet. Nodes are objects that a test adds; they stay ready, because the controller that would miss
//! their heartbeats is left out.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Address, ApiServer};
use crate::control_plane::{controller_manager_arguments, scheduler_arguments};
use crate::error::Result;
use crate::pki::Subject;
use crate::process::wait_until;

const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

/// [`ApiServer`] and kube-controller-manager, with kube-scheduler if wanted. It is an [`ApiServer`] in every other
/// way, and its processes have the same life.
pub struct ControlPlane {
    api: ApiServer,
}

impl ControlPlane {
    /// Starts it without a scheduler and waits until its controllers work.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with further arguments for the API server.
    pub fn start_with(arguments: &[String]) -> Result<Self> {
        let api = ApiServer::start_with(arguments)?;
        let kubernetes = &api.kubernetes;
        kubernetes.must_have(&[CONTROLLER_MANAGER])?;
        let help = kubernetes.help(CONTROLLER_MANAGER)?;
        let kubeconfig = client(&api, CONTROLLER_MANAGER)?;
        let services = &api.endpoints.services;
        let mut arguments =
            controller_manager_arguments(&kubeconfig, &api.identity, services, &help);
        let heartbeats = if help.mentions("node-lifecycle-controller") {
            "node-lifecycle-controller"
        } else {
            "nodelifecycle"
        };
        arguments.push(format!("--controllers=-{heartbeats}"));
        arguments.push(unserved());
        api.run(CONTROLLER_MANAGER, &arguments)?;

        let plane = Self { api };
        plane.wait_for_controllers()?;
        Ok(plane)
    }

    /// The same with a scheduler, for claims that wait for their first pod.
    pub fn start_with_scheduler() -> Result<Self> {
        let plane = Self::start()?;
        let kubernetes = &plane.kubernetes;
        kubernetes.must_have(&[SCHEDULER])?;
        let help = kubernetes.help(SCHEDULER)?;
        let mut arguments = scheduler_arguments(&client(&plane, SCHEDULER)?, &help);
        arguments.push(unserved());
        plane.run(SCHEDULER, &arguments)?;
        Ok(plane)
    }

    /// One that another process runs.
    pub fn at(address: &Address) -> Result<Self> {
        Ok(Self {
            api: ApiServer::at(address)?,
        })
    }

    /// Kills the controller manager: nothing is bound or attached by Kubernetes until
    /// [`start_controllers`](Self::start_controllers).
    pub fn stop_controllers(&self) -> Result<()> {
        self.keeper()?.stop(CONTROLLER_MANAGER)
    }

    /// Undoes [`stop_controllers`](Self::stop_controllers).
    pub fn start_controllers(&self) -> Result<()> {
        self.keeper()?.start_again(CONTROLLER_MANAGER)
    }

    /// Adds a node on which `driver` is registered under the node's name, and which has `labels`: they are the
    /// driver's topology. Nothing runs there.
    pub fn add_node(&self, name: &str, driver: &str, labels: &[(&str, &str)]) -> Result<()> {
        let mut all: serde_json::Map<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        all.insert("kubernetes.io/hostname".to_owned(), json!(name));
        let keys: Vec<_> = labels.iter().map(|(key, _)| key).collect();
        let room = json!({"cpu": "1000", "memory": "1000Gi", "pods": "10000"});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": all, "annotations": {
                    // As kubelets do, so that the controllers attach for them.
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                }},
                "status": {
                    "capacity": room,
                    "allocatable": room,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
                },
            },
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": [{"name": driver, "nodeID": name, "topologyKeys": keys}]},
            },
        ]});
        self.kubectl_with_input(&["create", "-f", "-"], &list.to_string())?;
        // New nodes get a taint that the controller we left out would remove.
        let ready = r#"{"spec":{"taints":null}}"#;
        self.kubectl(&["patch", "node", name, "--type=merge", "--patch", ready])?;
        Ok(())
    }

    fn wait_for_controllers(&self) -> Result<()> {
        let limit = Duration::from_secs(60);
        let log = self.log(CONTROLLER_MANAGER);
        let made_by_one = ["get", "serviceaccount", "default", "--namespace=default"];
        wait_until("the controllers", limit, &log, || {
            self.keeper()?.check()?;
            Ok(self.kubectl(&made_by_one).is_ok())
        })
    }
}

impl Deref for ControlPlane {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

fn client(api: &ApiServer, program: &str) -> Result<PathBuf> {
    let subject = Subject {
        common_name: &format!("system:{program}"),
        ..Subject::default()
    };
    let url = api.endpoints.url();
    api.authority.kubeconfig(program, &url, &subject)
}

/// Metrics and health of these two are not asked for, and their ports would be the same in every test.
fn unserved() -> String {
    "--secure-port=0".to_owned()
}
