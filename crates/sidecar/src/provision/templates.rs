//! Names of secrets with holes in them, such as `${pvc.name}`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;

use crate::intent::Secrets;

/// Where a secret is, before the claim is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretTemplate {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

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

/// What fills the holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) volume: &'a str,
    pub(crate) claim: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) annotations: &'a BTreeMap<String, String>,
}

/// Why a template names no secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the secret template `{template}` does not resolve: `${{{token}}}` is not known here")]
    Unknown { template: String, token: String },
    #[error(
        "the secret template `{template}` does not resolve: the claim has no annotation `{key}`"
    )]
    NoAnnotation { template: String, key: String },
    #[error(
        "the secret template `{template}` resolves to `{result}`, which no {what} can be called"
    )]
    Invalid {
        template: String,
        result: String,
        what: &'static str,
    },
}

impl SecretTemplates {
    /// Whether the claim's annotations are needed to fill the holes.
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

    pub(crate) fn resolve(&self, filling: Filling<'_>) -> Result<Secrets, TemplateError> {
        let resolve = |template: &Option<SecretTemplate>| {
            let resolved = template.as_ref().map(|template| template.resolve(filling));
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

impl SecretTemplate {
    pub(crate) fn resolve(&self, filling: Filling<'_>) -> Result<SecretReference, TemplateError> {
        // A namespace that follows the claim's name or annotations would let users choose whose secrets are read.
        let namespace = fill(&self.namespace, |token| match token {
            "pv.name" => Some(Ok(filling.volume)),
            "pvc.namespace" => Some(Ok(filling.namespace)),
            _ => None,
        })?;
        let name = fill(&self.name, |token| match token {
            "pv.name" => Some(Ok(filling.volume)),
            "pvc.namespace" => Some(Ok(filling.namespace)),
            "pvc.name" => Some(Ok(filling.claim)),
            token => {
                let key = token
                    .strip_prefix("pvc.annotations['")?
                    .strip_suffix("']")?;
                Some(
                    filling
                        .annotations
                        .get(key)
                        .map(String::as_str)
                        .ok_or_else(|| key.to_owned()),
                )
            }
        })?;
        check(
            &self.namespace,
            &namespace,
            is_label(&namespace),
            "namespace",
        )?;
        let valid = name.len() <= 253 && name.split('.').all(is_label_of_any_length);
        check(&self.name, &name, valid, "secret")?;
        Ok(SecretReference {
            name: Some(name),
            namespace: Some(namespace),
        })
    }
}

/// Replaces each `${token}`. The value of a token may be missing: then its key is known.
fn fill<'a>(
    template: &str,
    value: impl Fn(&str) -> Option<Result<&'a str, String>>,
) -> Result<String, TemplateError> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(start) = rest.find("${") {
        filled += &rest[..start];
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        let token = &rest[start + 2..start + length];
        match value(token) {
            Some(Ok(value)) => filled += value,
            Some(Err(key)) => {
                let template = template.to_owned();
                return Err(TemplateError::NoAnnotation { template, key });
            }
            None => {
                return Err(TemplateError::Unknown {
                    template: template.to_owned(),
                    token: token.to_owned(),
                });
            }
        }
        rest = &rest[start + length + 1..];
    }
    filled += rest;
    Ok(filled)
}

fn check(
    template: &str,
    result: &str,
    valid: bool,
    what: &'static str,
) -> Result<(), TemplateError> {
    if valid {
        return Ok(());
    }
    Err(TemplateError::Invalid {
        template: template.to_owned(),
        result: result.to_owned(),
        what,
    })
}

/// A DNS label: what a namespace may be called.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(namespace: &str, name: &str) -> Result<(String, String), TemplateError> {
        let annotations = BTreeMap::from([("team.example/secret".to_owned(), "blue".to_owned())]);
        let filling = Filling {
            volume: "pvc-1",
            claim: "data",
            namespace: "shop",
            annotations: &annotations,
        };
        let template = SecretTemplate {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        };
        let reference = template.resolve(filling)?;
        Ok((reference.namespace.unwrap(), reference.name.unwrap()))
    }

    #[test]
    fn holes_are_filled() {
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
            ("Storage", "key", "which no namespace can be called"),
            ("storage", "key_1", "which no secret can be called"),
            ("storage", "${pvc.name", "which no secret can be called"),
            ("storage", "a..b", "which no secret can be called"),
        ] {
            let error = resolve(namespace, name).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
