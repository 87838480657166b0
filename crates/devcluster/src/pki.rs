//! A certificate authority per cluster, and kubeconfigs made with it. Every client verifies, nobody skips.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

use crate::error::{Doing, Error, Result};
use crate::places;

/// The authority of one cluster, in a directory of its own.
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key on disk.
#[derive(Clone, Debug)]
pub struct Pair {
    /// PEM certificate.
    pub certificate: PathBuf,
    /// PEM private key, mode 0600.
    pub key: PathBuf,
}

/// The keys of ServiceAccount tokens on disk.
#[derive(Clone, Debug)]
pub struct TokenKeys {
    /// Signs.
    pub private: PathBuf,
    /// Checks.
    pub public: PathBuf,
}

/// Who a certificate is for. `names` are of a server; a client has none.
#[derive(Clone, Debug, Default)]
pub struct Subject<'a> {
    /// CN: the user's or server's name.
    pub common_name: &'a str,
    /// O: the user's group.
    pub organization: Option<&'a str>,
    /// DNS names of a server.
    pub names: Vec<String>,
    /// Addresses of a server.
    pub addresses: Vec<Ipv4Addr>,
}

impl Authority {
    /// Opens the authority in `directory`, making it the first time. Called twice: the same authority.
    pub fn open(directory: &Path) -> Result<Self> {
        let directory = directory.to_owned();
        places::make(&directory)?;
        let pair = Pair::at(&directory, "ca");
        if !pair.is_there() {
            let key = new_key("ca")?;
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            params
                .distinguished_name
                .push(DnType::CommonName, "stowage dev cluster");
            let certificate = params.self_signed(&key).map_err(named("ca"))?;
            pair.write(&certificate.pem(), &key)?;
        }
        let key = KeyPair::from_pem(&read(&pair.key)?).map_err(named("ca"))?;
        let issuer =
            Issuer::from_ca_cert_pem(&read(&pair.certificate)?, key).map_err(named("ca"))?;
        Ok(Self { directory, issuer })
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        Pair::at(&self.directory, "ca").certificate
    }

    /// The key that signs ServiceAccount tokens, and the public half that checks them.
    pub fn token_keys(&self) -> Result<TokenKeys> {
        let keys = TokenKeys {
            private: self.directory.join("service-account.key"),
            public: self.directory.join("service-account.pub"),
        };
        // The public half is written last: if it is there, so is the other.
        if !keys.public.is_file() {
            let key = new_key("service-account")?;
            places::write(&keys.private, key.serialize_pem())?;
            places::write(&keys.public, key.public_key_pem())?;
        }
        Ok(keys)
    }

    /// The certificate `file`, issued the first time. Called twice: the same certificate.
    pub fn issue(&self, file: &str, subject: &Subject) -> Result<Pair> {
        let pair = Pair::at(&self.directory, file);
        if pair.is_there() {
            return Ok(pair);
        }
        let key = new_key(file)?;
        let mut params = CertificateParams::new(subject.names.clone()).map_err(named(file))?;
        params.subject_alt_names.extend(
            subject
                .addresses
                .iter()
                .map(|address| SanType::IpAddress((*address).into())),
        );
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, subject.common_name);
        if let Some(organization) = subject.organization {
            name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // etcd checks its own server certificate as a client's, too.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !params.subject_alt_names.is_empty() {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let certificate = params.signed_by(&key, &self.issuer).map_err(named(file))?;
        pair.write(&certificate.pem(), &key)?;
        Ok(pair)
    }

    /// A kubeconfig `<file>.kubeconfig` for a client certificate of this authority.
    pub fn kubeconfig(&self, file: &str, server: &str, subject: &Subject) -> Result<PathBuf> {
        let path = self.directory.join(format!("{file}.kubeconfig"));
        if path.is_file() {
            return Ok(path);
        }
        let pair = self.issue(file, subject)?;
        let data = |path: &Path| -> Result<String> { Ok(STANDARD.encode(read(path)?)) };
        // JSON is YAML: no other writer is needed.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stowage",
            "clusters": [{"name": "stowage", "cluster": {
                "server": server,
                "certificate-authority-data": data(&self.certificate())?,
            }}],
            "users": [{"name": subject.common_name, "user": {
                "client-certificate-data": data(&pair.certificate)?,
                "client-key-data": data(&pair.key)?,
            }}],
            "contexts": [{"name": "stowage", "context": {
                "cluster": "stowage", "user": subject.common_name,
            }}],
        });
        places::write(&path, format!("{config:#}\n"))?;
        Ok(path)
    }
}

impl Pair {
    fn at(directory: &Path, name: &str) -> Self {
        Self {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        }
    }

    /// The certificate is written last: if it is there, so is its key.
    fn is_there(&self) -> bool {
        self.certificate.is_file()
    }

    fn write(&self, certificate: &str, key: &KeyPair) -> Result<()> {
        places::write(&self.key, key.serialize_pem())?;
        places::write(&self.certificate, certificate)
    }
}

fn new_key(what: &str) -> Result<KeyPair> {
    KeyPair::generate().map_err(named(what))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).doing(|| format!("cannot read `{}`", path.display()))
}

fn named(what: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let what = what.to_owned();
    |cause| Error::Certificate { what, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_issued_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let subject = Subject {
            common_name: "admin",
            organization: Some("system:masters"),
            ..Subject::default()
        };
        let first = Authority::open(directory.path()).unwrap();
        let config = first
            .kubeconfig("admin", "https://192.0.2.1:6443", &subject)
            .unwrap();
        let before = read(&config).unwrap();
        let again = Authority::open(directory.path()).unwrap();
        assert_eq!(
            again
                .kubeconfig("admin", "https://192.0.2.1:6443", &subject)
                .unwrap(),
            config
        );
        assert_eq!(read(&config).unwrap(), before);
        assert_eq!(
            again.issue("admin", &subject).unwrap().certificate,
            first.issue("admin", &subject).unwrap().certificate
        );
    }
}
