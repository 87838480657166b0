use stowage_csi::metrics::ServerMetrics;
use stowage_csi::proto::registration::registration_client::RegistrationClient;
use stowage_csi::proto::registration::{InfoRequest, RegistrationStatus};
use stowage_csi::registration::{DriverRegistration, KubeletVerdict};
use stowage_csi::server::{Shutdown, Socket, serve};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::socket::driver::{SOON, connect, endpoint_in, folder};

#[tokio::test]
async fn the_kubelet_learns_the_driver_and_says_what_it_thinks() {
    let folder = folder();
    let endpoint = endpoint_in(&folder);
    let registration = DriverRegistration::new("test.csi", "/var/lib/kubelet/plugins/x/csi.sock");
    let mut verdict = registration.verdict();
    assert_eq!(*verdict.borrow_and_update(), KubeletVerdict::Pending);

    let token = CancellationToken::new();
    let server = tokio::spawn(serve(
        Socket::bind(&endpoint).unwrap(),
        Routes::new(registration.into_service()),
        ServerMetrics::default(),
        Shutdown {
            token: token.clone(),
            grace: SOON,
        },
    ));
    let connection = connect(
        &endpoint,
        &mut prometheus_client::registry::Registry::default(),
    );
    let mut kubelet = RegistrationClient::new(connection);

    let info = kubelet.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.r#type, "CSIPlugin");
    assert_eq!(info.name, "test.csi");
    assert_eq!(info.endpoint, "/var/lib/kubelet/plugins/x/csi.sock");
    assert_eq!(info.supported_versions, ["1.0.0"]);

    for (status, expected) in [
        (
            said(false, "no such node"),
            KubeletVerdict::Refused("no such node".to_owned()),
        ),
        (said(true, ""), KubeletVerdict::Registered),
    ] {
        kubelet.notify_registration_status(status).await.unwrap();
        let changed = tokio::time::timeout(SOON, verdict.changed()).await;
        changed.unwrap().unwrap();
        assert_eq!(*verdict.borrow_and_update(), expected);
    }

    token.cancel();
    server.await.unwrap().unwrap();
    assert!(
        !endpoint.path().exists(),
        "a removed socket takes the driver off the node"
    );
}

fn said(plugin_registered: bool, error: &str) -> RegistrationStatus {
    RegistrationStatus {
        plugin_registered,
        error: error.to_owned(),
    }
}
