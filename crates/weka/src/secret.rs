//! The secret of a request, or the legacy one: where the Weka cluster is and who we are there.
//!
//! Nothing here prints a value of the secret but endpoints, scheme and organization.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use secrecy::SecretString;
use sha2::{Digest, Sha256};
use stowage_rest::AddressError;

use crate::rest::endpoint::Endpoint;

/// The organization of those who name none.
const ROOT_ORGANIZATION: &str = "Root";

/// The protocol of the cluster's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Identifies a secret by all of its content: one that changed in any way is another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

/// A secret that has all it needs.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) scheme: Scheme,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) organization: String,
    pub(crate) username: SecretString,
    pub(crate) password: SecretString,
    pub(crate) local_container: Option<String>,
    pub(crate) auto_update_endpoints: bool,
    pub(crate) ca_certificate: Option<String>,
    pub(crate) vault: VaultAccess,
    /// Where the cluster serves NFS, if not at the addresses of an interface group.
    pub(crate) nfs_addresses: Option<Vec<IpAddr>>,
}

/// How new filesystems get keys of their own in HashiCorp Vault; a class may say otherwise.
#[derive(Clone, Default)]
pub(crate) struct VaultAccess {
    pub(crate) key: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) role_id: Option<SecretString>,
    pub(crate) secret_id: Option<SecretString>,
}

/// Why a secret cannot be used. Says which key, never what is in it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the secret's key `{0}` is missing or empty: add it")]
    Missing(&'static str),
    #[error("the secret's key `scheme` must be `http` or `https`")]
    Scheme,
    #[error("the secret's key `endpoints` contains no valid address: {0}")]
    Endpoints(#[source] AddressError),
    #[error(
        "the secret's key `nfsTargetIps` contains no IP address, which mounts by NFS need: correct or remove it"
    )]
    NfsTargets,
}

impl Credentials {
    /// Reads a secret. Unknown keys are ignored.
    pub(crate) fn parse(secret: &BTreeMap<String, String>) -> Result<Self, SecretError> {
        let given = |key: &str| {
            let value = secret.get(key).map(|value| value.trim());
            value.filter(|value| !value.is_empty())
        };
        let required = |key: &'static str| given(key).ok_or(SecretError::Missing(key));
        // Spaces may belong to a password; the line end is the editor's.
        let password = secret
            .get("password")
            .map(|value| value.trim_end_matches(['\n', '\r']));
        let password = password.filter(|password| !password.is_empty());
        let scheme = match given("scheme").map(str::to_ascii_lowercase).as_deref() {
            None | Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(SecretError::Scheme),
        };
        Ok(Self {
            fingerprint: fingerprint(secret),
            scheme,
            endpoints: endpoints(required("endpoints")?)?,
            organization: given("organization")
                .unwrap_or(ROOT_ORGANIZATION)
                .to_owned(),
            username: required("username")?.into(),
            password: password.ok_or(SecretError::Missing("password"))?.into(),
            local_container: given("localContainerName").map(str::to_owned),
            auto_update_endpoints: given("autoUpdateEndpoints").is_some_and(is_true),
            ca_certificate: given("caCertificate").map(str::to_owned),
            nfs_addresses: addresses(given("nfsTargetIps").unwrap_or_default()),
            vault: VaultAccess {
                key: given("kmsVaultKeyIdentifierForFilesystemEncryption").map(str::to_owned),
                namespace: given("kmsVaultNamespaceForFilesystemEncryption").map(str::to_owned),
                role_id: given("kmsVaultRoleIdForFilesystemEncryption").map(Into::into),
                secret_id: given("kmsVaultSecretIdForFilesystemEncryption").map(Into::into),
            },
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("scheme", &self.scheme)
            .field("endpoints", &self.endpoints)
            .field("organization", &self.organization)
            .finish_non_exhaustive()
    }
}

/// Addresses separated by commas or line ends. Wrong ones are left out as long as one is right.
fn endpoints(list: &str) -> Result<Vec<Endpoint>, SecretError> {
    let mut endpoints = Vec::new();
    let mut wrong = None;
    for word in list
        .split([',', '\n'])
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        match word.parse::<Endpoint>() {
            Ok(endpoint) if endpoints.contains(&endpoint) => {}
            Ok(endpoint) => endpoints.push(endpoint),
            Err(error) => {
                tracing::warn!(%error, "Ignoring an invalid endpoint of the secret.");
                wrong = Some(error);
            }
        }
    }
    match (endpoints.is_empty(), wrong) {
        (false, _) => Ok(endpoints),
        (true, Some(error)) => Err(SecretError::Endpoints(error)),
        (true, None) => Err(SecretError::Missing("endpoints")),
    }
}

/// `true` as people and programs write it. Anything else is no reason to fail: only the endpoints of the secret are used.
fn is_true(text: &str) -> bool {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => true,
        "false" | "f" | "0" => false,
        _ => {
            tracing::warn!(
                "The secret's key `autoUpdateEndpoints` is neither `true` nor `false`; endpoints are not updated."
            );
            false
        }
    }
}

