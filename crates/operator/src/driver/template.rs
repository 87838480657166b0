//! Pod templates: JSON that is edited and otherwise left alone.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::valid::Placement;

/// A pod template with at least one container, in which every part that we edit has the right shape.
#[derive(Clone, Debug, PartialEq)]
pub struct PodTemplate(Value);

/// A part of a template that has the wrong shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Misshapen {
    /// Path below the template, such as `spec.containers`.
    pub path: String,
    /// What is there.
    pub value: Value,
    /// What should be there.
    pub expected: &'static str,
}

impl PodTemplate {
    /// Checks the shape of what will be edited; the rest is the server's to judge.
    pub fn parse(template: &Value) -> Result<Self, Vec<Misshapen>> {
        const OBJECTS: [&str; 7] = [
            "/metadata",
            "/metadata/labels",
            "/spec",
            "/spec/nodeSelector",
            "/spec/affinity",
            "/spec/affinity/nodeAffinity",
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        ];
        const LISTS: [&str; 6] = [
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
            "/spec/tolerations",
            "/spec/volumes",
            "/spec/imagePullSecrets",
            "/spec/containers/0/volumeMounts",
            "/spec/containers/0/ports",
        ];
        let mut wrong = Vec::new();
        let mut check = |pointer: &str, fits: fn(&Value) -> bool, expected| {
            let value = template.pointer(pointer).unwrap_or(&Value::Null);
            if !value.is_null() && !fits(value) {
                wrong.push(misshapen(pointer, value, expected));
            }
        };
        for pointer in OBJECTS {
            check(pointer, Value::is_object, "must be an object");
        }
        for pointer in LISTS {
            check(pointer, Value::is_array, "must be a list");
        }
        let containers = template.pointer("/spec/containers").unwrap_or(&Value::Null);
        match containers.as_array() {
            Some(list) if list.is_empty() => {
                wrong.push(misshapen("", template, "must be non-empty"));
            }
            Some(list) if list.iter().all(Value::is_object) => {}
            None if containers.is_null() => {
                wrong.push(misshapen("", template, "must be non-empty"));
            }
            _ => wrong.push(misshapen(
                "/spec/containers",
                containers,
                "must be a list of objects",
            )),
        }
        match template {
            Value::Object(_) if wrong.is_empty() => Ok(Self(template.clone())),
            Value::Object(_) => Err(wrong),
            other => Err(vec![misshapen("", other, "must be an object")]),
        }
    }

    /// One that this program wrote itself.
    pub(crate) fn own(template: Value) -> Self {
        Self(template)
    }

    /// The account that the template names.
    pub fn service_account(&self) -> Option<&str> {
        // `serviceAccount` is the older name of the field.
        ["serviceAccountName", "serviceAccount"]
            .into_iter()
            .filter_map(|key| self.spec().get(key)?.as_str())
            .find(|name| !name.is_empty())
    }

    /// Whether pods use the network of their node.
    pub fn uses_host_network(&self) -> bool {
        self.spec().get("hostNetwork") == Some(&Value::Bool(true))
    }

    /// Whether pods need more than any pod may have: a part of their node, root, or a container with privileges.
    pub(super) fn needs_privileges(&self) -> bool {
        let spec = self.spec();
        let list = |key: &str| spec[key].as_array().into_iter().flatten();
        let shares = ["hostNetwork", "hostPID", "hostIPC"];
        let mut containers = list("containers").chain(list("initContainers"));
        shares.iter().any(|share| spec[share] == true)
            || list("volumes").any(|volume| !volume["hostPath"].is_null())
            || spec["securityContext"]["runAsUser"] == 0
            || containers.any(container_needs_privileges)
    }

    /// The pod's spec.
    pub fn spec(&self) -> &Value {
        &self.0["spec"]
    }

    /// The container that is the driver.
    pub fn driver(&self) -> &Value {
        &self.spec()["containers"][0]
    }

    /// All containers, those that only run at the start included.
    pub fn containers(&self) -> impl Iterator<Item = (String, &Value)> {
        ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| {
                let containers = self.spec().get(list).and_then(Value::as_array);
                containers
                    .into_iter()
                    .flatten()
                    .enumerate()
                    .map(move |(index, container)| (format!("spec.{list}[{index}]"), container))
            })
    }

    /// Starts editing.
    pub(super) fn edit(&self) -> Editor {
        Editor(self.0.clone())
    }
}

fn container_needs_privileges(container: &Value) -> bool {
    let context = &container["securityContext"];
    let added = context["capabilities"]["add"].as_array();
    let mut ports = container["ports"].as_array().into_iter().flatten();
    context["privileged"] == true
        || context["runAsUser"] == 0
        || added.is_some_and(|it| !it.is_empty())
        // 0 is the same as none.
        || ports.any(|port| port["hostPort"].as_u64().is_some_and(|it| it > 0))
}

