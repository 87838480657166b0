//! The content of secrets: read for each call, kept nowhere, never printed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Secret, SecretReference};
use kube::{Api, Client};

use crate::answer::Answer;

/// Why there is no secret for a call.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is none of this name.
    #[error("secret `{0}` does not exist: create it, or correct its name in the class")]
    Missing(String),
    /// It may not be read.
    #[error("the service account may not read secret `{0}`: add `get` on `secrets` to its role")]
    Forbidden(String),
    /// A value is not text.
    #[error("the value of `{1}` in secret `{0}` is not UTF-8 text")]
    NotText(String, String),
    /// Something else went wrong.
    #[error("secret `{0}` cannot be read")]
    Unreadable(String, #[source] Box<kube::Error>),
}

/// Reads a secret. No reference: no secrets.
pub async fn read(
    client: &Client,
    reference: Option<&SecretReference>,
) -> Result<BTreeMap<String, String>, SecretError> {
    let Some(reference) = reference else {
        return Ok(BTreeMap::new());
    };
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let name = reference.name.as_deref().unwrap_or_default();
    let shown = format!("{namespace}/{name}");
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let error = match api.get(name).await {
        Ok(secret) => return texts(secret.data.unwrap_or_default(), &shown),
        Err(error) => error,
    };
    Err(match Answer::of(&error) {
        Answer::Gone => SecretError::Missing(shown),
        Answer::Forbidden(_) => SecretError::Forbidden(shown),
        _ => SecretError::Unreadable(shown, Box::new(error)),
    })
}

/// The same for calls that a driver may be able to do without: a secret that is gone counts as none. If the driver
/// needs it, it says so.
pub async fn read_if_there(
    client: &Client,
    reference: Option<&SecretReference>,
) -> Result<BTreeMap<String, String>, SecretError> {
    match read(client, reference).await {
        Err(SecretError::Missing(_)) => Ok(BTreeMap::new()),
        result => result,
    }
}

fn texts(
    data: BTreeMap<String, k8s_openapi::ByteString>,
    shown: &str,
) -> Result<BTreeMap<String, String>, SecretError> {
    data.into_iter()
        .map(|(key, value)| match String::from_utf8(value.0) {
            Ok(value) => Ok((key, value)),
            Err(_) => Err(SecretError::NotText(shown.to_owned(), key)),
        })
        .collect()
}
