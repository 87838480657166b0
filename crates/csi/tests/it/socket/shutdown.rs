use std::time::{Duration, Instant};

use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use tokio::net::UnixStream;
use tonic::Code;

use crate::socket::driver::{SOON, Served, connect, endpoint_in, folder, seen};

#[tokio::test]
async fn a_call_under_way_may_finish() {
    let served = Served::start();
    let call = served.delete("wait");
    seen(&served.driver.entered).await;
    served.shutdown.cancel();

    // From now on nobody gets in, while the first call goes on.
    gone(&served).await;
    assert!(!call.is_finished());
    assert!(!served.server.is_finished());

    served.driver.gate.add_permits(1);
    call.await.unwrap().unwrap();
    served.stop().await;
}

/// Waits until the socket's file is removed.
async fn gone(served: &Served) {
    let path = served.endpoint.path();
    for _ in 0..500 {
        if !path.exists() {
            UnixStream::connect(path).await.expect_err("no socket");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the socket is still there");
}

#[tokio::test]
async fn a_call_that_outlives_the_grace_period_is_unavailable() {
    let folder = folder();
    let served = Served::start_at(endpoint_in(&folder), Duration::from_millis(200));
    let call = served.delete("wait");
    seen(&served.driver.entered).await;

    let begun = Instant::now();
    let dropped = served.driver.dropped.clone();
    served.stop().await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    let status = call.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("shutting down"), "{status}");
    seen(&dropped).await;
}

#[tokio::test]
async fn an_idle_client_does_not_hold_up_the_end() {
    let folder = folder();
    // Longer than anything here is waited for.
    let served = Served::start_at(endpoint_in(&folder), 60 * SOON);
    served.identity().probe(ProbeRequest {}).await.unwrap();
    // A connection that never speaks at all.
    let _silent = UnixStream::connect(served.endpoint.path()).await.unwrap();
    let other = connect(
        &served.endpoint,
        &mut prometheus_client::registry::Registry::default(),
    );
    IdentityClient::new(other)
        .probe(ProbeRequest {})
        .await
        .unwrap();

    served.stop().await;
}
