use std::time::Duration;

use prometheus_client::registry::Registry;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::server::{Shutdown, Socket, serve};
use tokio::net::UnixListener;
use tokio::time::{pause, resume, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::socket::driver::{
    Driver, SOON, Served, connect, delete_request, endpoint_in, folder, routes, seen,
};

#[tokio::test]
async fn a_client_outlives_its_driver() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let connection = connect(&endpoint, &mut Registry::default());
    let mut identity = IdentityClient::new(connection);

    for _ in 0..3 {
        let served = Served::start_at(endpoint.clone(), SOON);
        identity.probe(ProbeRequest {}).await.unwrap();
        identity.probe(ProbeRequest {}).await.unwrap();
        served.stop().await;
    }
}

#[tokio::test]
async fn a_call_waits_for_a_driver_that_starts() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let mut identity = IdentityClient::new(connect(&endpoint, &mut Registry::default()));
    let call = tokio::spawn(async move { identity.probe(ProbeRequest {}).await });

    // A part of the patience of the connection, spent at once: nobody is there to answer.
    pause();
    sleep(Duration::from_secs(1)).await;
    assert!(!call.is_finished());
    resume();
    let _served = Served::start_at(endpoint, SOON);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn patience_ends_with_unavailable_and_the_path() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let mut identity = IdentityClient::new(impatient(&endpoint));
    for _ in 0..2 {
        let status = identity.probe(ProbeRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains("csi.sock"), "{status}");
    }
    // And it is not worn out by that.
    let _served = Served::start_at(endpoint, SOON);
    identity.probe(ProbeRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_driver_that_says_nothing_runs_into_the_deadline() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let _listener = UnixListener::bind(endpoint.path()).unwrap();
    let connection = impatient(&endpoint).with_timeout(Duration::from_millis(200));
    let mut identity = IdentityClient::new(connection);
    let call = timeout(SOON, identity.probe(ProbeRequest {})).await;
    let status = call.expect("an end").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

#[tokio::test]
async fn the_deadline_counts_while_there_is_no_socket() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let connection = connect(&endpoint, &mut Registry::default());
    let connection = connection.with_timeout(Duration::from_millis(200));
    let status = IdentityClient::new(connection)
        .probe(ProbeRequest {})
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

/// What the caller must hear is "repeat this call": nobody knows what became of it.
#[tokio::test]
async fn a_driver_that_dies_under_a_call_is_unavailable() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let driver = Driver::default();
    let socket = Socket::bind(&endpoint).unwrap();
    // A runtime of its own, to be able to die at once.
    let process = tokio::runtime::Runtime::new().unwrap();
    let shutdown = Shutdown {
        token: CancellationToken::new(),
        grace: SOON,
    };
    process.spawn(serve(
        socket,
        routes(&driver),
        ServerMetrics::default(),
        shutdown,
    ));
    let mut controller = ControllerClient::new(connect(&endpoint, &mut Registry::default()));
    let call = tokio::spawn(async move { controller.delete_volume(delete_request("wait")).await });
    seen(&driver.entered).await;
    process.shutdown_background();

    let status = call.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

fn impatient(endpoint: &stowage_csi::endpoint::Endpoint) -> Connection {
    let options = ClientOptions {
        // Longer than anything here is waited for.
        timeout: 60 * SOON,
        patience: Duration::from_millis(50),
        metrics: ClientMetrics::default(),
    };
    Connection::new(endpoint, options)
}
