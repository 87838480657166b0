//! A REST client for each array, as its object describes it.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::SecretReference;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use stowage_api::causes::chain;
use stowage_api::vpsa::{Tls, Vpsa};
use stowage_kubernetes::secrets::{self, SecretError};

use super::array::step::Trouble;
use super::cipher::{Ciphers, Place};
use crate::rest::{Client, ClientOptions, Trust};

/// The key of a token's Secret where none is named.
const TOKEN_KEY: &str = "token";

/// Where the token of an array is.
pub const TOKEN_FIELD: &str = "spec.token";

/// Makes clients, and keeps them for as long as nothing changes.
pub struct Clients {
    /// For Secrets.
    pub kubernetes: kube::Client,
    /// The namespace of Secrets that name none.
    pub namespace: String,
    /// For tokens.
    pub ciphers: Arc<Ciphers>,
    /// The clients that were made, by the names of the objects.
    pub known: Mutex<HashMap<String, Known>>,
}

/// A client, and what it was made from. It has no `Debug`: that is a secret.
pub struct Known {
    address: String,
    trust: Trust,
    token: SecretString,
    client: Arc<Client>,
    /// What came of the last look at the array through this client.
    heard: Option<Result<(), Trouble>>,
}

impl Clients {
    /// The client of an array.
    ///
    /// Called twice: the same, unless the object or its Secret has changed.
    pub async fn client(&self, array: &Vpsa) -> Result<Arc<Client>, Trouble> {
        let name = array.name_any();
        let address = array
            .spec
            .hostname
            .as_deref()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let trust = trust(array.spec.tls.as_ref());
        let token = self.token(array, &name).await?;
        if let Some(known) = self.known.lock().get(&name)
            && known.address == address
            && known.trust == trust
            && known.token.expose_secret() == token.expose_secret()
        {
            return Ok(Arc::clone(&known.client));
        }
        let parsed = address
            .parse()
            .map_err(|error| Trouble::Description(format!("`hostname`: {error}")))?;
        let options = ClientOptions::new(parsed, trust.clone(), token.clone());
        let client = Arc::new(Client::new(options)?);
        let known = Known {
            address,
            trust,
            token,
            client: Arc::clone(&client),
            heard: None,
        };
        self.known.lock().insert(name, known);
        Ok(client)
    }

    /// What came of the last look at an array; none if nobody has looked through the client that it has now.
    pub fn heard(&self, name: &str) -> Option<Result<(), Trouble>> {
        self.known.lock().get(name)?.heard.clone()
    }

    /// Somebody has looked at an array through this client.
    pub fn hear(&self, name: &str, client: &Arc<Client>, heard: Result<(), Trouble>) {
        let mut known = self.known.lock();
        if let Some(known) = known.get_mut(name)
            && Arc::ptr_eq(&known.client, client)
        {
            known.heard = Some(heard);
        }
    }

    /// An array is gone. Called twice: there is nothing left.
    pub fn forget(&self, name: &str) {
        self.known.lock().remove(name);
    }

    async fn token(&self, array: &Vpsa, name: &str) -> Result<SecretString, Trouble> {
        if let Some(reference) = &array.spec.token_secret_ref {
            let namespace = reference.namespace.clone();
            let place = SecretReference {
                namespace: Some(namespace.unwrap_or_else(|| self.namespace.clone())),
                name: Some(reference.name.clone()),
            };
            let mut values = secrets::read(&self.kubernetes, Some(&place))
                .await
                .map_err(|error| no_secret(&error))?;
            let key = reference.key.as_deref().unwrap_or(TOKEN_KEY);
            let token = values.remove(key).map(|text| text.trim().into());
            return token.ok_or_else(|| {
                Trouble::Description(format!(
                    "secret `{}` has no key `{key}`: add it, or correct `tokenSecretRef`",
                    reference.name
                ))
            });
        }
        let Some(token) = &array.spec.token else {
            let text = "it has neither `tokenSecretRef` nor `token`: write one of them";
            return Err(Trouble::Description(text.to_owned()));
        };
        let place = Place {
            object: name,
            field: TOKEN_FIELD,
        };
        match self.ciphers.tokens.read(token, place) {
            Ok(held) => Ok(held.secret()),
            Err(error) => Err(Trouble::Description(format!("`token`: {error}"))),
        }
    }
}

/// Why the Secret of a token cannot be read. It is the VPSA that names it, and no class.
fn no_secret(error: &SecretError) -> Trouble {
    Trouble::Description(match error {
        SecretError::Missing(name) => {
            format!("secret `{name}` does not exist: create it, or correct `tokenSecretRef`")
        }
        SecretError::Forbidden(_) | SecretError::NotText(..) | SecretError::Unreadable(..) => {
            chain(error)
        }
    })
}

fn trust(tls: Option<&Tls>) -> Trust {
    let Some(tls) = tls else {
        return Trust::Machine;
    };
    if tls.enabled == Some(false) {
        return Trust::Plain;
    }
    if tls.insecure_skip_verify == Some(true) {
        return Trust::Anybody;
    }
    let certificate = tls.ca_certificate.clone();
    certificate
        .filter(|text| !text.trim().is_empty())
        .map_or(Trust::Machine, Trust::Only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_what_the_object_says() {
        let tls = |enabled, certificate: Option<&str>, skip| Tls {
            enabled,
            ca_certificate: certificate.map(ToOwned::to_owned),
            insecure_skip_verify: skip,
            ..Tls::default()
        };
        assert_eq!(trust(None), Trust::Machine);
        for (tls, expected) in [
            (tls(None, None, None), Trust::Machine),
            (tls(Some(false), Some("PEM"), None), Trust::Plain),
            (tls(Some(true), None, Some(true)), Trust::Anybody),
            (
                tls(None, Some("PEM"), Some(false)),
                Trust::Only("PEM".to_owned()),
            ),
            (tls(None, Some(" "), None), Trust::Machine),
        ] {
            assert_eq!(trust(Some(&tls)), expected);
        }
    }
}
