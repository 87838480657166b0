//! Custom resource definitions as pages for people: every field with its type, what it may be, and what it means.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// The section of one kind.
pub(super) fn section(crd: &CustomResourceDefinition) -> String {
    let mut text = String::new();
    let names = &crd.spec.names;
    for version in &crd.spec.versions {
        let group = format!("{}/{}", crd.spec.group, version.name);
        _ = writeln!(text, "\n## {} ({group})\n", names.kind);
        let schema = version.schema.as_ref();
        let Some(schema) = schema.and_then(|it| it.open_api_v3_schema.as_ref()) else {
            continue;
        };
        if let Some(about) = &schema.description {
            _ = writeln!(text, "{about}\n");
        }
        if let Some(short) = names.short_names.as_deref().filter(|it| !it.is_empty()) {
            _ = writeln!(text, "Short names: `{}`.\n", short.join("`, `"));
        }
        _ = writeln!(
            text,
            "| field | type | |\n|---|---|---|\n{}",
            rows("", schema).trim_end()
        );
    }
    text
}

/// One row for each field below a schema, in the order of their names.
fn rows(path: &str, schema: &JSONSchemaProps) -> String {
    let mut text = String::new();
    for (name, field) in schema.properties.iter().flatten() {
        let path = match path {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        let required = schema.required.iter().flatten().any(|it| it == name);
        let about = field.description.clone().unwrap_or_default();
        let about = about.replace('|', "\\|").replace('\n', " ");
        let must = if required { " Required." } else { "" };
        let kind = kind(field);
        _ = writeln!(text, "| `{path}` | {kind} | {about}{must} |");
        let (below, inside) = inside(&path, field);
        text.push_str(&rows(&below, inside));
    }
    text
}

/// Where the fields of a field are: its own, or those of what it is a list or a map of.
fn inside<'a>(path: &str, field: &'a JSONSchemaProps) -> (String, &'a JSONSchemaProps) {
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &field.items {
        return (format!("{path}[]"), item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &field.additional_properties {
        return (format!("{path}.*"), value);
    }
    (path.to_owned(), field)
}

/// The type, and what values may be.
fn kind(field: &JSONSchemaProps) -> String {
    if field.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".to_owned();
    }
    let name = field.type_.as_deref().unwrap_or("any");
    let mut text = match inside("", field).1 {
        item if field.items.is_some() => format!("list of {}", kind(item)),
        value if std::ptr::eq(value, field) => name.to_owned(),
        value => format!("{} by key", kind(value)),
    };
    let words: Vec<_> = field.enum_.iter().flatten().map(|it| &it.0).collect();
    if !words.is_empty() {
        let words = words.iter().filter_map(|it| it.as_str());
        let words: Vec<_> = words.filter(|it| !it.is_empty()).collect();
        _ = write!(text, ": `{}`", words.join("`, `"));
    }
    match (field.minimum, field.maximum) {
        (Some(least), Some(most)) => _ = write!(text, ", {least} to {most}"),
        (Some(least), None) => _ = write!(text, ", at least {least}"),
        _ => {}
    }
    if let Some(most) = field.max_length {
        _ = write!(text, ", at most {most} characters");
    }
    if let Some(pattern) = &field.pattern {
        _ = write!(text, ", `{pattern}`");
    }
    text
}

#[cfg(test)]
mod tests {
    use stowage_api::CrdGroup;

    use super::*;

    #[test]
    fn every_field_has_a_row_with_what_it_may_be() {
        let crds = CrdGroup::DriverDeployments.crds();
        let text = section(&crds[0]);
        for line in [
            "## CSIDriverDeployment (csidriver.storage.openshift.io/v1alpha1)",
            "Short names: `cdd`.",
            "| `spec.nodeDrain.barePods` | string: `Hold`, `Evict` |",
            "| `spec.nodeDrain.settleSeconds` | integer, at least 0 |",
            "| `spec.storageClassTemplates[].parameters` | string by key |",
            "| `spec.maxUnavailableNodes` | integer or string |",
            "| `spec.restartOn.configMaps` | list of string |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains(" Required. |"));
        assert!(!text.contains("||"), "{text}");
    }
}