/// Addresses separated by commas or line ends. Wrong ones are left out as long as one is right; none if all are wrong, which
/// matters to mounts by NFS only.
fn addresses(list: &str) -> Option<Vec<IpAddr>> {
    let words = list.split([',', '\n']).map(str::trim);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let right: Vec<_> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if right.len() < words.len() {
        tracing::warn!(
            "The secret's key `nfsTargetIps` contains something that is not an IP address; it is not used."
        );
    }
    (words.is_empty() || !right.is_empty()).then_some(right)
}

fn fingerprint(secret: &BTreeMap<String, String>) -> Fingerprint {
    let mut hash = Sha256::new();
    for text in secret.iter().flat_map(|(key, value)| [key, value]) {
        // With their lengths, so that no two secrets are the same text.
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    Fingerprint(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn secret(more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let base = [
            ("username", "admin\n"),
            ("password", " pass word \n"),
            ("endpoints", "10.0.0.1:14000\n10.0.0.2, weka.example"),
            ("organization", ""),
            ("scheme", "HTTPS"),
        ];
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        base.into_iter()
            .chain(more.iter().copied())
            .map(owned)
            .collect()
    }

    #[test]
    fn values_are_trimmed_and_lists_split() {
        let credentials = Credentials::parse(&secret(&[])).unwrap();
        assert_eq!(credentials.username.expose_secret(), "admin");
        assert_eq!(credentials.password.expose_secret(), " pass word ");
        assert_eq!(credentials.organization, "Root");
        assert_eq!(credentials.scheme, Scheme::Https);
        let endpoints: Vec<_> = credentials
            .endpoints
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            endpoints,
            ["10.0.0.1:14000", "10.0.0.2:14000", "weka.example:14000"]
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for key in ["username", "password", "endpoints"] {
            for value in [None, Some(""), Some("\n")] {
                let mut secret = secret(&[]);
                secret.remove(key);
                secret.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                let error = Credentials::parse(&secret).unwrap_err();
                assert_eq!(error, SecretError::Missing(key));
            }
        }
        assert_eq!(
            Credentials::parse(&secret(&[("scheme", "ftp")])).unwrap_err(),
            SecretError::Scheme
        );
        let error = Credentials::parse(&secret(&[("endpoints", "ho st:1")])).unwrap_err();
        assert!(matches!(error, SecretError::Endpoints(_)), "{error}");
    }

    #[test]
    fn what_only_some_calls_need_fails_no_others() {
        let updates = |text: &str| {
            let secret = secret(&[("autoUpdateEndpoints", text)]);
            Credentials::parse(&secret).unwrap().auto_update_endpoints
        };
        for (text, is_so) in [
            ("true", true),
            ("True", true),
            ("TRUE\n", true),
            ("1", true),
            ("false", false),
            ("False", false),
            ("maybe", false),
            ("", false),
        ] {
            assert_eq!(updates(text), is_so, "{text}");
        }
        let addresses = |text: &str| {
            let secret = secret(&[("nfsTargetIps", text)]);
            let addresses = Credentials::parse(&secret).unwrap().nfs_addresses;
            addresses.map(|addresses| addresses.len())
        };
        assert_eq!(addresses("10.0.0.1\n10.0.0.2,fd00::1"), Some(3));
        assert_eq!(addresses("10.0.0.1,nfs.example"), Some(1));
        assert_eq!(addresses(""), Some(0));
        assert_eq!(addresses("nfs.example"), None);
    }

    #[test]
    fn every_key_counts_for_the_fingerprint() {
        let print = |more: &[(&str, &str)]| Credentials::parse(&secret(more)).unwrap().fingerprint;
        assert!(print(&[]) == print(&[]));
        for change in [
            ("scheme", "http"),
            ("autoUpdateEndpoints", "true"),
            ("caCertificate", "x"),
            ("new", ""),
        ] {
            assert!(print(&[]) != print(&[change]), "{change:?}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", Credentials::parse(&secret(&[])).unwrap());
        assert!(shown.contains("10.0.0.1"), "{shown}");
        for hidden in ["admin", "pass word"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
