//! Nodes that need other pods.

use stowage_api::driver_deployment::{CSIDriverDeploymentSpec, NodeVariant};

use super::field::Errors;
use super::name::{is_label_value, is_qualified};
use super::template::{self, Pods};
use crate::driver::PodTemplate;

const FIELD: &str = "spec.nodeVariants";

/// Longest name.
const NAME: usize = 20;

/// Nodes that need other pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) name: String,
    /// Key and value.
    pub(super) label: (String, String),
    pub(super) template: PodTemplate,
}

/// The template of most nodes, and those of nodes that need others.
pub(super) fn node_templates(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    pods: &Pods,
) -> Option<(PodTemplate, Vec<Variant>)> {
    let template = template::node(errors, pods, &spec.driver_per_node_template);
    let variants = variants(errors, spec, pods);
    Some((template?, variants))
}

/// The variants; every rule that is broken is reported.
fn variants(errors: &mut Errors, spec: &CSIDriverDeploymentSpec, pods: &Pods) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for (number, written) in spec.node_variants.iter().flatten().enumerate() {
        let path = format!("{FIELD}[{number}]");
        let label = (
            written.node_label.key.clone(),
            written.node_label.value.clone(),
        );
        check(errors, &path, written);
        if variants.iter().any(|other| other.name == written.name) {
            errors.duplicate(format!("{path}.name"), written.name.as_str());
        }
        if variants.iter().any(|other| other.label == label) {
            let (key, value) = &label;
            errors.duplicate(format!("{path}.nodeLabel"), format!("{key}={value}"));
        }
        let template_path = format!("{path}.template");
        let template = template::node_at(errors, &template_path, pods, &written.template);
        let Some(template) = template else {
            continue;
        };
        check_selector(errors, &template_path, &template, &label);
        variants.push(Variant {
            name: written.name.clone(),
            label,
            template,
        });
    }
    variants
}

fn check(errors: &mut Errors, path: &str, written: &NodeVariant) {
    errors.unknown(path, &written.unknown);
    errors.unknown(&format!("{path}.nodeLabel"), &written.node_label.unknown);
    let name = &written.name;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    // By its name alone a DaemonSet tells its instance.
    if name.is_empty() || name.len() > NAME || !name.bytes().all(is_plain) || name == "node" {
        let detail =
            format!("must be 1 to {NAME} lower-case letters or digits, and not the word `node`");
        errors.invalid(format!("{path}.name"), name.as_str(), detail);
    }
    if !is_qualified(&written.node_label.key) {
        let detail = "must be the key of a label, such as `example.com/kind`";
        let key = written.node_label.key.as_str();
        errors.invalid(format!("{path}.nodeLabel.key"), key, detail);
    }
    if !is_label_value(&written.node_label.value) {
        let detail = "must be the value of a label, up to 63 alphanumeric characters, '-', '_' or '.'; write `true` in quotation \
                      marks";
        let value = written.node_label.value.as_str();
        errors.invalid(format!("{path}.nodeLabel.value"), value, detail);
    }
}

/// The template must not ask for other nodes than those with the label.
fn check_selector(
    errors: &mut Errors,
    path: &str,
    template: &PodTemplate,
    (key, value): &(String, String),
) {
    let own = &template.spec()["nodeSelector"][key];
    if !own.is_null() && own != value.as_str() {
        let detail = format!("these pods run on nodes with `{value}`: remove the label here");
        errors.invalid(
            format!("{path}.spec.nodeSelector[{key}]"),
            own.clone(),
            detail,
        );
    }
}
