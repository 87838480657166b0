//! What a driver may have beside what its sidecars need.

use serde_json::Value;
use stowage_api::driver_deployment::{CSIDriverDeploymentSpec, ScopedRules as Written};

use super::field::Errors;
use super::name::is_subdomain;
use crate::driver::valid::{ExtraRules, Metrics, Monitor, RestartOn, ScopedRules, Sidecars};

pub(super) fn extra_rules(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> ExtraRules {
    const PATH: &str = "spec.extraRules";
    let written = spec.extra_rules.clone().unwrap_or_default();
    errors.unknown(PATH, &written.unknown);
    ExtraRules {
        controller: rules(errors, &format!("{PATH}.controller"), written.controller),
        node: rules(errors, &format!("{PATH}.node"), written.node),
    }
}

fn rules(errors: &mut Errors, path: &str, written: Option<Written>) -> ScopedRules {
    let written = written.unwrap_or_default();
    errors.unknown(path, &written.unknown);
    let mut checked = |scope: &str, rules: Option<Vec<Value>>| {
        let rules = rules.unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let has = |field: &str| rule[field].as_array().is_some_and(|it| !it.is_empty());
            if !has("verbs") {
                let detail = "a rule needs `verbs`, as in a Role";
                errors.required(format!("{path}.{scope}[{index}].verbs"), detail);
            }
        }
        rules
    };
    ScopedRules {
        cluster: checked("cluster", written.cluster),
        namespace: checked("namespace", written.namespace),
    }
}

pub(super) fn restart_on(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> RestartOn {
    const PATH: &str = "spec.restartOn";
    let written = spec.restart_on.clone().unwrap_or_default();
    errors.unknown(PATH, &written.unknown);
    let mut checked = |field: &str, names: Option<Vec<String>>| {
        let names = names.unwrap_or_default();
        for (index, name) in names.iter().enumerate() {
            let path = format!("{PATH}.{field}[{index}]");
            if !is_subdomain(name) {
                let detail = "must be the name of an object in the namespace of this resource";
                errors.invalid(path, name.as_str(), detail);
            } else if names[..index].contains(name) {
                errors.duplicate(path, name.as_str());
            }
        }
        names
    };
    RestartOn {
        config_maps: checked("configMaps", written.config_maps),
        secrets: checked("secrets", written.secrets),
    }
}

pub(super) fn metrics(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    sidecars: &Sidecars,
) -> Metrics {
    const PATH: &str = "spec.metrics";
    let written = spec.metrics.clone().unwrap_or_default();
    errors.unknown(PATH, &written.unknown);
    let monitor = written.service_monitor.map(|monitor| {
        errors.unknown(&format!("{PATH}.serviceMonitor"), &monitor.unknown);
        Monitor {
            labels: monitor.labels.unwrap_or_default(),
            interval: monitor.interval.filter(|it| !it.is_empty()),
        }
    });
    let metrics = Metrics {
        service: written.service.unwrap_or_default(),
        monitor,
    };
    if metrics.has_service()
        && let Some(detail) = without_metrics(spec, sidecars)
    {
        errors.forbidden(PATH, detail);
    }
    metrics
}

/// Why no pod has metrics that a Service could lead to, if none has.
fn without_metrics(spec: &CSIDriverDeploymentSpec, sidecars: &Sidecars) -> Option<&'static str> {
    match sidecars {
        Sidecars::Upstream(_) => Some("needs the built-in sidecar (`sidecars.mode: Builtin`)"),
        Sidecars::Builtin(sidecar) if sidecar.node_deployment => Some(
            "the Service is for controller pods, and there are none with `sidecars.nodeDeployment: true`: remove one of the two",
        ),
        Sidecars::Builtin(_) if spec.driver_controller_template.is_none() => Some(
            "the Service is for controller pods, and there are none without `driverControllerTemplate`: add it, or remove `metrics`",
        ),
        Sidecars::Builtin(_) => None,
    }
}
