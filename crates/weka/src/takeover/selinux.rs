//! Node pods of the plugin that label mounts for SELinux: all of them, or those of nodes with a label.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use serde_json::{Value, json};

use super::facts::Workload;
use super::report::PluginWorkload;

/// The label of nodes with SELinux, unless the plugin had another.
const NODE_LABEL: &str = "csi.weka.io/selinux_enabled";

/// Where the kernel shows SELinux: without it `mount` leaves labels out.
const KERNEL: &str = "/sys/fs";

/// Whether pods of this workload label mounts.
pub(super) fn labels_mounts(carried: &PluginWorkload) -> bool {
    let mut flags = carried.flags.iter();
    flags.any(|flag| flag == "--selinux-support" || flag == "--selinux-support=true")
}

/// Shows SELinux to the driver's container.
pub(super) fn show_kernel(pod: &mut Value) {
    let name = "selinux";
    let volume = json!({"name": name, "hostPath": {"path": KERNEL, "type": "Directory"}});
    push(&mut pod["volumes"], volume);
    let mount = json!({"name": name, "mountPath": KERNEL});
    push(&mut pod["containers"][0]["volumeMounts"], mount);
}

/// The pods of nodes with a label. It is said once.
pub(super) fn variant(key: &str, mut template: Value) -> Value {
    drop_label(&mut template, key);
    json!([{"name": "selinux", "nodeLabel": {"key": key, "value": "true"}, "template": template}])
}

/// The label that pods of a workload want their nodes to have.
pub(super) fn label(workload: &Workload) -> String {
    let pod = &workload.pod;
    let selected = pod.node_selector.iter().flatten();
    let mut selected = selected.filter(|(_, value)| *value == "true");
    let selected = selected.next().map(|(key, _)| key.clone());
    let affinity = pod
        .affinity
        .as_ref()
        .and_then(|it| it.node_affinity.as_ref());
    let required = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let terms = required.iter().flat_map(|it| &it.node_selector_terms);
    let mut wishes = terms.flat_map(|it| it.match_expressions.iter().flatten());
    let by_affinity = wishes.find(|wish| is_true(wish)).map(|it| it.key.clone());
    selected
        .or(by_affinity)
        .unwrap_or_else(|| NODE_LABEL.to_owned())
}

fn is_true(wish: &NodeSelectorRequirement) -> bool {
    wish.operator == "In" && wish.values.as_deref() == Some(&["true".to_owned()])
}

/// Takes what a template says about a label of nodes away: the variants say it for all.
pub(super) fn drop_label(template: &mut Value, key: &str) {
    let pod = &mut template["spec"];
    if let Some(selector) = pod["nodeSelector"].as_object_mut() {
        selector.remove(key);
    }
    let terms = pod.pointer_mut(
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let Some(terms) = terms.and_then(Value::as_array_mut) else {
        return;
    };
    for term in terms.iter_mut() {
        if let Some(wishes) = term["matchExpressions"].as_array_mut() {
            wishes.retain(|wish| wish["key"] != key);
        }
    }
    // A set without wishes is no node at all.
    terms.retain(|term| {
        let has = |field: &str| term[field].as_array().is_some_and(|it| !it.is_empty());
        has("matchExpressions") || has("matchFields")
    });
    if terms.is_empty()
        && let Some(affinity) = pod["affinity"]["nodeAffinity"].as_object_mut()
    {
        affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
    }
}

fn push(list: &mut Value, entry: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(entry),
        None => *list = json!([entry]),
    }
}
