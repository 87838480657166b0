//! Clients against a server that shows certificates of every kind.

use std::net::SocketAddr;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::Unanswered;

struct Made {
    pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
    params: CertificateParams,
}

fn self_signed(name: &str, is_authority: bool) -> Made {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if is_authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Made {
        pem: certificate.pem(),
        der: certificate.der().clone(),
        key,
        params,
    }
}

/// Answers every request, showing this certificate.
async fn serve(der: CertificateDer<'static>, key: &KeyPair) -> SocketAddr {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn ask(trust: Trust, server: SocketAddr, host: &str) -> Result<(), Unanswered> {
    let _ = ring::default_provider().install_default();
    let client = http_client(&trust, Duration::from_secs(5)).unwrap();
    let url = format!("{}://{host}:{}/", trust.scheme(), server.port());
    match client.get(url).send().await {
        Ok(_) => Ok(()),
        Err(error) => Err(Unanswered::of(error)),
    }
}

#[tokio::test]
async fn an_authority_vouches_for_what_it_signed_under_the_right_name_only() {
    let authority = self_signed("authority", true);
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&authority.params, &authority.key);
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let server = serve(certificate.der().clone(), &key).await;
    let trust = Trust::Only(authority.pem);
    assert_eq!(ask(trust.clone(), server, "localhost").await, Ok(()));
    let wrong_name = ask(trust, server, "127.0.0.1").await;
    assert!(
        matches!(wrong_name, Err(Unanswered::Untrusted(_))),
        "{wrong_name:?}"
    );
    let other = Trust::Only(self_signed("other", true).pem);
    let unknown = ask(other, server, "localhost").await;
    assert!(
        matches!(unknown, Err(Unanswered::Untrusted(_))),
        "{unknown:?}"
    );
    assert_eq!(ask(Trust::Anybody, server, "127.0.0.1").await, Ok(()));
    let machine = ask(Trust::Machine, server, "localhost").await;
    assert!(
        matches!(machine, Err(Unanswered::Untrusted(_))),
        "{machine:?}"
    );
}

#[tokio::test]
async fn a_certificate_that_nobody_else_signed_is_trusted_if_it_is_given() {
    for is_authority in [false, true] {
        let own = self_signed("vsa-00000001", is_authority);
        let server = serve(own.der.clone(), &own.key).await;
        assert_eq!(ask(Trust::Only(own.pem), server, "127.0.0.1").await, Ok(()));
        let similar = self_signed("vsa-00000001", is_authority);
        let refused = ask(Trust::Only(similar.pem), server, "127.0.0.1").await;
        assert!(
            matches!(refused, Err(Unanswered::Untrusted(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn the_wrong_scheme_is_named_and_nobody_at_all_is_told_apart() {
    let own = self_signed("localhost", false);
    let server = serve(own.der.clone(), &own.key).await;
    // What a TLS server makes of HTTP differs: it hangs up or sends an alert.
    assert!(ask(Trust::Plain, server, "127.0.0.1").await.is_err());
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 4096]).await;
    });
    let scheme = ask(Trust::Anybody, address, "127.0.0.1").await;
    assert_eq!(scheme, Err(Unanswered::Scheme("https")));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = nobody.local_addr().unwrap();
    drop(nobody);
    let refused = ask(Trust::Plain, free, "127.0.0.1").await;
    assert!(
        matches!(refused, Err(Unanswered::NotSent(_))),
        "{refused:?}"
    );
}

#[test]
fn what_is_not_a_certificate_is_refused() {
    for pem in [
        "",
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let refused = http_client(&Trust::Only(pem.to_owned()), Duration::from_secs(1));
        assert!(
            matches!(refused, Err(TrustError::Certificate(_))),
            "{pem:?}"
        );
    }
}