fn misshapen(pointer: &str, value: &Value, expected: &'static str) -> Misshapen {
    let path = pointer
        .trim_start_matches('/')
        .replace("/0", "[0]")
        .replace('/', ".");
    Misshapen {
        path,
        value: value.clone(),
        expected,
    }
}

/// A template that is being edited. Nothing that the template says is changed unless a method's name says so.
pub(super) struct Editor(Value);

impl Editor {
    pub(super) fn add_label(&mut self, key: &str, value: &str) {
        let metadata = object_in(as_object(&mut self.0), "metadata");
        object_in(metadata, "labels").insert(key.to_owned(), json!(value));
    }

    pub(super) fn add_annotation(&mut self, key: &str, value: &str) {
        let metadata = object_in(as_object(&mut self.0), "metadata");
        object_in(metadata, "annotations").insert(key.to_owned(), json!(value));
    }

    pub(super) fn add_volume(&mut self, volume: Value) {
        list_in(self.spec(), "volumes").push(volume);
    }

    pub(super) fn add_container(&mut self, container: Value) {
        list_in(self.spec(), "containers").push(container);
    }

    pub(super) fn add_driver_mount(&mut self, mount: Value) {
        list_in(self.driver(), "volumeMounts").push(mount);
    }

    pub(super) fn add_driver_port(&mut self, port: Value) {
        list_in(self.driver(), "ports").push(port);
    }

    /// Whether the template says itself how the driver is known to be alive.
    pub(super) fn has_driver_probe(&mut self) -> bool {
        let probe = self.driver().get("livenessProbe");
        probe.is_some_and(|it| !it.is_null())
    }

    pub(super) fn set_driver_probe(&mut self, probe: Value) {
        self.driver().insert("livenessProbe".to_owned(), probe);
    }

    pub(super) fn add_pull_secrets(&mut self, names: &[String]) {
        if names.is_empty() {
            return;
        }
        let secrets = list_in(self.spec(), "imagePullSecrets");
        for name in names {
            let secret = json!({"name": name});
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
    }

    /// Says where the pod may run, beside what the template says.
    pub(super) fn place(&mut self, placement: &Placement) {
        if !placement.node_selector.is_empty() {
            let known = object_in(self.spec(), "nodeSelector");
            for (key, value) in &placement.node_selector {
                known.entry(key).or_insert_with(|| json!(value));
            }
        }
        if !placement.elsewhere.is_empty() {
            self.keep_off(&placement.elsewhere);
        }
        if !placement.tolerations.is_empty() {
            let known = list_in(self.spec(), "tolerations");
            let own = known.clone();
            let added = placement.tolerations.iter();
            known.extend(added.filter(|it| !own.contains(it)).cloned());
        }
    }

    /// Keeps the pod off nodes with any of these labels. Where the template names sets of nodes, one of which is enough, none of
    /// them may have it.
    fn keep_off(&mut self, labels: &[(String, String)]) {
        let affinity = object_in(object_in(self.spec(), "affinity"), "nodeAffinity");
        let required = object_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
        let sets = list_in(required, "nodeSelectorTerms");
        if sets.is_empty() {
            sets.push(Value::Null);
        }
        for set in sets {
            let expressions = list_in(as_object(set), "matchExpressions");
            expressions.extend(labels.iter().map(|(key, value)| {
                // Nodes without the label are meant, too.
                json!({"key": key, "operator": "NotIn", "values": [value]})
            }));
        }
    }

    /// Sets a field of the pod's spec that the template leaves open.
    pub(super) fn default_field(&mut self, key: &str, value: Value) {
        let field = self.spec().entry(key).or_insert(Value::Null);
        if field.is_null() || *field == "" {
            *field = value;
        }
    }

    /// Asks for pods to be spread, unless the template says something about that itself.
    pub(super) fn default_anti_affinity(&mut self, term: Value) {
        let affinity = object_in(self.spec(), "affinity");
        let own = affinity.entry("podAntiAffinity").or_insert(Value::Null);
        if own.is_null() {
            *own = term;
        }
    }

    /// Says on which nodes the pod may run.
    pub(super) fn replace_node_affinity(&mut self, affinity: Value) {
        object_in(self.spec(), "affinity").insert("nodeAffinity".to_owned(), affinity);
    }

    pub(super) fn done(self) -> Value {
        self.0
    }

    fn spec(&mut self) -> &mut Map<String, Value> {
        object_in(as_object(&mut self.0), "spec")
    }

    fn driver(&mut self) -> &mut Map<String, Value> {
        let containers = list_in(self.spec(), "containers");
        if containers.is_empty() {
            containers.push(Value::Null);
        }
        as_object(&mut containers[0])
    }
}

/// The object under `key`, made where there is none.
fn object_in<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_object(map.entry(key).or_insert(Value::Null))
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

/// The list under `key`, made where there is none.
fn list_in<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = map.entry(key).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("it was made a list above"),
    }
}
