//! What does not keep a driver from running, but should be known.

use std::collections::BTreeSet;

use super::condition::Reason;
use super::fetch::{Fetched, own_references};
use super::problem::Problem;
use crate::driver::valid::{CsiDriver, SecretAccess};
use crate::driver::{Kind, ValidDriver};
use crate::served::Versions;

/// All of it.
pub(super) fn warnings(driver: &ValidDriver, fetched: &Fetched) -> Vec<Problem> {
    let mut warnings = Vec::new();
    if let CsiDriver::NameUnfit { reason } = &driver.csi_driver {
        warnings.push(Problem::new(Reason::CsiDriverNameUnfit, reason.clone()));
    }
    if driver.secret_access == SecretAccess::Named {
        let own = own_references(driver).flat_map(|references| references.templated);
        let mut keys: Vec<_> = own
            .chain(fetched.secrets.templated.iter().cloned())
            .collect();
        keys.sort();
        keys.dedup();
        if !keys.is_empty() {
            let message = format!(
                "classes of this driver name secrets that depend on the claim ({}): set `sidecars.secretAccess: \
                 Cluster`, or their claims stay pending",
                keys.join(", ")
            );
            warnings.push(Problem::new(Reason::SecretAccessNeeded, message));
        }
    }
    let controllers = driver.controller.iter().map(|it| &it.template);
    let nodes = driver.node_workloads.iter().map(|it| &it.template);
    // Node pods need rights only where they do the controller's work.
    let nodes = nodes.filter(|_| driver.is_node_deployment());
    for account in controllers
        .chain(nodes)
        .filter_map(|template| template.service_account())
    {
        let message = format!(
            "the sidecar runs as ServiceAccount `{account}`, to which the operator grants nothing: grant it the rules \
             listed in `docs/guides/operator.md`"
        );
        warnings.push(Problem::new(Reason::OwnServiceAccount, message));
    }
    warnings.extend(missing_kinds(driver, fetched.versions));
    warnings
}

/// Kinds of which the instance describes objects and which the cluster lacks.
fn missing_kinds(driver: &ValidDriver, versions: Versions) -> Vec<Problem> {
    let classes = driver.classes.bases().map(|(kind, _)| kind);
    let monitor = driver.metrics.monitor.as_ref();
    let wanted = classes.chain(monitor.map(|_| Kind::ServiceMonitor));
    let missing = wanted.filter(|kind| kind.version(versions).is_none());
    let missing: BTreeSet<_> = missing.collect();
    let problem = |kind: Kind| {
        let remedy = match kind {
            Kind::VolumeAttributesClass => "Kubernetes has it from 1.31 on",
            Kind::ServiceMonitor => "the Prometheus operator brings it",
            _ => "install it with `stowage crds`",
        };
        let message = format!("the cluster has no {} definition: {remedy}", kind.name());
        Problem::new(Reason::MissingKind, message)
    };
    missing.into_iter().map(problem).collect()
}
