use std::time::Duration;

use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::{
    CreateVolumeRequest, GetMetadataAllocatedRequest, NodeGetInfoRequest, ProbeRequest,
};
use tonic::{Code, Request};

use crate::socket::driver::{SOON, Served, delete_request, log, seen};
use crate::socket::raw::{Ended, RawClient, field};

const DELETE: &str = "/csi.v1.Controller/DeleteVolume";
const ALLOCATED: &str = "/csi.v1.SnapshotMetadata/GetMetadataAllocated";

/// How many calls of a method the server answered with a code.
fn answered(served: &Served, method: &str, code: &str) -> Option<String> {
    served.metric(&format!(
        "stowage_csi_server_call_seconds_count{{method_name=\"{method}\",grpc_status_code=\"{code}\"}}"
    ))
}

fn in_flight(served: &Served) -> Option<String> {
    served.metric(&format!(
        "stowage_csi_server_calls_in_flight{{method_name=\"{DELETE}\"}}"
    ))
}

/// Waits until the server has counted one such call: the client may know its end first.
async fn counted(served: &Served, method: &str, code: &str) {
    for _ in 0..500 {
        if answered(served, method, code).as_deref() == Some("1") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{method} with {code} was never counted");
}

#[tokio::test]
async fn what_a_driver_lacks_is_unimplemented() {
    let served = Served::start();
    let rpc = served
        .controller()
        .create_volume(CreateVolumeRequest::default())
        .await;
    assert_eq!(rpc.unwrap_err().code(), Code::Unimplemented);

    let mut node = NodeClient::new(served.connection.clone());
    let service = node.node_get_info(NodeGetInfoRequest {}).await;
    assert_eq!(service.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_panic_ends_its_call_only() {
    let served = Served::start();
    let status = served
        .controller()
        .delete_volume(delete_request("panic"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(
        !status.message().contains("the test asked for it"),
        "{status}"
    );

    served
        .controller()
        .delete_volume(delete_request("vol-1"))
        .await
        .unwrap();
    served.identity().probe(ProbeRequest {}).await.unwrap();
    let panics = format!("stowage_csi_server_panics_total{{method_name=\"{DELETE}\"}}");
    assert_eq!(served.metric(&panics).as_deref(), Some("1"));
    counted(&served, DELETE, "Internal").await;
}

#[tokio::test]
async fn a_deadline_drops_the_work() {
    let served = Served::start();
    let mut request = Request::new(delete_request("wait"));
    request.set_timeout(Duration::from_millis(300));
    let status = served
        .controller()
        .delete_volume(request)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");

    seen(&served.driver.entered).await;
    seen(&served.driver.dropped).await;
    // With the work the lock is gone.
    assert!(served.driver.locks.lock("wait").is_ok());
}

#[tokio::test]
async fn a_call_without_a_deadline_gets_the_connections() {
    let served = Served::start();
    let status = served.delete("deadline").await.unwrap().unwrap_err();
    assert!(status.message().contains("\"10000m\""), "{status}");

    let mut request = Request::new(delete_request("deadline"));
    request.set_timeout(Duration::from_secs(7));
    let status = served
        .controller()
        .delete_volume(request)
        .await
        .unwrap_err();
    assert!(status.message().contains("\"7000000u\""), "{status}");
}

/// The server keeps the deadline by itself, and answers as the specification says: the transport, which watches
/// the same header, would say "cancelled".
#[tokio::test]
async fn a_deadline_holds_when_the_caller_goes_on_waiting() {
    let served = Served::start();
    let mut client = RawClient::connect(served.endpoint.path()).await;
    let fields = [field(0, &["grpc-timeout", "300m"])];

    let ended = client.call(DELETE, &fields, b"\x0a\x04wait").await;
    assert_eq!(ended, Ended::WithoutData);
    seen(&served.driver.dropped).await;
    counted(&served, DELETE, "DeadlineExceeded").await;
    assert_eq!(in_flight(&served).as_deref(), Some("0"));

    let ended = client.call(ALLOCATED, &fields, b"\x0a\x04wait").await;
    assert_eq!(ended, Ended::WithData);
    seen(&served.driver.dropped).await;
    counted(&served, ALLOCATED, "DeadlineExceeded").await;
}

#[tokio::test]
async fn a_caller_that_leaves_drops_the_work() {
    let served = Served::start();
    let call = served.delete("wait");
    seen(&served.driver.entered).await;
    call.abort();
    seen(&served.driver.dropped).await;
    counted(&served, DELETE, "Canceled").await;
    assert_eq!(in_flight(&served).as_deref(), Some("0"));
}

#[tokio::test]
async fn a_second_call_for_a_volume_is_aborted() {
    let served = Served::start();
    let first = served.delete("wait-1");
    seen(&served.driver.entered).await;
    assert_eq!(in_flight(&served).as_deref(), Some("1"));

    let status = served.delete("wait-1").await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert!(status.message().contains("`wait-1`"), "{status}");
    served.delete("vol-2").await.unwrap().unwrap();

    served.driver.gate.add_permits(2);
    first.await.unwrap().unwrap();
    served.delete("wait-1").await.unwrap().unwrap();
}

#[tokio::test]
async fn both_sides_count_a_call() {
    let served = Served::start();
    served.delete("vol-1").await.unwrap().unwrap();
    counted(&served, DELETE, "OK").await;
    assert_eq!(in_flight(&served).as_deref(), Some("0"));
    let labels =
        format!("driver_name=\"test.csi\",method_name=\"{DELETE}\",grpc_status_code=\"OK\"");
    let count = served.metric(&format!("csi_sidecar_operations_seconds_count{{{labels}}}"));
    assert_eq!(count.as_deref(), Some("1"));
    let bucket = format!("csi_sidecar_operations_seconds_bucket{{le=\"600.0\",{labels}}}");
    assert_eq!(served.metric(&bucket).as_deref(), Some("1"));
}

#[tokio::test]
async fn a_stream_is_counted_when_it_ends() {
    let served = Served::start();
    let mut stream = allocated(&served, "all", None).await;
    for _ in 0..3 {
        assert!(stream.message().await.unwrap().is_some());
    }
    assert!(stream.message().await.unwrap().is_none());
    counted(&served, ALLOCATED, "OK").await;
}

#[tokio::test]
async fn a_panic_in_a_stream_ends_the_stream() {
    let served = Served::start();
    let mut stream = allocated(&served, "panic", None).await;
    // The messages before it may or may not have been sent by then.
    let status = loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "the stream just ended"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Internal);
    counted(&served, ALLOCATED, "Internal").await;
    served.identity().probe(ProbeRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_deadline_ends_a_stream() {
    let served = Served::start();
    let mut stream = allocated(&served, "wait", Some(Duration::from_millis(300))).await;
    assert!(stream.message().await.unwrap().is_some());
    assert!(stream.message().await.unwrap().is_some());
    let third = tokio::time::timeout(SOON, stream.message()).await;
    let status = third.expect("an end").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    seen(&served.driver.dropped).await;
}

async fn allocated(
    served: &Served,
    id: &str,
    timeout: Option<Duration>,
) -> tonic::Streaming<stowage_csi::proto::csi::GetMetadataAllocatedResponse> {
    let mut request = Request::new(GetMetadataAllocatedRequest {
        snapshot_id: id.to_owned(),
        ..Default::default()
    });
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    let mut metadata = served.metadata();
    let answer = metadata.get_metadata_allocated(request).await;
    answer.expect("a stream").into_inner()
}

#[tokio::test]
async fn the_log_names_call_and_volume_and_no_secret() {
    let served = Served::start();
    let _busy = served.driver.locks.lock("logged-2").unwrap();
    for (id, secret) in [
        ("logged-1", "hunter2"),
        ("logged-2", "hunter3"),
        ("panic", "hunter4"),
    ] {
        let mut request = Request::new(delete_request(id));
        let secret = ("password".to_owned(), secret.to_owned());
        request.get_mut().secrets.extend([secret]);
        let _ = served.controller().delete_volume(request).await;
    }
    counted(&served, DELETE, "Internal").await;

    let text = log().text();
    assert!(!text.contains("hunter"), "a secret in the log");
    assert!(
        text.contains("secrets: ***"),
        "the request is shown without them"
    );
    for (level, volume, code) in [("INFO", "logged-1", "OK"), ("WARN", "logged-2", "Aborted")] {
        let line = text.lines().find(|line| {
            line.contains(level)
                && line.contains(DELETE)
                && line.contains(&format!("volume_id=\"{volume}\""))
                && line.contains(&format!("status=\"{code}\""))
        });
        assert!(line.is_some(), "{level} {volume} {code} in {text}");
    }
    // A panic is for a person to look at.
    assert!(text.contains("ERROR csi{"), "{text}");
}
