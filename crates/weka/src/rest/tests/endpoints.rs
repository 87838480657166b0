//! Several endpoints, dead ones, and how they are reached.

use std::time::{Duration, Instant};

use stowage_sim::weka::control::faults::Trouble;

use super::{Rig, SECURE, clusters};
use crate::rest::client::ClientOptions;
use crate::rest::{ApiError, Deadline};

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
    rig.fault("fileSystems", None, Trouble::Delay(30_000)).await;
    let begun = Instant::now();
    let slow = rig.api_within(Duration::from_millis(700), &[]);
    let quick = async {
        let deadline = Deadline::after(Duration::from_secs(20));
        let api = rig
            .clusters
            .of_request(&other.secret(&[]), deadline)
            .unwrap()
            .unwrap();
        api.filesystem("default").await.unwrap().unwrap();
        begun.elapsed()
    };
    let (slow, quick) = tokio::join!(slow.filesystem("default"), quick);
    assert!(matches!(
        slow,
        Err(ApiError::Deadline { .. } | ApiError::Unreachable { .. })
    ));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(quick < Duration::from_secs(5), "{quick:?}");
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
