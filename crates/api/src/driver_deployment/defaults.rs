//! What a server fills in where a field is left out, so that `kubectl get -o yaml` shows what holds. Only what does not depend
//! on the operator's configuration; never a whole section, because one that is left out says nothing; and nothing in lists, which
//! are compared as a whole by whoever applies them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde_json::{Value, json};

/// The fields by path.
fn defaults() -> [(&'static str, Value); 10] {
    [
        ("spec.managementState", json!("Managed")),
        ("spec.uninstallPolicy", json!("WhenUnused")),
        ("spec.nodeDrain.paused", json!(false)),
        ("spec.nodeDrain.timeoutSeconds", json!(1800)),
        ("spec.nodeDrain.settleSeconds", json!(30)),
        ("spec.nodeDrain.barePods", json!("Hold")),
        ("spec.nodeDrain.emptyDirPods", json!("Hold")),
        ("spec.nodeDrain.daemonSetPods", json!("Hold")),
        ("spec.sidecars.secretAccess", json!("Named")),
        ("spec.csiDriver.updatePolicy", json!("Report")),
    ]
}

/// Puts them into a schema.
pub(crate) fn fill_in(root: &mut JSONSchemaProps) {
    for (path, value) in defaults() {
        let field = path.split('.').try_fold(&mut *root, |schema, name| {
            schema.properties.as_mut()?.get_mut(name)
        });
        debug_assert!(field.is_some(), "{path}");
        if let Some(field) = field {
            field.default = Some(JSON(value));
        }
    }
}
