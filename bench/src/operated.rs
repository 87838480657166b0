//! A control plane with the definition of CSIDriverDeployments, and how an operator that is measured there is started.

use std::ops::Deref;

use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;

use crate::control_plane::Measured;

const DEFINITION: &str = include_str!("../../deploy/crds/csidriver.storage.openshift.io.yaml");

/// The control plane, and the namespace where all instances are.
pub struct Operated {
    measured: Measured,
    namespace: &'static str,
}

impl Deref for Operated {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.measured
    }
}

impl Operated {
    /// Starts it, with an empty namespace.
    pub async fn start(namespace: &'static str) -> anyhow::Result<Self> {
        let measured = Measured::start(move |plane| {
            plane.kubectl_with_input(&["apply", "-f", "-"], DEFINITION)?;
            plane.wait_for_definitions()?;
            plane.kubectl(&["create", "namespace", namespace])?;
            Ok(())
        });
        Ok(Self {
            measured: measured.await?,
            namespace,
        })
    }

    /// How the operator is started.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            "operator".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-election=true".to_owned(),
            format!("--leader-election-namespace={}", self.namespace),
        ]
    }

    /// The instances.
    pub fn instances(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(
            "csidriver.storage.openshift.io",
            "v1alpha1",
            "CSIDriverDeployment",
        );
        let resource = ApiResource::from_gvk_with_plural(&kind, "csidriverdeployments");
        Api::namespaced_with(self.admin.clone(), self.namespace, &resource)
    }
}
