//! Secrets that classes and volumes name: whether they are there, and whether they would do.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Secret, SecretReference};
use stowage_kubernetes::secret_template::{SecretTemplate, TemplateError};

use super::Facts;
use crate::secret::{Credentials, SecretError};

/// Namespace and name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SecretName {
    pub(super) fn of(reference: &SecretReference) -> Option<Self> {
        Some(Self {
            namespace: reference.namespace.clone()?,
            name: reference.name.clone()?,
        })
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is known of a secret. Nothing in here comes from its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// It does not exist.
    Missing,
    /// It lacks a key, or the value of one cannot be used.
    Unusable(String),
    /// It has all that the driver needs.
    Usable,
}

impl SecretState {
    /// Looks at a secret, and keeps nothing of it.
    pub fn of(secret: Option<&Secret>) -> Self {
        let Some(secret) = secret else {
            return Self::Missing;
        };
        let values: BTreeMap<_, _> = secret
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), String::from_utf8_lossy(&value.0).into_owned()))
            .collect();
        match Credentials::parse(&values) {
            Ok(_) => Self::Usable,
            // It quotes an address of the secret.
            Err(SecretError::Endpoints(_)) => {
                Self::Unusable("the secret's key `endpoints` contains no valid address".to_owned())
            }
            Err(error) => Self::Unusable(error.to_string()),
        }
    }
}

/// What an object needs of the secrets that it names, each for a purpose.
pub(super) fn needs(
    facts: &Facts,
    named: impl IntoIterator<Item = (&'static str, SecretName)>,
) -> Vec<String> {
    let mut purposes: BTreeMap<SecretName, Vec<&str>> = BTreeMap::new();
    for (purpose, secret) in named {
        purposes.entry(secret).or_default().push(purpose);
    }
    let need = |(secret, purposes): (SecretName, Vec<&str>)| {
        let what = format!("the Secret `{secret}` ({})", purposes.join(", "));
        match facts.secrets.get(&secret)? {
            SecretState::Usable => None,
            SecretState::Missing => Some(format!("{what} does not exist: create it")),
            SecretState::Unusable(problem) => Some(format!("{what}: {problem}")),
        }
    };
    purposes.into_iter().filter_map(need).collect()
}

/// The secrets that a class names, each with its purpose. Errors say what is wrong with the class.
pub(super) fn of_class(
    parameters: &BTreeMap<String, String>,
    purposes: &[&'static str],
) -> Vec<Result<(&'static str, ClassSecret), String>> {
    let template = |purpose: &&'static str| {
        let template = SecretTemplate::of(parameters, &format!("{purpose}-"));
        let template = template.map_err(|error| error.to_string()).transpose()?;
        Some(template.map(|template| (*purpose, ClassSecret::of(&template))))
    };
    purposes.iter().filter_map(template).collect()
}

/// A secret of a class.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClassSecret {
    /// This one.
    Fixed(SecretName),
    /// Another for each claim.
    ByClaim(String),
    /// Not a name.
    Invalid(String),
}

impl ClassSecret {
    fn of(template: &SecretTemplate) -> Self {
        match template.resolve(|_| None, |_| None) {
            Ok(reference) => SecretName::of(&reference).map_or_else(
                || Self::Invalid("the secret has no name".to_owned()),
                Self::Fixed,
            ),
            Err(TemplateError::Invalid { .. }) => Self::Invalid(format!(
                "`{}/{}` is not a valid name of a Secret",
                template.namespace, template.name
            )),
            Err(_) => Self::ByClaim(format!("{}/{}", template.namespace, template.name)),
        }
    }
}
