//! From what was written to a driver that is known to be right, or to every mistake at once.
//!
//! Whatever could make a later step fail without the cluster's help is found here. What only a server can know (is
//! this a valid pod?) is left to it: its answer ends in the same condition.

mod addition;
mod class;
mod field;
mod name;
mod path;
mod secret;
mod sidecar;
mod template;
#[cfg(test)]
mod tests;
mod update;
mod variant;
mod workload;

use kube::ResourceExt;
use stowage_api::driver_deployment::{CSIDriverDeployment, CSIDriverDeploymentSpec};

use crate::config::OperatorConfig;
use crate::driver::valid::{CsiDriver, Names, Owner, Ports, Probe, Sidecars, ValidDriver};
use field::Errors;
pub use field::{FieldError, Mistake};
pub use name::is_subdomain;
use workload::OfNodes;

/// Seconds until an answer of the driver is too late, unless the instance says otherwise.
const PROBE_TIMEOUT: i32 = 30;

/// The instance as owner of its objects.
pub(super) fn owner(instance: &CSIDriverDeployment) -> Owner {
    Owner {
        namespace: instance.namespace().unwrap_or_default(),
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    }
}

/// Whether the operator acts on an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementState {
    /// It keeps everything as described.
    Managed,
    /// It touches nothing.
    Unmanaged,
}

/// What the instance says about being managed; everything but the one word for "no" means yes, and is checked later.
pub fn management_state(spec: &CSIDriverDeploymentSpec) -> ManagementState {
    match spec.management_state.as_deref() {
        Some("Unmanaged") => ManagementState::Unmanaged,
        _ => ManagementState::Managed,
    }
}

/// What a deletion does while the driver is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UninstallPolicy {
    /// It waits.
    WhenUnused,
    /// It removes the driver all the same.
    Force,
}

/// What a deletion does; a word that is not understood does no harm.
pub fn uninstall_policy(spec: &CSIDriverDeploymentSpec) -> UninstallPolicy {
    match spec.uninstall_policy.as_deref() {
        Some("Force") => UninstallPolicy::Force,
        _ => UninstallPolicy::WhenUnused,
    }
}

/// Whether pods of this driver use the network of their node, so that it needs ports that no other driver has.
pub fn needs_own_ports(spec: &CSIDriverDeploymentSpec) -> bool {
    let node = Some(&spec.driver_per_node_template);
    let variants = spec.node_variants.iter().flatten().map(|it| &it.template);
    let templates = node.into_iter().chain(variants);
    let mut templates = templates.chain(&spec.driver_controller_template);
    templates.any(|template| template.pointer("/spec/hostNetwork") == Some(&true.into()))
}

/// Checks an instance.
///
/// # Errors
/// Every mistake, in the order of the fields.
pub fn validate(
    instance: &CSIDriverDeployment,
    config: &OperatorConfig,
    ports: Ports,
) -> Result<ValidDriver, Vec<FieldError>> {
    let mut errors = Errors::default();
    let driver = described(&mut errors, instance, config, ports);
    match driver {
        Some(driver) if errors.is_empty() => Ok(driver),
        _ => Err(errors.into_vec()),
    }
}

/// The driver as far as it can be told; all checks run, whatever they find.
fn described(
    errors: &mut Errors,
    instance: &CSIDriverDeployment,
    config: &OperatorConfig,
    ports: Ports,
) -> Option<ValidDriver> {
    let spec = &instance.spec;
    name::driver(errors, &spec.driver_name);
    let names = names(errors, instance);
    let sidecars = sidecar::sidecars(errors, spec, config);
    let probe = probe(errors, spec);
    let paths = path::paths(errors, spec, config);
    let pods = template::Pods {
        paths: paths.as_ref(),
        ports,
        probed: probe.is_some(),
        builtin: matches!(sidecars.sidecars, Sidecars::Builtin(_)),
    };
    let node_templates = variant::node_templates(errors, spec, &pods);
    let controller_template = spec.driver_controller_template.as_ref();
    let controller_template = controller_template
        .and_then(|template| template::controller(errors, &pods, template, config));
    let classes = class::classes(errors, spec);
    let extra_rules = addition::extra_rules(errors, spec);
    let restart_on = addition::restart_on(errors, spec);
    let metrics = addition::metrics(errors, spec, &sidecars.sidecars);
    let (update, drain) = update::updates(errors, spec);
    let startup_taint = update::startup_taint(errors, spec);
    let csi_driver = csi_driver(errors, spec);
    let driver_secrets = secret::driver_secrets(errors, spec);
    let replicas = replicas(errors, spec, config);
    other_words(errors, spec);

    let name = instance.name_any();
    let draining = drain.map(|_| workload::draining_toleration(&spec.driver_name));
    let of_nodes = OfNodes::new(&name, update, draining.as_ref(), startup_taint.as_deref());
    Some(ValidDriver {
        owner: owner(instance),
        driver_name: spec.driver_name.clone(),
        names,
        paths: paths?,
        node_workloads: of_nodes.workloads(node_templates?),
        drain,
        startup_taint,
        controller: controller_template
            .map(|template| workload::controller(&name, template, replicas, config, draining)),
        sidecars: sidecars.sidecars,
        log_level: sidecars.log_level,
        secret_access: sidecars.secret_access,
        probe,
        ports,
        pull_secrets: config.image_pull_secrets.clone(),
        driver_secrets,
        csi_driver,
        classes,
        extra_rules,
        restart_on,
        metrics,
    })
}

