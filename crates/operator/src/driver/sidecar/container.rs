//! A container beside the driver, put together field by field.

use serde_json::{Map, Value, json};

use crate::driver::template::PodTemplate;
use crate::driver::valid::Tuning;

/// A container that is being put together.
pub(super) struct Container {
    fields: Map<String, Value>,
    env: Vec<Value>,
    mounts: Vec<Value>,
}

pub(super) fn container(
    name: &str,
    image: &str,
    mut args: Vec<String>,
    tuning: &Tuning,
    template: &PodTemplate,
) -> Container {
    args.extend(tuning.extra_args.iter().cloned());
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    set("name", json!(name));
    set("image", json!(image));
    set("imagePullPolicy", json!("IfNotPresent"));
    set("args", json!(args));
    set("securityContext", security_context(template.driver()));
    // What a sidecar says when it gives up is what the instance's condition shows.
    set("terminationMessagePolicy", json!("FallbackToLogsOnError"));
    if let Some(resources) = &tuning.resources {
        set("resources", resources.clone());
    }
    Container {
        fields,
        env: Vec::new(),
        mounts: Vec::new(),
    }
}

impl Container {
    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push(json!({"name": name, "value": value}));
        self
    }

    pub(super) fn env_from_field(mut self, name: &str, path: &str) -> Self {
        let field = json!({"apiVersion": "v1", "fieldPath": path});
        self.env
            .push(json!({"name": name, "valueFrom": {"fieldRef": field}}));
        self
    }

    /// Which pod it is: for objects that belong to it.
    pub(super) fn env_of_pod(self) -> Self {
        self.env_from_field("NAMESPACE", "metadata.namespace")
            .env_from_field("POD_NAME", "metadata.name")
    }

    /// Declares a port, so that others find it by its name.
    pub(super) fn port(mut self, name: &str, number: u16) -> Self {
        let port = json!({"name": name, "containerPort": number, "protocol": "TCP"});
        self.fields.insert("ports".to_owned(), json!([port]));
        self
    }

    pub(super) fn mount(mut self, volume: &str, path: &str) -> Self {
        self.mounts.push(json!({"name": volume, "mountPath": path}));
        self
    }

    /// Shows what the node mounts there, also later.
    pub(super) fn see_mounts(mut self, volume: &str, path: &str) -> Self {
        self.mounts.push(json!({
            "name": volume, "mountPath": path, "mountPropagation": "HostToContainer", "readOnly": true,
        }));
        self
    }

    pub(super) fn done(mut self) -> Value {
        if !self.env.is_empty() {
            self.fields.insert("env".to_owned(), self.env.into());
        }
        self.fields
            .insert("volumeMounts".to_owned(), self.mounts.into());
        Value::Object(self.fields)
    }
}

/// What a sidecar may do: open the driver's socket, and nothing else.
///
/// The socket belongs to the user that the driver runs as, so the sidecar runs as the same. With SELinux, what a
/// privileged container makes can be reached from its own domain only.
fn security_context(driver: &Value) -> Value {
    let theirs = &driver["securityContext"];
    let mut ours = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    });
    for key in ["runAsUser", "runAsGroup", "seLinuxOptions"] {
        if !theirs[key].is_null() {
            ours[key] = theirs[key].clone();
        }
    }
    if theirs["privileged"] == true && ours["seLinuxOptions"].is_null() {
        ours["seLinuxOptions"] = json!({"type": "spc_t"});
    }
    ours
}
