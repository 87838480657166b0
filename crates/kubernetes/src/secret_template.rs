//! Names of secrets with placeholders in them, such as `${pvc.name}`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;

/// Keys of a class's parameters with this prefix are for the controllers and never reach the driver.
pub const PREFIX: &str = "csi.storage.k8s.io/";

/// Where a secret is, before what it is for is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretTemplate {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// Why a template names no secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder that is not known.
    #[error(
        "the secret template `{template}` cannot be resolved: `${{{token}}}` is not known here"
    )]
    Unknown {
        /// The template.
        template: String,
        /// The placeholder.
        token: String,
    },
    /// A placeholder for an annotation that is not there.
    #[error(
        "the secret template `{template}` cannot be resolved: the claim has no annotation `{key}`"
    )]
    NoAnnotation {
        /// The template.
        template: String,
        /// The annotation.
        key: String,
    },
    /// All placeholders are replaced, but the result is not a name.
    #[error(
        "the secret template `{template}` resolves to `{result}`, which is not a valid name of a {what}"
    )]
    Invalid {
        /// The template.
        template: String,
        /// What became of it.
        result: String,
        /// What it should be the name of.
        what: &'static str,
    },
}

/// A name without its namespace, or the other way round.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{0}` needs parameter `{1}`, and neither may be empty")]
pub struct IncompleteReference(pub String, pub String);

/// A key with the prefix that nobody reads.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{0}` is unknown: keys that begin with `{PREFIX}` are not for the driver")]
pub struct UnknownParameter(pub String);

/// The parameters of a class that are for the driver. Of the others, those for the secrets of `purposes` (such as
/// `snapshotter-`) and those in `others` are known.
pub fn for_driver(
    parameters: &BTreeMap<String, String>,
    purposes: &[&str],
    others: &[&str],
) -> Result<BTreeMap<String, String>, UnknownParameter> {
    let known = |key: &String| {
        let of = |purpose: &&str| {
            let (name, namespace) = keys(purpose);
            *key == name || *key == namespace
        };
        others.contains(&key.as_str()) || purposes.iter().any(of)
    };
    let (reserved, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = parameters
        .clone()
        .into_iter()
        .partition(|(key, _)| key.starts_with(PREFIX));
    match reserved.into_keys().find(|key| !known(key)) {
        Some(unknown) => Err(UnknownParameter(unknown)),
        None => Ok(rest),
    }
}

/// The keys of name and namespace of the secret for one purpose.
fn keys(purpose: &str) -> (String, String) {
    let name = format!("{PREFIX}{purpose}secret-name");
    let namespace = format!("{PREFIX}{purpose}secret-namespace");
    (name, namespace)
}

/// The value of a token, if the token is known. A value may be missing: then its key is known.
pub type Value<'a> = Option<Result<&'a str, String>>;

impl SecretTemplate {
    /// The template under a pair of keys of a class.
    pub fn under(
        parameters: &BTreeMap<String, String>,
        name_key: String,
        namespace_key: String,
    ) -> Result<Option<Self>, IncompleteReference> {
        let value = |key: &str| parameters.get(key).map(String::as_str);
        match (value(&name_key), value(&namespace_key)) {
            (None, None) => Ok(None),
            (None | Some(""), _) => Err(IncompleteReference(namespace_key, name_key)),
            (_, None | Some("")) => Err(IncompleteReference(name_key, namespace_key)),
            (Some(name), Some(namespace)) => Ok(Some(Self {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            })),
        }
    }

    /// The template under the keys for one purpose, such as `snapshotter-`.
    pub fn of(
        parameters: &BTreeMap<String, String>,
        purpose: &str,
    ) -> Result<Option<Self>, IncompleteReference> {
        let (name, namespace) = keys(purpose);
        Self::under(parameters, name, namespace)
    }

    /// Replaces the placeholders. Fewer of them are known in the namespace: it must not follow what users can choose, or they
    /// would choose whose secrets are read.
    pub fn resolve<'a>(
        &self,
        in_namespace: impl Fn(&str) -> Value<'a>,
        in_name: impl Fn(&str) -> Value<'a>,
    ) -> Result<SecretReference, TemplateError> {
        let namespace = replace(&self.namespace, in_namespace)?;
        let name = replace(&self.name, in_name)?;
        let valid = is_label(&namespace);
        check(&self.namespace, &namespace, valid, "namespace")?;
        let valid = name.len() <= 253 && name.split('.').all(is_label_of_any_length);
        check(&self.name, &name, valid, "secret")?;
        Ok(SecretReference {
            name: Some(name),
            namespace: Some(namespace),
        })
    }
}

/// Replaces each `${token}`.
fn replace<'a>(template: &str, value: impl Fn(&str) -> Value<'a>) -> Result<String, TemplateError> {
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
