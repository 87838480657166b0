//! HTTP clients, and whom they trust.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, ClientBuilder};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use stowage_api::causes::chain;

/// Whom a client trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that the machine trusts.
    #[default]
    Machine,
    /// These certificates in PEM form and no others: of authorities, or of the array itself if nobody else has signed
    /// it. An array that shows exactly one of them is trusted whatever name is in it.
    Only(String),
    /// Whoever answers.
    Anybody,
    /// There is nothing to trust: plain HTTP.
    Plain,
}

impl Trust {
    /// `https`, or `http` where nothing is protected.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Machine | Self::Only(_) | Self::Anybody => "https",
            Self::Plain => "http",
        }
    }

    /// The port of that scheme.
    pub fn port(&self) -> u16 {
        match self {
            Self::Machine | Self::Only(_) | Self::Anybody => 443,
            Self::Plain => 80,
        }
    }
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The certificates.
    #[error(
        "the CA certificate is not valid: {0}; it must hold at least one certificate in PEM form"
    )]
    Certificate(String),
    /// Everything else.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

/// A client that follows no redirects and asks no proxy: what is sent to an array is for the array.
pub fn http_client(trust: &Trust, connect_timeout: Duration) -> Result<Client, TrustError> {
    let builder = Client::builder()
        .connect_timeout(connect_timeout)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    let trusting: ClientBuilder = match trust {
        Trust::Machine => builder,
        Trust::Anybody => builder.tls_danger_accept_invalid_certs(true),
        // Images without any certificates are fine for those who need none.
        Trust::Plain => builder.tls_certs_only(std::iter::empty()),
        Trust::Only(pem) => builder.tls_backend_preconfigured(config(pem)?),
    };
    trusting
        .build()
        .map_err(|error| TrustError::Client(chain(&error)))
}

fn config(pem: &str) -> Result<ClientConfig, TrustError> {
    let invalid = |error: &(dyn std::error::Error + 'static)| TrustError::Certificate(chain(error));
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(&error))?;
    let mut authorities = RootCertStore::empty();
    for certificate in &certificates {
        authorities
            .add(certificate.clone())
            .map_err(|error| invalid(&error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let signed =
        WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), provider.clone())
            .build()
            .map_err(|error| invalid(&error))?;
    let verifier = Pinned {
        certificates,
        signed,
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Client(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// Trusts what the given certificates have signed, and the given certificates themselves: rules of the trade forbid an
/// authority to serve, but arrays do with the one they made at their first start.
#[derive(Debug)]
struct Pinned {
    certificates: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.iter().any(|known| known == shown) {
            return Ok(ServerCertVerified::assertion());
        }
        self.signed
            .verify_server_cert(shown, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
