//! How the metrics of the built-in sidecar in controller pods are found.

use serde_json::{Map, Value, json};
use stowage_api::driver_deployment::DEPLOYMENT_LABEL;

use super::object;
use super::object::{Kind, Object};
use super::sidecar::METRICS_PORT_NAME;
use super::valid::{Sidecars, ValidDriver};

/// Label of the Service by which its ServiceMonitor finds it.
const SERVICE_LABEL: &str = "stowage.dev/metrics-of";

/// A Service and a ServiceMonitor, where they are wanted: there is a controller with our sidecar then.
pub(super) fn objects(driver: &ValidDriver) -> Vec<Object> {
    let (Some(controller), Sidecars::Builtin(_)) = (&driver.controller, &driver.sidecars) else {
        return Vec::new();
    };
    let wanted = &driver.metrics;
    if !wanted.has_service() {
        return Vec::new();
    }
    let name = format!("{}-metrics", controller.name);
    let ports = [json!({
        "name": METRICS_PORT_NAME, "port": driver.ports.controller_metrics, "targetPort": METRICS_PORT_NAME,
        "protocol": "TCP",
    })];
    // Without an address of its own: each pod is read, and only the leader counts.
    let spec = json!({
        "clusterIP": "None", "selector": {DEPLOYMENT_LABEL: controller.name}, "ports": ports,
    });
    let mut service = object(&driver.owner, Kind::Service, &name, json!({"spec": spec}));
    let label = (SERVICE_LABEL.to_owned(), controller.name.clone());
    service.labels.extend([label]);
    let monitor = wanted.monitor.as_ref().map(|monitor| {
        let mut endpoint = Map::from_iter([("port".to_owned(), json!(METRICS_PORT_NAME))]);
        if let Some(interval) = &monitor.interval {
            endpoint.insert("interval".to_owned(), json!(interval));
        }
        let spec = json!({
            "selector": {"matchLabels": {SERVICE_LABEL: controller.name}},
            "endpoints": [Value::Object(endpoint)],
        });
        let mut object = object(
            &driver.owner,
            Kind::ServiceMonitor,
            &name,
            json!({"spec": spec}),
        );
        let theirs = monitor.labels.iter();
        let theirs = theirs.filter(|(key, _)| !object.labels.contains_key(*key));
        let theirs: Vec<_> = theirs
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        object.labels.extend(theirs);
        object
    });
    std::iter::once(service).chain(monitor).collect()
}
