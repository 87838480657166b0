//! The secrets of a volume, before and after its claim is known.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use stowage_kubernetes::secret_template::{SecretTemplate, TemplateError};

use crate::intent::Secrets;

/// The secrets of a volume's whole life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretTemplates {
    pub(crate) provisioner: Option<SecretTemplate>,
    pub(crate) controller_publish: Option<SecretTemplate>,
    pub(crate) node_stage: Option<SecretTemplate>,
    pub(crate) node_publish: Option<SecretTemplate>,
    pub(crate) controller_expand: Option<SecretTemplate>,
    pub(crate) node_expand: Option<SecretTemplate>,
    pub(crate) controller_modify: Option<SecretTemplate>,
}

/// The values of placeholders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceholderValues<'a> {
    pub(crate) volume: &'a str,
    pub(crate) claim: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) annotations: &'a BTreeMap<String, String>,
}

impl SecretTemplates {
    /// Whether the claim's annotations are needed to resolve them.
    pub(crate) fn need_annotations(&self) -> bool {
        let all = [
            &self.provisioner,
            &self.controller_publish,
            &self.node_stage,
            &self.node_publish,
            &self.controller_expand,
            &self.node_expand,
            &self.controller_modify,
        ];
        let mut templates = all.into_iter().flatten();
        templates.any(|template| template.name.contains("${pvc.annotations["))
    }

    pub(crate) fn resolve(&self, values: PlaceholderValues<'_>) -> Result<Secrets, TemplateError> {
        let resolve = |template: &Option<SecretTemplate>| {
            let resolved = template.as_ref().map(|template| values.resolve(template));
            resolved.transpose()
        };
        Ok(Secrets {
            provisioner: resolve(&self.provisioner)?,
            controller_publish: resolve(&self.controller_publish)?,
            node_stage: resolve(&self.node_stage)?,
            node_publish: resolve(&self.node_publish)?,
            controller_expand: resolve(&self.controller_expand)?,
            node_expand: resolve(&self.node_expand)?,
            controller_modify: resolve(&self.controller_modify)?,
        })
    }
}

impl PlaceholderValues<'_> {
    pub(crate) fn resolve(
        self,
        template: &SecretTemplate,
    ) -> Result<SecretReference, TemplateError> {
        template.resolve(
            |token| match token {
                "pv.name" => Some(Ok(self.volume)),
                "pvc.namespace" => Some(Ok(self.namespace)),
                _ => None,
            },
            |token| match token {
                "pv.name" => Some(Ok(self.volume)),
                "pvc.namespace" => Some(Ok(self.namespace)),
                "pvc.name" => Some(Ok(self.claim)),
                token => {
                    let key = token
                        .strip_prefix("pvc.annotations['")?
                        .strip_suffix("']")?;
                    let value = self.annotations.get(key).map(String::as_str);
                    Some(value.ok_or_else(|| key.to_owned()))
                }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(namespace: &str, name: &str) -> Result<(String, String), TemplateError> {
        let annotations = BTreeMap::from([("team.example/secret".to_owned(), "blue".to_owned())]);
        let values = PlaceholderValues {
            volume: "pvc-1",
            claim: "data",
            namespace: "shop",
            annotations: &annotations,
        };
        let template = SecretTemplate {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        };
        let reference = values.resolve(&template)?;
        Ok((reference.namespace.unwrap(), reference.name.unwrap()))
    }

    #[test]
    fn placeholders_are_replaced() {
        let both = |one: &str, two: &str| Ok((one.to_owned(), two.to_owned()));
        assert_eq!(resolve("storage", "key"), both("storage", "key"));
        assert_eq!(
            resolve("${pvc.namespace}", "${pvc.name}-${pv.name}.key"),
            both("shop", "data-pvc-1.key")
        );
        assert_eq!(
            resolve("x-${pv.name}", "${pvc.annotations['team.example/secret']}"),
            both("x-pvc-1", "blue")
        );
    }

    #[test]
    fn what_does_not_resolve_says_why() {
        for (namespace, name, expected) in [
            ("${pvc.name}", "key", "`${pvc.name}` is not known here"),
            ("storage", "${pod.name}", "`${pod.name}` is not known here"),
            (
                "storage",
                "${pvc.annotations['gone']}",
                "no annotation `gone`",
            ),
            ("Storage", "key", "not a valid name of a namespace"),
            ("storage", "key_1", "not a valid name of a secret"),
            ("storage", "${pvc.name", "not a valid name of a secret"),
            ("storage", "a..b", "not a valid name of a secret"),
        ] {
            let error = resolve(namespace, name).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
