//! The certificate of HTTPS endpoints, and the authority that clients must trust.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate of one's own, as `openssl req -x509` makes it, and its key: presented in place of the cluster's.
const OWN_CERTIFICATE: &str = "server.pem";
const OWN_KEY: &str = "server.key";

/// The authority stays in the directory; the certificate is new each time, for the addresses that are served.
pub fn server_config(
    directory: &Path,
    addresses: &[SocketAddr],
) -> Result<Arc<rustls::ServerConfig>, Box<dyn Error + Send + Sync>> {
    stowage_service::client::install_crypto_provider();
    if directory.join(OWN_CERTIFICATE).is_file() {
        let chain = CertificateDer::pem_file_iter(directory.join(OWN_CERTIFICATE))?;
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        return config(
            chain,
            PrivateKeyDer::from_pem_file(directory.join(OWN_KEY))?,
        );
    }
    let issuer = authority(directory)?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.subject_alt_names.extend(
        addresses
            .iter()
            .map(SocketAddr::ip)
            .chain([[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()])
            .map(SanType::IpAddress),
    );
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der())?;
    config(vec![certificate.der().clone()], key)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<rustls::ServerConfig>, Box<dyn Error + Send + Sync>> {
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

fn authority(directory: &Path) -> Result<Issuer<'static, KeyPair>, Box<dyn Error + Send + Sync>> {
    let certificate = directory.join("ca.pem");
    let key = directory.join("ca.key");
    if !certificate.is_file() {
        let fresh = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "simulated array");
        std::fs::write(&key, fresh.serialize_pem())?;
        std::fs::write(&certificate, params.self_signed(&fresh)?.pem())?;
    }
    let key = KeyPair::from_pem(&std::fs::read_to_string(key)?)?;
    Ok(Issuer::from_ca_cert_pem(
        &std::fs::read_to_string(certificate)?,
        key,
    )?)
}
