//! Which certificates are trusted where a secret has a `caCertificate`: those that the image's authorities or these have
//! signed, and these themselves.
//!
//! A cluster's own certificate, as `openssl req -x509` makes it, says that it is an authority. Such a certificate is not
//! accepted for a server by WebPKI's rules, but it is by Go's where it is listed, and so secrets list it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use stowage_api::causes::chain;

use super::ApiError;

/// How WebPKI refuses an authority that serves. The error itself is of a crate that nothing here names.
const AUTHORITY_SERVES: &str = "CaUsedAsEndEntity";

/// How connections are made that trust these certificates, too.
pub(super) fn config(pem: &str) -> Result<ClientConfig, ApiError> {
    let wrong = |reason: String| ApiError::CaCertificate(reason);
    let listed = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(chain(&error)))?;
    if listed.is_empty() {
        return Err(wrong("it contains no certificate".to_owned()));
    }
    let installed = CryptoProvider::get_default().cloned();
    let provider = installed.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let authorities = Verifier::new_with_extra_roots(listed.clone(), provider.clone())
        .map_err(|error| wrong(chain(&error)))?;
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ApiError::Client(chain(&error)))?;
    let trust = Arc::new(Trust {
        authorities,
        listed,
    });
    Ok(versions
        .dangerous()
        .with_custom_certificate_verifier(trust)
        .with_no_client_auth())
}

#[derive(Debug)]
struct Trust {
    authorities: Verifier,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verified = self
            .authorities
            .verify_server_cert(certificate, between, name, ocsp, now);
        match verified {
            // Its time was looked at before, its name was not.
            Err(error) if serves_as_authority(&error) && self.listed.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

fn serves_as_authority(error: &TlsError) -> bool {
    match error {
        TlsError::InvalidCertificate(CertificateError::Other(reason)) => {
            format!("{:?}", reason.0).contains(AUTHORITY_SERVES)
        }
        _ => false,
    }
}
