//! Several endpoints, dead ones, and how they are reached.

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use stowage_sim::weka::control::faults::{Fault, Trouble};
use tokio::time::timeout;

use super::{Rig, SECURE, clusters};
use crate::metrics::Metrics;
use crate::rest::client::ClientOptions;
use crate::rest::clusters::LegacySecret;
use crate::rest::{ApiError, Clusters, Deadline};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_die_one_after_the_other_and_calls_go_on() {
    let rig = Rig::with(|options| options.listen = vec![options.listen[0]; 3]).await;
    let control = rig.array.control();
    for stopped in 0..2 {
        rig.api().filesystem("default").await.unwrap().unwrap();
        control.stop_endpoint(stopped).await.unwrap();
        for _ in 0..3 {
            rig.api().filesystem("default").await.unwrap().unwrap();
        }
    }
    control.start_endpoint(0).await.unwrap();
    control.stop_endpoint(2).await.unwrap();
    rig.api().filesystem("default").await.unwrap().unwrap();
    control.stop_endpoint(0).await.unwrap();
    let error = rig
        .api_within(Duration::from_secs(3), &[])
        .filesystem("default")
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ApiError::Unreachable { .. } | ApiError::Deadline { .. }
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_a_call_and_a_dead_cluster_holds_up_no_other() {
    let rig = Rig::new().await;
    let other = Rig::new().await;
    rig.api().facts().await.unwrap();
    rig.fault("fileSystems", Some(1), Trouble::Hold).await;
    let dead = rig.api_within(Duration::from_secs(3600), &[]);
    let dead = tokio::spawn(async move { dead.filesystem("default").await });
    rig.struck().await;
    let deadline = Deadline::after(Duration::from_secs(60));
    let api = rig
        .clusters
        .of_request(&other.secret(&[]), deadline)
        .unwrap()
        .unwrap();
    api.filesystem("default").await.unwrap().unwrap();
    assert!(!dead.is_finished());
    dead.abort();
    rig.fault("fileSystems", None, Trouble::Hold).await;
    let late = rig.api_within(Duration::from_millis(700), &[]);
    let late = timeout(Duration::from_secs(60), late.filesystem("default")).await;
    assert!(matches!(
        late.expect("it ends"),
        Err(ApiError::Deadline { .. } | ApiError::Unreachable { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_trusted_where_the_secret_says_so() {
    let rig = Rig::with(|options| options.tls = true).await;
    let error = rig.api().facts().await.unwrap_err();
    assert!(matches!(error, ApiError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("`caCertificate`"), "{error}");
    let authority = std::fs::read_to_string(rig.directory.path().join("data/ca.pem")).unwrap();
    let trusted = rig.api_within(Duration::from_secs(20), &[("caCertificate", &authority)]);
    trusted.facts().await.unwrap();
    let insecure = clusters(ClientOptions {
        insecure: true,
        ..SECURE
    });
    let api = insecure.of_request(&rig.secret(&[]), Deadline::after(Duration::from_secs(20)));
    api.unwrap().unwrap().facts().await.unwrap();
    let nonsense = rig.clusters.of_request(
        &rig.secret(&[("caCertificate", "nonsense")]),
        Deadline::after(Duration::from_secs(20)),
    );
    assert!(nonsense.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_broken_in_its_own_way_is_left_for_another() {
    let rig = Rig::with(|options| {
        options.tls = true;
        options.listen = vec![options.listen[0]; 2];
    })
    .await;
    let authority = rig.array.ca_certificate().unwrap();
    let time = Duration::from_secs(20);
    // One speaks another protocol, one has a certificate that nobody trusts: each may be the one that is asked first.
    let plain = Rig::new().await;
    let stranger = Rig::with(|options| options.tls = true).await;
    for broken in [&plain, &stranger] {
        let endpoints = [&broken.array, &rig.array].map(|array| array.endpoints()[0].clone());
        for attempt in 0..8 {
            let secret = [
                ("endpoints", endpoints.join(",")),
                ("caCertificate", authority.clone()),
                ("localContainerName", attempt.to_string()),
            ];
            let secret = secret.each_ref().map(|(key, value)| (*key, value.as_str()));
            rig.api_within(time, &secret).facts().await.unwrap();
        }
    }
    let trusting = [("caCertificate", authority.as_str())];
    rig.array
        .control()
        .add_fault(Fault {
            endpoint: Some(0),
            trouble: Trouble::Refuse(500),
            ..Fault::default()
        })
        .await
        .unwrap();
    for _ in 0..4 {
        let api = rig.api_within(time, &trusting);
        api.filesystem("default").await.unwrap().unwrap();
    }
    // Where all say so, it is said at once: none is asked again.
    rig.fault("fileSystems", None, Trouble::Refuse(500)).await;
    rig.seen("fileSystems").await;
    let error = rig
        .api_within(time, &trusting)
        .filesystem("default")
        .await
        .unwrap_err();
    assert!(
        matches!(error, ApiError::Refused { status: 500, .. }),
        "{error}"
    );
    assert_eq!(rig.seen("fileSystems").await, 2);
}

/// A certificate that is its own authority, as `openssl req -x509` makes it, for one name.
fn own_certificate(data: &Path, name: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    std::fs::create_dir_all(data).unwrap();
    std::fs::write(data.join("server.pem"), &pem).unwrap();
    std::fs::write(data.join("server.key"), key.serialize_pem()).unwrap();
    pem
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_its_own_authority_is_trusted_where_the_secret_has_it() {
    for (name, trusted) in [("127.0.0.1", true), ("weka.example", false)] {
        let mut pem = String::new();
        let rig = Rig::with(|options| {
            options.tls = true;
            pem = own_certificate(&options.data, name);
        })
        .await;
        let error = rig.api().facts().await.unwrap_err();
        assert!(matches!(error, ApiError::Untrusted { .. }), "{error}");
        let other = own_certificate(&rig.directory.path().join("other"), name);
        for (certificate, trusted) in [(&pem, trusted), (&other, false)] {
            let secret = [("caCertificate", certificate.as_str())];
            let answer = rig
                .api_within(Duration::from_secs(20), &secret)
                .facts()
                .await;
            assert_eq!(answer.is_ok(), trusted, "{name}: {:?}", answer.err());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_legacy_secret_has_the_keys_and_defaults_of_any_other() {
    let rig = Rig::with(|options| options.tls = true).await;
    let directory = rig.directory.path().join("legacy");
    std::fs::create_dir_all(directory.join("..data")).unwrap();
    let legacy = LegacySecret {
        directory: directory.clone(),
        name: None,
    };
    let clusters = Clusters::new(SECURE, legacy, Metrics::default());
    let api = || clusters.of_legacy_secret(Deadline::after(Duration::from_secs(20)));
    let error = api().err().unwrap().to_string();
    assert!(error.contains("create the Secret"), "{error}");
    std::fs::write(directory.join("username"), "admin").unwrap();
    let error = api().err().unwrap().to_string();
    assert!(error.contains("`endpoints`"), "{error}");
    let authority = rig.array.ca_certificate().unwrap();
    let mut secret = rig.secret(&[("caCertificate", &authority)]);
    secret.remove("organization");
    for (key, value) in &secret {
        std::fs::write(directory.join(key), value).unwrap();
    }
    api().unwrap().unwrap().facts().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_version_6_are_written_as_urls_want_them() {
    let rig = Rig::with(|options| options.listen = vec!["[::1]:0".parse().unwrap()]).await;
    rig.api().filesystem("default").await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_tells_its_other_addresses_to_those_who_ask() {
    let rig = Rig::with(|options| options.listen = vec![options.listen[0]; 2]).await;
    let first = rig.array.endpoints()[0].clone();
    let secret = [
        ("endpoints", first.as_str()),
        ("autoUpdateEndpoints", "true"),
    ];
    let time = Duration::from_secs(20);
    rig.api_within(time, &secret).facts().await.unwrap();
    rig.array.control().stop_endpoint(0).await.unwrap();
    rig.api_within(time, &secret)
        .filesystem("default")
        .await
        .unwrap()
        .unwrap();
}
