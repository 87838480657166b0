//! Ports: several, one by one, IPv6, HTTPS.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::rest::client::{Client, Rig};

#[tokio::test]
async fn endpoints_stop_and_start_one_by_one() {
    let rig = Rig::start(|options| {
        options.listen = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    })
    .await;
    let control = rig.array.control();
    let endpoints = rig.array.endpoints();
    let clients = [0, 1].map(|n| Client::anonymous(&format!("http://{}/api/v2", endpoints[n])));
    let answers = |n: usize| {
        let client = clients[n].clone();
        async move {
            client
                .call(reqwest::Method::GET, "cluster", None)
                .await
                .is_ok()
        }
    };
    assert!(answers(0).await && answers(1).await);
    control.stop_endpoint(0).await.unwrap();
    assert!(!answers(0).await && answers(1).await);
    control.start_endpoint(0).await.unwrap();
    control.stop_endpoint(1).await.unwrap();
    assert!(answers(0).await && !answers(1).await);
    assert!(control.stop_endpoint(2).await.is_err());

    let admin = rig.admin().await;
    let processes = admin.get("processes").await;
    let address: SocketAddr = endpoints[1].parse().unwrap();
    let second = &processes.data()[1];
    assert_eq!(second["ips"], json!(["::1"]));
    assert_eq!(second["mgmt_port"], address.port());
    assert_eq!(second["status"], "DOWN");
    assert_eq!(second["roles"], json!(["MANAGEMENT"]));
    assert_eq!(second["mode"], "backend");
}

#[tokio::test]
async fn https_is_trusted_with_the_certificate_that_was_written_and_only_with_it() {
    let rig = Rig::start(|options| options.tls = true).await;
    assert!(rig.array.url().starts_with("https://"));
    let url = format!("{}/cluster", rig.array.url());
    assert!(reqwest::get(&url).await.is_err());
    let certificate = rig.array.ca_certificate().unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap()])
        .build()
        .unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn latency_holds_every_answer_back() {
    let rig = Rig::start(|_| {}).await;
    let client = rig.admin().await;
    rig.array
        .control()
        .turn(|knobs| knobs.latency = 100)
        .await
        .unwrap();
    let begin = Instant::now();
    client.get("cluster").await.data();
    assert!(begin.elapsed() >= Duration::from_millis(100));
}