/// Names that are made of the instance's. One that would be too long is reported, never cut: cut names collide.
fn names(errors: &mut Errors, instance: &CSIDriverDeployment) -> Names {
    let name = instance.name_any();
    let variants = instance.spec.node_variants.iter().flatten();
    let of_variants = variants.map(|it| format!("-node-{}", it.name));
    let of_controller = instance.spec.driver_controller_template.as_ref();
    let suffix = of_variants
        .chain(of_controller.map(|_| "-controller".to_owned()))
        .max_by_key(String::len)
        .unwrap_or_else(|| "-node".to_owned());
    let limit = name::LABEL_VALUE.saturating_sub(suffix.len());
    if name.len() > limit {
        let detail = format!(": pods are labelled with the name and `{suffix}`");
        errors.too_long("metadata.name", limit, &detail);
    }
    Names {
        controller_account: name.clone(),
        node_account: format!("{name}-node"),
        role: format!("leader-election-{name}"),
        cluster_role: format!("csidriverdeployment-{}", instance.uid().unwrap_or_default()),
    }
}

fn probe(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Option<Probe> {
    let fields = [
        ("spec.probePeriodSeconds", spec.probe_period_seconds),
        ("spec.probeTimeoutSeconds", spec.probe_timeout_seconds),
    ];
    for (path, seconds) in fields {
        if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
            errors.invalid(path, seconds, "must be positive integer number");
        }
    }
    Some(Probe {
        period: spec.probe_period_seconds?,
        timeout: spec.probe_timeout_seconds.unwrap_or(PROBE_TIMEOUT),
    })
}

fn csi_driver(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> CsiDriver {
    let template = spec.csi_driver.clone().unwrap_or_default();
    errors.unknown("spec.csiDriver", &template.unknown);
    let policy = template.update_policy.as_deref();
    let update = class::update_policy(errors, "spec.csiDriver", policy);
    if let Err(reason) = name::csi_driver_object(&spec.driver_name) {
        return CsiDriver::NameUnfit { reason };
    }
    CsiDriver::Wanted {
        spec: template.spec.unwrap_or_else(|| serde_json::json!({})),
        update,
    }
}

fn replicas(errors: &mut Errors, spec: &CSIDriverDeploymentSpec, config: &OperatorConfig) -> u16 {
    let Some(replicas) = spec.controller_replicas else {
        return config.replicas();
    };
    match u16::try_from(replicas) {
        Ok(replicas) if replicas > 0 => replicas,
        _ => {
            let detail = format!("must be between 1 and {}", u16::MAX);
            errors.invalid("spec.controllerReplicas", replicas, detail);
            1
        }
    }
}

/// Words that say what the operator does and not what the driver is, and words that it does not know.
fn other_words(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) {
    management_word(errors, spec);
    uninstall_word(errors, spec);
    errors.unknown("spec", &spec.unknown);
}

fn management_word(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) {
    let word = spec
        .management_state
        .as_deref()
        .filter(|word| !word.is_empty());
    errors.word(
        "spec.managementState",
        word,
        &[("Managed", ()), ("Unmanaged", ())],
        (),
    );
}

fn uninstall_word(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) {
    errors.word(
        "spec.uninstallPolicy",
        spec.uninstall_policy.as_deref(),
        &[("WhenUnused", ()), ("Force", ())],
        (),
    );
}
